package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/step"
)

// Step is one launch of a scenario's step.
type Step struct {
	Layout  artifact.Layout
	Launch  scenario.Launch
	Token   string    // execution token
	Attempt int       // counts the executions of the launch
	Spent   llm.Usage // by earlier attempts
	Agent   string    // ID of the agent with the step's model and tools
	Task    Task      // without the names of tools
}

// Spec builds the step.
func (s Step) Spec() step.Spec {
	return step.Spec{
		Layout: s.Layout, Token: s.Token, Dir: s.dir,
		Attempt: step.Attempt{Number: s.Attempt, Spent: s.Spent, ResumeFrom: s.Launch.ResumeFrom},
		Shown:   step.Shown{Seen: map[string]int{}},
		Open:    s.open, Seal: seal, Documents: s.documents, Abandoned: s.abandoned,
	}
}

func (s Step) dir(number int) string { return s.Layout.ScenarioStep(s.Launch.Step.ID, number, "") }

// open builds the rules with the tools at hand.
func (s Step) open(ordinary []llm.Tool, _ func(context.Context, step.Peer) error) (loop.Rules, []llm.Message, error) {
	task := s.Task
	task.Tools = nil
	for _, tool := range ordinary {
		task.Tools = append(task.Tools, tool.Name)
	}
	return rules{task}, task.opening(), nil
}

// seal commits a report as it is, with the files of the workspace.
func seal(a loop.Action) (step.Sealed, error) {
	return step.Sealed{Payload: a.Payload, Workspace: true}, nil
}

// ReadReport reads a committed report.
func ReadReport(c artifact.Commit) (Report, error) {
	if c.Kind != kindReported {
		return Report{}, fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	var r Report
	if err := json.Unmarshal(c.Payload, &r); err != nil {
		return Report{}, fmt.Errorf("reading a committed %s: %w", c.Kind, err)
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
	return []step.Document{s.lastAction(last)}, nil
}

func (s Step) abandoned(r step.Result, cause artifact.Error, at time.Time) []step.Document {
	if r.Step == 0 {
		return nil
	}
	return []step.Document{s.lastAction(r.LastAction(s.Agent, cause, at))}
}

func (s Step) lastAction(last artifact.LastAction) step.Document {
	return step.Document{Key: s.dir(last.StepNumber) + "last_action.json", Body: last, Replace: true}
}
