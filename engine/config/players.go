package config

import (
	"cmp"

	"conclave/engine/pipeline"
)

// Player returns the agent that runs a step, or whose tools the step calls. The step's own
// tools and servers replace those of the agent.
func (p Pipeline) Player(s PipelineStep) (Agent, bool) {
	a, ok := p.agent(s)
	if s.Tools != nil {
		a.Tools = *s.Tools
	}
	if s.MCPServers != nil {
		a.MCPServers = *s.MCPServers
	}
	return a, ok
}

func (p Pipeline) agent(s PipelineStep) (Agent, bool) {
	if s.Agent == "" && len(p.Agents) > 0 {
		return p.Agents[0], true
	}
	return Team{Agents: p.Agents}.Agent(s.Agent)
}

// Teams returns the agents and teams that must be available before a run starts: the
// agents, the agents of steps with their own tools or limits, and the teams in the file.
// Each has the limit in dollars that applies to it.
func (p Pipeline) Teams() []Team {
	var teams []Team
	if len(p.Agents) > 0 {
		teams = append(teams, Team{Agents: p.Agents}.Within(0, p.CostLimit(PipelineStep{})))
	}
	for _, s := range p.Steps {
		limit := p.CostLimit(s)
		switch player, ok := p.Player(s); {
		case s.Kind == pipeline.Session && s.Config != nil:
			teams = append(teams, s.Config.Within(0, limit))
		case s.Kind != pipeline.Session && ok && (s.Tools != nil || s.MCPServers != nil || s.Limits.CostUSD != nil):
			teams = append(teams, Team{Agents: []Agent{player}}.Within(0, limit))
		}
	}
	return teams
}

// CostLimit returns the limit in dollars of a step, or else of the run; 0 is no limit.
func (p Pipeline) CostLimit(s PipelineStep) float64 {
	return *cmp.Or(s.Limits.CostUSD, p.Limits.CostUSD, new(float64))
}

// Within returns the team with its time limit, in whole seconds from 1, and its budget
// lowered to the given seconds and dollars; 0 lowers nothing.
func (t Team) Within(seconds, usd float64) Team {
	if seconds > 0 {
		t.Timeouts.OrchestratorTimeoutSeconds = min(t.Timeouts.OrchestratorTimeoutSeconds, max(1, int(seconds)))
	}
	if budget := &t.Orchestrator.Budget; usd > 0 && (budget.MaxCostUSD == nil || *budget.MaxCostUSD > usd) {
		budget.MaxCostUSD = &usd
	}
	return t
}
