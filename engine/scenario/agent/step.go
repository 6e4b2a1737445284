package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/step"
)

// Step is one launch of a scenario's step, with everything that its agent reads.
type Step struct {
	Layout        artifact.Layout
	Launch        scenario.Launch
	Token         string    // execution token
	Attempt       int       // counts the executions of the launch
	Spent         llm.Usage // usage of earlier attempts
	MaxModelCalls int       // 0 for the default
	Browser       Browser
	BeginAgain    bool // begin again after an interruption that has cost the tools their state

	Agent string // ID of the agent with the step's model and tools

	Scenario string // the scenario's slug
	Content  string // content of the step's file
	Project  string // its summary; may be empty
	System   string // the agent's own system message; may be empty

	// Pieces returns the number of stored pieces of evidence. It is nil for a step that may
	// pass without evidence.
	Pieces func(context.Context) (int, error)

	// News returns people's messages after a number. It is nil if none reach the step.
	News func(ctx context.Context, after int) ([]step.Message, error)
}

// Spec builds the step.
func (s Step) Spec() step.Spec {
	spec := s.Place()
	spec.Attempt = step.Attempt{Number: s.Attempt, Spent: s.Spent, ResumeFrom: s.Launch.ResumeFrom, Uncounted: s.Launch.Uncounted}
	spec.MaxModelCalls, spec.BeginAgain = s.MaxModelCalls, s.BeginAgain
	spec.Shown = step.Shown{Seen: map[string]int{}}
	spec.Open, spec.Seal, spec.Documents = s.open, seal, s.documents
	return spec
}

// Place returns the part of the Spec that locates the step's records. It needs Layout, Launch
// and Token.
func (s Step) Place() step.Spec {
	return step.Spec{Layout: s.Layout, Token: s.Token, Agent: s.Agent, Dir: s.dir}
}

func (s Step) dir(number int) string { return s.Layout.ScenarioStep(s.Launch.Step.ID, number, "") }

// open builds the rules with the tools at hand.
func (s Step) open(access step.Access) (loop.Rules, []llm.Message, error) {
	r := &rules{step: s, heard: s.Launch.Heard}
	for _, tool := range access.Tools {
		r.tools = append(r.tools, tool.Name)
	}
	return r, s.opening(access.Tools), nil
}

// seal commits a report unchanged, with the files of the workspace.
func seal(a loop.Action) (step.Sealed, error) {
	return step.Sealed{Payload: a.Payload, Workspace: true}, nil
}

// ReadReport reads a committed report.
func ReadReport(c artifact.Commit) (report, error) {
	if c.Kind != kindReported {
		return report{}, fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	var r report
	if err := json.Unmarshal(c.Payload, &r); err != nil {
		return report{}, fmt.Errorf("reading a committed %s: %w", c.Kind, err)
	}
	return r, nil
}

// documents lists the documents of a commit: last_action.json in its directory.
func (s Step) documents(number int, c artifact.Commit) ([]step.Document, error) {
	r, err := ReadReport(c)
	if err != nil {
		return nil, err
	}
	last := c.LastAction(s.Agent, number)
	last.Action = string(r.Status)
	return []step.Document{{Key: s.dir(number) + "last_action.json", Body: last, Replace: true}}, nil
}
