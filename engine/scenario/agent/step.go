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
	Layout artifact.Layout
	Launch scenario.Launch
	Token  string

	// Attempt counts the executions of the launch, and Spent is what the earlier
	// ones used.
	Attempt int
	Spent   llm.Usage

	// Agent is whose model and tools the step uses.
	Agent string

	// Task is what its agent is told, but for the names of its tools.
	Task Task
}

// Spec builds the step.
func (s Step) Spec() step.Spec {
	return step.Spec{
		Layout: s.Layout, Token: s.Token, Dir: s.dir,
		Attempt: step.Attempt{Number: s.Attempt, Spent: s.Spent, ResumeFrom: s.Launch.ResumeFrom},
		Shown:   step.Shown{Seen: map[string]int{}},
		Open:    s.open, Seal: seal, Documents: s.project, Abandoned: s.abandoned,
	}
}

func (s Step) dir(number int) string { return s.Layout.Trial(s.Launch.Step.ID, number, "") }

// open makes the rules.
func (s Step) open(ordinary []llm.Tool, _ func(context.Context, step.Peer) error) (loop.Rules, []llm.Message, error) {
	task := s.Task
	task.Tools = nil
	for _, tool := range ordinary {
		task.Tools = append(task.Tools, tool.Name)
	}
	return NewRules(task), task.Opening(), nil
}

// seal commits a report as it is, with the files of the workspace.
func seal(a loop.Action) (step.Sealed, error) {
	return step.Sealed{Payload: a.Payload, Workspace: true}, nil
}

// ReadReport reads what a step committed.
func ReadReport(c artifact.Commit) (Report, error) {
	if c.Kind != KindReported {
		return Report{}, fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	var r Report
	if err := json.Unmarshal(c.Payload, &r); err != nil {
		return Report{}, fmt.Errorf("reading a committed %s: %w", c.Kind, err)
	}
	return r, nil
}

// project lists the documents of a commit: last_action.json in its directory.
func (s Step) project(number int, c artifact.Commit) ([]step.Document, error) {
	r, err := ReadReport(c)
	if err != nil {
		return nil, err
	}
	last := artifact.LastAction{
		AgentID: s.Agent, Action: string(r.Status), Timestamp: c.Timestamp, StepNumber: number,
		DurationSeconds: max(0, c.Timestamp.Sub(c.StartedAt).Seconds()), Cost: c.Usage,
	}
	return []step.Document{{Key: s.dir(number) + "last_action.json", Body: last, Replace: true}}, nil
}

// abandoned is the last_action.json of a step without a verdict.
func (s Step) abandoned(r step.Result, cause artifact.Error, at time.Time) []step.Document {
	if r.Step == 0 {
		return nil
	}
	last := artifact.LastAction{AgentID: s.Agent, Action: "none", Timestamp: at, StepNumber: r.Step, Cost: r.Usage, Error: &cause}
	if !r.StartedAt.IsZero() {
		// The claim may be of a worker whose clock was ahead.
		last.DurationSeconds = max(0, at.Sub(r.StartedAt).Seconds())
	}
	return []step.Document{{Key: s.dir(r.Step) + "last_action.json", Body: last, Replace: true}}
}
