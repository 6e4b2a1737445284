package config

import (
	"slices"

	"conclave/engine/pipeline"
)

// Pipeline is the definition of a step graph: named steps and the rules that lead from
// one to the next. Its tags specify the keys, as those of Team do.
type Pipeline struct {
	Start  string         `json:"start" doc:"The step that a run begins with."`
	Agents []Agent        `json:"agents,omitempty" doc:"The agents that the steps name, as in a team."`
	Steps  []PipelineStep `json:"steps" doc:"The steps of the graph."`
	Limits pipelineLimits `json:"limits" doc:"Bounds that end an endless run."`

	OnStepFailure string `json:"on_step_failure" default:"stop" enum:"stop,park" doc:"When a step fails for good: stop ends the run with the status error; park waits for retry or cancel."`
}

type pipelineLimits struct {
	MaxTransitions int `json:"max_transitions" default:"100" min:"1" max:"1000" doc:"How often control passes from step to step, calls and returns included."`
	MaxCallDepth   int `json:"max_call_depth" default:"8" min:"1" max:"32" doc:"How many callers can wait for a step that they called."`
}

// PipelineStep is one step of a graph.
type PipelineStep struct {
	Name          string        `json:"name" doc:"The step's name: a lower-case letter, then up to 31 lower-case letters, digits, _ or -."`
	Kind          pipeline.Kind `json:"kind" default:"agent" enum:"agent,tools,session" doc:"agent is a model with tools; tools is a list of tool calls without a model; session is a team whose decision is the step's text."`
	Agent         string        `json:"agent,omitempty" doc:"The agent that runs the step, or, for a tools step, lends its tools; without a name the first one."`
	Prompt        string        `json:"prompt,omitempty" doc:"The system message of an agent's step; put before the request of a session's."`
	Destinations  []string      `json:"destinations,omitempty" doc:"The steps that jump_to_step and call_step can name; for agents only."`
	Next          []branch      `json:"next,omitempty" single:"true" shorthand:"to" doc:"Where the run goes on when the step has ended and no caller waits for it: a step, or a list of {when: {status: max_iterations}, to: STEP}, of which the first match counts."`
	MaxIterations int           `json:"max_iterations" default:"50" min:"1" max:"10000" doc:"How many model calls the step can make, those after a call it made included."`
	History       bool          `json:"history" default:"false" doc:"Whether the step is shown the texts of those before it."`

	Calls []toolUse `json:"calls,omitempty" doc:"The tool calls of a tools step, in order."`

	Team   string `json:"team,omitempty" doc:"The team of a session step: a name from the worker's configuration."`
	Config *Team  `json:"config,omitempty" doc:"The team of a session step, in place of a name."`
}

// branch is one rule that leads to the next step.
type branch struct {
	When condition `json:"when" doc:"The condition on the step that ended; without one the rule always applies."`
	To   string    `json:"to" doc:"The step that comes next."`
}

type condition struct {
	Status string `json:"status,omitempty" enum:"completed,max_iterations" doc:"How the step ended."`
}

type toolUse struct {
	Tool string         `json:"tool" doc:"The tool's name."`
	Args map[string]any `json:"args,omitempty" doc:"The arguments of the call."`
}

// Step returns the step with the given name.
func (p Pipeline) Step(name string) (PipelineStep, bool) {
	i := slices.IndexFunc(p.Steps, func(s PipelineStep) bool { return s.Name == name })
	if i < 0 {
		return PipelineStep{}, false
	}
	return p.Steps[i], true
}

// Player returns the agent that runs a step or lends it tools.
func (p Pipeline) Player(s PipelineStep) (Agent, bool) {
	if s.Agent == "" && len(p.Agents) > 0 {
		return p.Agents[0], true
	}
	return Team{Agents: p.Agents}.Agent(s.Agent)
}

// Offline returns the pipeline with the built-in deterministic model behind every
// agent. Steps without a model run as configured: agents keep the tools that
// such steps use.
func (p Pipeline) Offline() Pipeline {
	original := p
	p.Agents = Team{Agents: p.Agents}.Offline().Agents
	for _, s := range p.Steps {
		lender, ok := original.Player(s)
		if s.Kind != pipeline.Tools || !ok {
			continue
		}
		i := slices.IndexFunc(p.Agents, func(a Agent) bool { return a.ID == lender.ID })
		p.Agents[i].Tools, p.Agents[i].MCPServers = lender.Tools, lender.MCPServers
	}
	p.Steps = slices.Clone(p.Steps)
	for i, s := range p.Steps {
		if s.Config != nil {
			team := s.Config.Offline()
			p.Steps[i].Config = &team
		}
	}
	return p
}

// PlaysOffline reports whether the built-in deterministic model is behind any agent.
func (p Pipeline) PlaysOffline() bool {
	offline := func(a Agent) bool { return a.Backend.Type == Offline }
	return slices.ContainsFunc(p.Agents, offline) || slices.ContainsFunc(p.Steps, func(s PipelineStep) bool {
		return s.Config != nil && slices.ContainsFunc(s.Config.Agents, offline)
	})
}

// Canonical returns the pipeline as JSON with every default resolved.
// ParsePipeline reads it back unchanged.
func (p Pipeline) Canonical() ([]byte, error) { return canonical("pipeline", p) }

// Hash returns the SHA-256 of the canonical form in hex, or "" if Canonical fails.
func (p Pipeline) Hash() string { return hash(p.Canonical()) }
