package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Pipeline is the definition of a step graph: named steps, and where each of them
// leads. Its tags are the specification of the keys, as those of Team are.
type Pipeline struct {
	Start  string         `json:"start" doc:"The step that a run begins with."`
	Agents []Agent        `json:"agents,omitempty" doc:"The agents that the steps name, as in a team."`
	Steps  []PipelineStep `json:"steps" doc:"The steps of the graph."`
	Limits PipelineLimits `json:"limits" doc:"What ends a run that goes on for ever."`

	OnStepFailure string `json:"on_step_failure" default:"stop" enum:"stop,park" doc:"What happens when a step fails for good: stop ends the run with the status error; park waits for retry or cancel."`
}

// PipelineLimits bound a run.
type PipelineLimits struct {
	MaxTransitions int `json:"max_transitions" default:"100" min:"1" max:"1000" doc:"How often control passes from step to step, calls and returns included."`
	MaxCallDepth   int `json:"max_call_depth" default:"8" min:"1" max:"32" doc:"How many callers can wait for a step that they called."`
}

// The kinds of steps.
const (
	AgentStep   = "agent"
	ToolsStep   = "tools"
	SessionStep = "session"
)

// PipelineStep is one step of a graph.
type PipelineStep struct {
	Name          string   `json:"name" doc:"The step's name: a lower-case letter, then up to 31 lower-case letters, digits, _ or -."`
	Kind          string   `json:"kind" default:"agent" enum:"agent,tools,session" doc:"agent is a model with tools; tools is a list of tool calls without a model; session is a team whose decision is the step's text."`
	Agent         string   `json:"agent,omitempty" doc:"The agent that carries the step out, or, of a tools step, whose tools it uses; the first one if none is named."`
	Prompt        string   `json:"prompt,omitempty" doc:"The system message of an agent's step; put before the request of a session's."`
	Destinations  []string `json:"destinations,omitempty" doc:"The steps that jump_to_step and call_step can name; for agents only."`
	Next          []Branch `json:"next,omitempty" shorthand:"to" doc:"Where the run goes on when the step has ended and nobody waits for it: a step, or a list of {when: {status: max_iterations}, to: STEP}, of which the first that fits counts."`
	MaxIterations int      `json:"max_iterations" default:"50" min:"1" max:"200" doc:"How many model calls the step can make, those after a call it made included."`
	History       bool     `json:"history" default:"false" doc:"Whether the step is shown the texts of those before it."`

	Calls []ToolUse `json:"calls,omitempty" doc:"The tool calls of a tools step, in order."`

	Team   string `json:"team,omitempty" doc:"The team of a session step: a name from the worker's configuration."`
	Config *Team  `json:"config,omitempty" doc:"The team of a session step, in place of a name."`
}

// Branch leads on from a step that ended as When says; however it ended if that is
// empty.
type Branch struct {
	When When   `json:"when" doc:"What has to be true of the step that ended."`
	To   string `json:"to" doc:"The step that comes next."`
}

// When is a condition on a step that ended.
type When struct {
	Status string `json:"status,omitempty" enum:"completed,max_iterations" doc:"How the step ended."`
}

// ToolUse is one configured tool call.
type ToolUse struct {
	Tool string         `json:"tool" doc:"The tool's name."`
	Args map[string]any `json:"args,omitempty" doc:"The arguments of the call."`
}

var pipelineType = reflect.TypeFor[Pipeline]()

// ParsePipeline reads a pipeline from YAML or JSON, and checks everything that
// needs no world to be checked: who would only find out in the middle of a run
// that a step leads nowhere has paid for it. Name stands for the text in messages.
// An error is of type Problems and contains everything that is wrong.
func ParsePipeline(name string, data []byte, reach Reach) (Pipeline, error) {
	d := decoder{file: name, reach: reach, root: pipelineType, places: map[string]position{}}
	root, f := parseDocument(data)
	var p Pipeline
	switch {
	case f != nil:
		d.report(f.position, "", "%s", f.message)
	case root.kind == null:
		d.report(root.position, "", "the pipeline is empty; it takes start and steps")
	default:
		plainNext(root)
		v := reflect.ValueOf(&p).Elem()
		setDefaults(v)
		d.decode(root, "", v, rule{})
		if !d.reported("") { // of what is no mapping nothing more can be said
			d.checkPipeline(p)
		}
	}
	if err := d.problems.sorted(); err != nil {
		return Pipeline{}, err
	}
	return p, nil
}

// plainNext turns a rule that is one name into the list that it stands for.
func plainNext(root *node) {
	steps := root.get("steps")
	if steps == nil {
		return
	}
	for _, step := range steps.items {
		for i, f := range step.fields {
			if f.key == "next" && f.value.kind == stringText {
				step.fields[i].value = &node{position: f.value.position, kind: list, items: []*node{f.value}}
			}
		}
	}
}

// Step returns the step with the given name.
func (p Pipeline) Step(name string) (PipelineStep, bool) {
	i := slices.IndexFunc(p.Steps, func(s PipelineStep) bool { return s.Name == name })
	if i < 0 {
		return PipelineStep{}, false
	}
	return p.Steps[i], true
}

// Player returns the agent whose model, or whose tools, a step uses.
func (p Pipeline) Player(s PipelineStep) (Agent, bool) {
	if s.Agent == "" && len(p.Agents) > 0 {
		return p.Agents[0], true
	}
	return Team{Agents: p.Agents}.Agent(s.Agent)
}

// Offline returns the pipeline with the built-in deterministic model behind every
// agent. What steps without a model do they do all the same: an agent whose tools
// they use keeps them.
func (p Pipeline) Offline() Pipeline {
	original := p
	p.Agents = Team{Agents: p.Agents}.Offline().Agents
	for _, s := range p.Steps {
		lender, ok := original.Player(s)
		if s.Kind != ToolsStep || !ok {
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

// Canonical returns the pipeline as JSON with every default resolved; ParsePipeline
// reads it back unchanged.
func (p Pipeline) Canonical() ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write the pipeline as JSON: %w", err)
	}
	return data, nil
}

// Hash is the SHA-256 of the canonical form in hex; empty if there is none.
func (p Pipeline) Hash() string {
	data, err := p.Canonical()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
