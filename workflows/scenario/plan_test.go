package scenario_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	acts "conclave/activities/scenario"
	"conclave/engine/llm"
	"conclave/engine/scenario"
	"conclave/workflows"
	scenarioflow "conclave/workflows/scenario"
	"conclave/workflows/stagetest"
)

// framed is a journey with one step in before and one in after.
func framed(id string, steps int) scenarioflow.Input {
	in := journey(id, steps)
	in.Plan.Before = []scenario.StepRef{{ID: "90", Title: "Seed", File: "90-seed.md"}}
	in.Plan.After = []scenario.StepRef{{ID: "99", Title: "Clean up", File: "99-clean-up.md"}}
	in.Files["90-seed.md"], in.Files["99-clean-up.md"] = "Seed the shop.", "Empty the shop."
	return in
}

// The steps of after always run, and a retry runs before and after again.
func TestScenario_beforeAndAfter(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("pass"), ends("fail"), ends("pass"))
	result := runScenario(t, s, framed("r1", 2))
	require.Equal(t, "fail pass fail skipped pass", statuses(result))
	require.Equal(t, "01", *result.FailedStep)
	require.Equal(t, "before  after", strings.Join([]string{string(result.Steps[0].Part), string(result.Steps[1].Part), string(result.Steps[3].Part)}, " "))

	s = on(t, s, ends("pass"), ends("pass"), ends("pass"), ends("pass"))
	var asked []string
	s.Cast["agent_a"].Saw = func(_ int, req llm.Request) { asked = append(asked, req.Messages[1].Content[:15]) }
	again := runUnder(t, s, "again", scenarioflow.Input{RunID: "r1", Plan: scenario.Plan{Slug: "buy"}, Resume: true})
	require.Equal(t, "pass pass pass pass pass", statuses(again))
	require.Equal(t, []string{"Execute step 90", "Execute step 01", "Execute step 02", "Execute step 99"}, asked)
	require.Len(t, again.Steps[0].Attempts, 2)
	require.False(t, again.Steps[0].Flaky, "it has not failed")
	require.True(t, again.Steps[1].Flaky)
}

// A cancelled run cleans up before it ends.
func TestScenario_cancelCleansUp(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	s = newScenario(t, ends("pass"), stagetest.Block{Reached: func() { s.CancelWorkflow() }}, ends("pass"))
	s.ExecuteWorkflow(scenarioflow.Type, framed("r1", 2))
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, s.GetWorkflowError(), &cancelled)
	result := resultOf(t, s, "r1")
	require.Equal(t, "cancelled pass cancelled skipped pass", statuses(result))
	require.NotNil(t, result.CompletedAt)
}

// A pass without evidence or tool calls gets warnings. Missing required evidence is asked
// for once and is then an error.
func TestScenario_passWithoutEvidence(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("pass"))
	result := runScenario(t, s, journey("r1", 1))
	require.Equal(t, []string{"passed without using a tool: the agent may not have tested anything", "passed without evidence"}, result.Steps[0].Warnings)

	strict := journey("r1", 2)
	strict.Plan.RequireEvidence = true
	s = newScenario(t, ends("pass"), records("after", "stdout", "x"), ends("pass"), ends("pass"), ends("pass"))
	var asked string
	s.Cast["agent_a"].Saw = func(n int, req llm.Request) {
		if n == 2 {
			asked = req.Messages[len(req.Messages)-1].Content
		}
	}
	result = runScenario(t, s, strict)
	require.Contains(t, asked, "passes only with evidence")
	require.Equal(t, "fail pass error", statuses(result))
	require.Contains(t, *result.Error, "require_evidence")
	require.Equal(t, int64(5), result.Cost.ModelCalls)

	// A retry judges the step again, with new evidence.
	s = on(t, s, records("after", "stdout", "x"), ends("pass"))
	result = runUnder(t, s, "again", scenarioflow.Input{RunID: "r1", Plan: scenario.Plan{Slug: "buy"}, Resume: true})
	require.Equal(t, "pass pass pass", statuses(result))
	require.True(t, result.Steps[1].Flaky)
	require.Equal(t, []string{"step-02/attempt-2/evidence/after.txt"}, result.Steps[1].EvidencePaths)
}

