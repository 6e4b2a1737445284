//go:build e2e

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	acts "conclave/activities/pipeline"
	"conclave/engine/llm"
	"conclave/engine/scenario"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
	sessionflow "conclave/workflows/session"
)

// run is one session, pipeline or scenario, and how it ended.
type run struct {
	id, kind string
	workflow string
	input    any

	status string
	usage  llm.Usage
	failed string // why it ended badly
}

// plannedRuns returns the given number of runs of each kind, mixed evenly.
func plannedRuns(sessions, pipelines, scenarios int) []*run {
	var runs []*run
	add := func(kind, workflow string, i, of int, input func(id string) any) {
		if i < of {
			id := fmt.Sprintf("%s-%03d", kind, i+1)
			runs = append(runs, &run{id: id, kind: kind, workflow: workflow, input: input(id)})
		}
	}
	for i := range max(sessions, pipelines, scenarios) {
		add("session", sessionflow.Type, i, sessions, func(id string) any {
			return sessionflow.Input{Query: "How should we do it? (" + id + ")", Team: "trio"}
		})
		add("pipeline", pipelineflow.Type, i, pipelines, func(id string) any {
			return pipelineflow.Input{Request: "Write a plan. (" + id + ")", Config: json.RawMessage(graph)}
		})
		add("scenario", scenarioflow.Type, i, scenarios, func(id string) any {
			return scenarioflow.Input{Team: "tester", RunID: id, Plan: scenario.Plan{Slug: "look", Title: "Look at the page", Steps: []scenario.StepRef{
				{ID: "01", Title: "Open", File: "01-open.md"}, {ID: "02", Title: "Read", File: "02-read.md"},
			}}, Files: map[string]string{"01-open.md": "Open the page. (" + id + ")", "02-read.md": "Read the page. (" + id + ")"}, PRD: "A page."}
		})
	}
	return runs
}

// graph is a pipeline of two agents' steps and a team between them.
const graph = `{"start": "main",
 "agents": [{"id": "agent_p", "backend": {"provider": "faulty", "model": "model-p"}}],
 "steps": [
  {"name": "main", "agent": "agent_p", "prompt": "You write plans.", "destinations": ["export", "decide"]},
  {"name": "export", "agent": "agent_p", "history": true, "next": "decide"},
  {"name": "decide", "kind": "session", "config": {"agents": [
    {"id": "agent_x", "backend": {"provider": "faulty", "model": "model-x"}},
    {"id": "agent_y", "backend": {"provider": "faulty", "model": "model-y"}}]}}]}`

// startAll starts the runs evenly over a period, and repeats starts that fail while the server is
// away.
func (c *cluster) startAll(runs []*run, over time.Duration) {
	for _, r := range runs {
		c.retry(func(ctx context.Context) error {
			_, err := c.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
				ID: r.id, TaskQueue: workflows.TaskQueue, WorkflowExecutionErrorWhenAlreadyStarted: true,
			}, r.workflow, r.input)
			if _, begun := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); begun {
				return nil
			}
			return err
		})
		c.pass(over / time.Duration(len(runs)))
	}
}

// awaitAll waits for the runs and fills in how they ended.
func (c *cluster) awaitAll(runs []*run) {
	var all sync.WaitGroup
	for _, r := range runs {
		all.Go(func() { c.await(r) })
	}
	all.Wait()
}

func (c *cluster) await(r *run) {
	var end error // that of the workflow; other errors are those of a server that is away
	c.retry(func(ctx context.Context) error {
		end = r.get(ctx, c.client.GetWorkflow(ctx, r.id, ""))
		if _, failed := errors.AsType[*temporal.WorkflowExecutionError](end); failed {
			return nil
		}
		return end
	})
	if end != nil {
		r.failed = end.Error()
	}
}

// get decodes the result of the run's kind.
func (r *run) get(ctx context.Context, begun client.WorkflowRun) error {
	switch r.kind {
	case "session":
		var result sessionflow.Result
		err := begun.Get(ctx, &result)
		r.ended(result.Status, "consensus", result.Error, result.Cost)
		return err
	case "pipeline":
		var result acts.Result
		err := begun.Get(ctx, &result)
		r.ended(string(result.Status), "completed", result.Error, result.Usage)
		return err
	}
	var result scenario.Run
	err := begun.Get(ctx, &result)
	var usage llm.Usage
	for _, step := range result.Steps {
		usage = usage.Add(step.Cost)
	}
	r.ended(string(result.Status), "pass", "", usage)
	return err
}

func (r *run) ended(status, wanted string, reason any, usage llm.Usage) {
	r.status, r.usage, r.failed = status, usage, ""
	if status != wanted {
		r.failed = fmt.Sprintf("%s instead of %s: %v", status, wanted, reason)
	}
}

// retry repeats a call to the server until it succeeds; the server is away at times.
func (c *cluster) retry(call func(context.Context) error) {
	for c.t.Context().Err() == nil {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
		err := call(ctx)
		cancel()
		if err == nil {
			return
		}
		c.pass(500 * time.Millisecond)
	}
}
