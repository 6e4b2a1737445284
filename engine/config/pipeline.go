package config

import (
	"encoding/json"
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

	OnStepFailure string `json:"on_step_failure" default:"stop" enum:"stop,park" doc:"When a step fails for good and no rule names its failure: stop ends the run with the status error; park waits for retry or cancel."`
}

// parkOnStepFailure is the OnStepFailure with which a failed step waits for a person.
const parkOnStepFailure = "park"

type pipelineLimits struct {
	MaxTransitions int `json:"max_transitions" default:"100" min:"1" max:"1000" doc:"How often control passes from step to step, calls and returns included."`
	MaxCallDepth   int `json:"max_call_depth" default:"8" min:"1" max:"32" doc:"How many callers can wait for a step that they called."`

	Seconds *int     `json:"seconds,omitempty" min:"1" max:"31536000" doc:"How long a run may take, without the time it is paused or parked; then it ends with the status error. null: no limit."`
	CostUSD *float64 `json:"cost_usd,omitempty" min:"0" doc:"US dollars that a run may spend, more than 0; then it ends with the status error. Every model needs a known price. null: no limit."`
}

// StepLimits bound all visits of a step together. nil sets no limit.
type StepLimits struct {
	Seconds    *int     `json:"seconds,omitempty" min:"1" max:"31536000" doc:"How long the step may take in all its visits; then it ends with the status error. null: no limit."`
	ModelCalls *int     `json:"model_calls,omitempty" min:"1" doc:"How many model calls the step may make in all its visits; then it ends with the status max_iterations. null: no limit."`
	CostUSD    *float64 `json:"cost_usd,omitempty" min:"0" doc:"US dollars that the step may spend in all its visits, more than 0; then it ends with the status error. Every model needs a known price. null: no limit."`
}

// visits limits how often a step is entered.
type visits struct {
	Count int    `json:"count" default:"1" min:"1" max:"1000" doc:"How often the step may be entered. Returns from calls and retries are not counted."`
	Then  string `json:"then,omitempty" doc:"The step that is entered instead after that; without one the run ends."`
}

// PipelineStep is one step of a graph.
type PipelineStep struct {
	Name          string        `json:"name" doc:"The step's name: a lower-case letter, then up to 31 lower-case letters, digits, _ or -."`
	Kind          pipeline.Kind `json:"kind" default:"agent" enum:"agent,tools,session" doc:"agent is a model with tools; tools is a list of tool calls without a model; session is a team whose decision is the step's text."`
	Agent         string        `json:"agent,omitempty" doc:"The agent that runs the step, or, for a tools step, lends its tools; without a name the first one."`
	Prompt        string        `json:"prompt,omitempty" doc:"The system message of an agent's step; put before the request of a session's."`
	Destinations  []string      `json:"destinations,omitempty" doc:"The steps that jump_to_step and call_step can name; for agents only."`
	Next          []branch      `json:"next,omitempty" single:"true" shorthand:"to" doc:"Where the run goes on when the step has ended and no caller waits for it: a step, or a list of {when: {status: max_iterations}, to: STEP}, of which the first match counts."`
	MaxIterations int           `json:"max_iterations" default:"50" min:"1" max:"10000" doc:"How many model calls the step can make in one visit, those after a call it made included."`
	MaxVisits     *visits       `json:"max_visits,omitempty" doc:"How often the step is entered, and the step that takes its place after that: {count: 3, then: STEP}. null: no limit."`
	Limits        StepLimits    `json:"limits,omitzero" doc:"Limits of all visits of the step together."`
	History       history       `json:"history" default:"none" enum:"all,last,none" booleans:"all,none" doc:"Which texts of the steps before it the step is shown: all of them, the last of every step, or none. true is all, false is none."`

	Tools      *builtinTools `json:"tools,omitempty" doc:"The built-in tools of the step, in place of its agent's."`
	MCPServers *[]MCPServer  `json:"mcp_servers,omitempty" shorthand:"name" doc:"The MCP servers of the step, in place of its agent's, in the same form."`

	Calls       []toolUse `json:"calls,omitempty" doc:"The tool calls of a tools step, in order."`
	OnToolError string    `json:"on_tool_error,omitempty" default:"continue" enum:"continue,fail" doc:"When a call of a tools step fails: continue makes the next call and ends the step as completed; fail makes no other call and ends the step with the status error."`

	Team   string `json:"team,omitempty" doc:"The team of a session step: a name from the worker's configuration."`
	Config *Team  `json:"config,omitempty" doc:"The team of a session step, in place of a name."`
}