// Only the selected steps run; the others are skipped and do not fail the run.
func TestScenario_only(t *testing.T) {
	t.Parallel()
	in := framed("r1", 3)
	in.Plan.Only = []string{"02"}
	result := runScenario(t, newScenario(t, ends("pass"), ends("pass"), ends("pass")), in)
	require.Equal(t, "pass pass skipped pass skipped pass", statuses(result))
	require.Equal(t, []string{"02"}, result.Only)
	require.Nil(t, result.FailedStep)
}

func TestScenario_limits(t *testing.T) {
	t.Parallel()
	look := stagetest.Call("list_files", nil)
	for name, c := range map[string]struct {
		change  func(*scenario.Plan)
		replies []any
		want    string
		why     string
	}{
		"the run's calls": {
			func(p *scenario.Plan) { p.Limits.ModelCalls = 3 },
			[]any{look, ends("pass"), look, ends("pass")},
			"fail pass error skipped pass", "NoAction: no action after 1 model calls (the step had the rest of the run's limits: model_calls)",
		},
		"none left": {
			func(p *scenario.Plan) { p.Limits.ModelCalls = 2 },
			[]any{look, ends("pass"), ends("pass")},
			"fail pass error skipped pass", "the run's limits.model_calls of 2 is used up",
		},
		"a step's calls": {
			func(p *scenario.Plan) { p.Steps[0].Limits.ModelCalls = 1 },
			[]any{look, ends("pass")},
			"fail error skipped skipped pass", "NoAction: no action after 1 model calls",
		},
		"a step's time": {
			func(p *scenario.Plan) { p.Steps[0].Limits.Seconds = 1 },
			[]any{stagetest.Never(), ends("pass")},
			"fail error skipped skipped pass", "TimeOver: the step's time of 1s was over",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := framed("r1", 3)
			in.Plan.Before = nil
			delete(in.Files, "90-seed.md")
			c.change(&in.Plan)
			result := runScenario(t, newScenario(t, c.replies...), in)
			require.Equal(t, c.want, statuses(result))
			require.Contains(t, *result.Error, c.why)
		})
	}
}

// A message reaches the step that runs when it is sent, and no other.
func TestScenario_say(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("pass"))
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.PauseSignal, nil) }, 0)
	s.RegisterDelayedCallback(func() {
		s.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "The shop has moved."})
		s.SignalWorkflow(workflows.ResumeSignal, nil)
	}, time.Minute)
	require.Equal(t, "pass pass", statuses(runScenario(t, s, journey("r1", 1))))
	said, err := s.Store.Get(t.Context(), "scenarios/buy/runs/r1/messages/001.json")
	require.NoError(t, err)
	require.Contains(t, string(said), "The shop has moved.")
	value, err := s.QueryWorkflow(workflows.TimelineQuery)
	require.NoError(t, err)
	var events []acts.Event
	require.NoError(t, value.Get(&events))
	require.Contains(t, events[2].Text, "The shop has moved.")
}

// Steps that share a browser are sent to its process. If that process is gone, the step is
// launched again on the common queue.
func TestScenario_browserIsLost(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	var queues []string
	result := func(launch string) acts.StepResult {
		return acts.StepResult{Token: "default-test-run-id-" + launch, Number: 1, Status: scenario.Pass, Evidence: []string{"x"}, Host: "conclave-steps-host"}
	}
	s.OnActivity("RunScenarioStep", mock.Anything, mock.Anything).Return(func(ctx context.Context, in acts.StepInput) (acts.StepResult, error) {
		queues = append(queues, in.Launch.ID+" "+activity.GetInfo(ctx).TaskQueue)
		if in.Launch.ID == "l2" {
			return acts.StepResult{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		return result(in.Launch.ID), nil
	})
	in := journey("r1", 3)
	in.Plan.Browser = scenario.BrowserRun
	require.Equal(t, "pass pass pass pass", statuses(runScenario(t, s, in)))
	require.Equal(t, "l1 l2 l3 l4", strings.Join([]string{queues[0][:2], queues[1][:2], queues[2][:2], queues[3][:2]}, " "))
	require.Contains(t, queues[1], "conclave-steps-host")
	require.NotContains(t, queues[2], "host", "it is not there any more")
	require.Contains(t, queues[3], "conclave-steps-host", "the next one is")
}
