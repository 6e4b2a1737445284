//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	acts "conclave/activities/scenario"
	"conclave/engine/scenario"
	"conclave/workflows"
	scenarioflow "conclave/workflows/scenario"
)

// twoSteps is a scenario of two steps, the second of which signs in.
func twoSteps(run string) scenarioflow.Input {
	return scenarioflow.Input{
		RunID: run, PRD: "## Credentials\n\n- user: alice\n- password: hunter2!\n",
		Plan: scenario.Plan{Slug: "buy", Title: "Buy a thing", Steps: []scenario.StepRef{
			{ID: "01", Title: "Open", File: "01-open.md"}, {ID: "02", Title: "Log in", File: "02-log-in.md"},
		}},
		Files: map[string]string{"01-open.md": "Open the page.", "02-log-in.md": "---\ncredentials: true\n---\n\nLog in."},
	}
}

func verdict(status string) reply {
	report := map[string]any{"status": status, "evidence_paths": []string{}, "error": nil, "summary": "Done."}
	if status == "fail" {
		report["error"] = "there was no page"
	}
	return reply{tool: "report_result", arguments: report}
}

func evidenceNamed(name string) reply {
	return reply{tool: scenario.EvidenceTool, arguments: map[string]any{"name": name, "type": "stdout", "data": "hunter2! was typed"}}
}

// startScenario starts a run in the workflow with the ID.
func (s *site) startScenario(id string, in scenarioflow.Input) client.WorkflowRun {
	s.t.Helper()
	run, err := s.client.ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue}, scenarioflow.Type, in)
	require.NoError(s.t, err)
	return run
}

// replayScenario is replay for the history of a scenario.
func (s *site) replayScenario(id, name string) {
	s.t.Helper()
	s.replayAs(scenarioflow.Workflow, scenarioflow.Type, fmt.Sprintf("scenario%d", scenario.Protocol), id, name)
}

func stepsOf(r acts.Result) string {
	all := []string{string(r.Status)}
	for _, one := range r.Steps {
		all = append(all, one.ID+"/"+string(one.Status))
	}
	return strings.Join(all, " ")
}

// A run that fails and is continued, with each workflow task replayed from the first event.
func TestUncachedScenario(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{"model-a": {
		evidenceNamed("before"), verdict("pass"), verdict("fail"), // the first run of it
		fails(500), verdict("pass"),
	}})
	t.Cleanup(s.work(model, "agent_a"))
	var r acts.Result
	require.NoError(t, s.startScenario("first", twoSteps("r1")).Get(t.Context(), &r))
	require.Equal(t, "fail 01/pass 02/fail", stepsOf(r))
	require.Equal(t, []string{"step-01/evidence/before.txt"}, r.Steps[0].EvidencePaths)
	s.replayScenario("first", "failed")

	resume := scenarioflow.Input{RunID: "r1", Plan: scenario.Plan{Slug: "buy"}, Resume: true}
	require.NoError(t, s.startScenario("second", resume).Get(t.Context(), &r))
	require.Equal(t, "pass 01/pass 02/pass", stepsOf(r), "a server's fault is retried")
	require.Equal(t, 1, r.RunNumber)
	s.replayScenario("second", "resumed")
	var onRecord acts.Result
	s.read("scenarios/buy/runs/r1/result.json", &onRecord)
	require.Equal(t, r, onRecord)
}

// A worker that ends in the middle of a step is replaced; the step is paused, continues its work,
// and the run is cancelled.
func TestUncachedScenarioPeople(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, asked, hold := held(verdict("pass"))
	second, askedAgain, holdAgain := held(verdict("pass"))
	model := newModelServer(t, map[string][]reply{"model-a": {verdict("pass"), evidenceNamed("before"), first, second}})
	t.Cleanup(func() { close(hold); close(holdAgain) })
	stop := s.work(model, "agent_a")
	run := s.startScenario("people", twoSteps("r1"))
	<-asked
	stop()
	t.Cleanup(s.work(model, "agent_a"))
	<-askedAgain
	require.Contains(t, model.request("model-a", 4), "hunter2!", "it knows how to sign in again")
	require.NoError(t, s.client.SignalWorkflow(t.Context(), "people", "", workflows.PauseSignal, nil))
	require.Eventually(t, func() bool {
		value, err := s.client.QueryWorkflow(t.Context(), "people", "", workflows.StateQuery)
		var state acts.State
		return err == nil && value.Get(&state) == nil && state.Paused && state.Step == ""
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, s.client.CancelWorkflow(t.Context(), "people", ""))
	require.Error(t, run.Get(t.Context(), nil))
	var r acts.Result
	s.read("scenarios/buy/runs/r1/result.json", &r)
	require.Equal(t, "cancelled 01/pass 02/cancelled", stepsOf(r))
	require.NotNil(t, r.CompletedAt)
	require.Equal(t, []string{"step-02/evidence/before.txt"}, r.Steps[1].EvidencePaths)
	require.Positive(t, r.Steps[1].Cost.ModelCalls, "its usage is known")
	s.replayScenario("people", "replaced_paused_cancelled")
	for key, err := range s.store.List(t.Context(), "scenarios/") {
		require.NoError(t, err)
		if body, err := s.store.Get(t.Context(), key); !strings.HasSuffix(key, "prd.md") {
			require.NoError(t, err)
			require.NotContains(t, string(body), "hunter2!", key)
		}
	}
}