// MarshalJSON omits the keys of later versions if they have their defaults, so that the
// hashes of existing runs do not change.
func (s PipelineStep) MarshalJSON() ([]byte, error) {
	type plain PipelineStep
	if s.OnToolError == Defaults[PipelineStep]().OnToolError {
		s.OnToolError = ""
	}
	return json.Marshal(plain(s))
}

// StopsAtFailure reports whether a failed call fails the step.
func (s PipelineStep) StopsAtFailure() bool { return s.OnToolError == failOnToolError }

// Patterns returns text_matches of each next rule.
func (s PipelineStep) Patterns() []string {
	var patterns []string
	for _, b := range s.Next {
		patterns = append(patterns, b.When.TextMatches)
	}
	return patterns
}

// branch is one rule that leads to the next step.
type branch struct {
	When condition `json:"when" doc:"The condition on the step that ended; without one the rule always applies."`
	To   string    `json:"to" doc:"The step that comes next."`
}

// condition is a condition on the end of a step. It holds if all its keys match.
type condition struct {
	Status      string `json:"status,omitempty" enum:"completed,max_iterations,error,consensus,plurality,presented,finished,limit,timeout,budget,undecided,failed,cancelled" doc:"How the step ended: completed, max_iterations or error; for a step of kind session also the status of the session."`
	ExitCode    *int   `json:"exit_code,omitempty" min:"0" max:"255" doc:"The exit code of the commands of a tools step: the first other than 0, else 0."`
	Failed      *bool  `json:"failed,omitempty" doc:"Whether the step, or a tool call of a tools step, failed."`
	TextMatches string `json:"text_matches,omitempty" doc:"A regular expression (RE2) that matches the step's text somewhere."`
}

// history is a pipeline.Policy as written in files.
type history string

// The values of history.
const (
	allHistory  history = "all"
	lastHistory history = "last"
	noHistory   history = "none"
)

// MarshalJSON writes all and none as booleans, so that the hashes of older files do not
// change.
func (h history) MarshalJSON() ([]byte, error) {
	switch h {
	case allHistory:
		return []byte("true"), nil
	case noHistory:
		return []byte("false"), nil
	}
	return json.Marshal(string(h))
}

// Policy returns the policy of the pipeline.
func (h history) Policy() pipeline.Policy {
	switch h {
	case allHistory:
		return pipeline.AllTexts
	case lastHistory:
		return pipeline.LastTexts
	}
	return pipeline.HideTexts
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

// Offline returns the pipeline with the built-in deterministic model behind every agent.
// Steps without a model run as configured, so agents keep the tools that such steps use.
func (p Pipeline) Offline() Pipeline {
	original := p
	p.Agents = Team{Agents: p.Agents}.Offline().Agents
	for _, s := range p.Steps {
		lender, ok := original.agent(s)
		if s.Kind != pipeline.Tools || !ok {
			continue
		}
		i := slices.IndexFunc(p.Agents, func(a Agent) bool { return a.ID == lender.ID })
		p.Agents[i].Tools, p.Agents[i].MCPServers = lender.Tools, lender.MCPServers
	}
	p.Steps = slices.Clone(p.Steps)
	for i, s := range p.Steps {
		if s.Kind != pipeline.Tools { // tools and servers could need a network
			p.Steps[i].Tools, p.Steps[i].MCPServers = nil, nil
		}
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
