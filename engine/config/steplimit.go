package config

import (
	"slices"

	"conclave/engine/pipeline"
)

// checkStepLimits checks the limits of one visit of a step and of all its visits.
func (d *Decoder) checkStepLimits(key string, s PipelineStep, p Pipeline, names []string) {
	l := s.Limits
	if s.Kind != pipeline.Agent && l.ModelCalls != nil {
		d.Report(key+".limits.model_calls", "has no meaning for a step of kind %s; remove it", s.Kind)
	}
	if s.Kind == pipeline.Tools && l.CostUSD != nil {
		d.Report(key+".limits.cost_usd", "a step of kind tools costs nothing; remove it")
	}
	d.checkCost(key+".limits.cost_usd", l.CostUSD)
	d.checkVisits(key+".max_visits", s, p, names)
}

// checkCost refuses a limit of 0 dollars.
func (d *Decoder) checkCost(key string, usd *float64) {
	if usd != nil && *usd == 0 {
		d.Report(key, "a limit of 0 dollars allows no model call; give an amount above 0, or null for no limit")
	}
}

// checkVisits checks the step that replaces a step with max_visits once its visits are used
// up.
func (d *Decoder) checkVisits(key string, s PipelineStep, p Pipeline, names []string) {
	if s.MaxVisits == nil || s.MaxVisits.Then == "" {
		return
	}
	if !slices.Contains(names, s.MaxVisits.Then) {
		d.Name(key+".then", s.MaxVisits.Then, "a step", names)
		return
	}
	at := s
	for range p.Steps {
		if at.MaxVisits == nil || at.MaxVisits.Then == "" {
			return
		}
		at, _ = p.Step(at.MaxVisits.Then)
		if at.Name == s.Name {
			d.Report(key+".then", "leads back to %s, which is not entered again; name a step after the loop", s.Name)
			return
		}
	}
}

// checkStepTools checks the MCP servers of a step like those of an agent.
func (d *Decoder) checkStepTools(key string, s PipelineStep) {
	if s.MCPServers == nil {
		return
	}
	d.checkServers(key+".mcp_servers", *s.MCPServers)
	if d.reach.cluster {
		d.checkServerReach(key+".mcp_servers", *s.MCPServers)
	}
}
