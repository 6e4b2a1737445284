package scenario_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	acts "conclave/activities/scenario"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/scenario"
	scenarioflow "conclave/workflows/scenario"
	"conclave/workflows/stagetest"
)

// "retry resumes a run from the failed step": with its definition, its number, and a
// new verdict.
func TestScenario_ResumeFromTheFailedStep(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("pass"), records("error", "stdout", "x"), ends("fail"))
	before := runScenario(t, s, journey("r1", 3))
	require.Equal(t, "fail pass fail skipped", statuses(before))

	s = on(t, s, records("error", "stdout", "y"), ends("pass", "step-02/attempt-2/evidence/error.txt"), ends("pass"))
	var opening string
	s.Cast["agent_a"].Saw = func(n int, req llm.Request) {
		if n == 1 {
			opening = req.Messages[1].Content
			require.Len(t, req.Messages, 2, "the step begins a new conversation")
		}
	}
	result := runUnder(t, s, "again", scenarioflow.Input{RunID: "r1", Plan: scenario.Plan{Slug: "buy"}, Resume: true})
	require.Equal(t, "pass pass pass pass", statuses(result))
	require.Contains(t, opening, "Execute step 02")
	require.Equal(t, before.RunNumber, result.RunNumber)
	require.Equal(t, before.StartedAt, result.StartedAt)
	require.Equal(t, before.Steps[0], result.Steps[0])
	require.Equal(t, 2, result.Execution)
	require.Equal(t, int64(6), result.Cost.ModelCalls, "the cost of the earlier verdict counts")

	// The failure is kept, with its evidence.
	again := result.Steps[1]
	require.True(t, again.Flaky)
	require.False(t, result.Steps[0].Flaky || result.Steps[2].Flaky)
	require.Equal(t, []string{"step-02/attempt-2/evidence/error.txt"}, again.EvidencePaths)
	require.Equal(t, []scenario.Attempt{
		{Status: scenario.Fail, Error: before.Steps[1].Error, EvidencePaths: []string{"step-02/evidence/error.txt"}},
		{Status: scenario.Pass, EvidencePaths: []string{"step-02/attempt-2/evidence/error.txt"}},
	}, again.Attempts)
	kept, err := s.Store.Get(t.Context(), "scenarios/buy/runs/r1/step-02/evidence/error.txt")
	require.NoError(t, err)
	require.Equal(t, "x", string(kept))

	s = on(t, s)
	s.ExecuteWorkflow(under, "and again", scenarioflow.Input{RunID: "r1", Plan: scenario.Plan{Slug: "buy"}, Resume: true})
	require.ErrorContains(t, s.GetWorkflowError(), "has passed: start a new run")
}

// A resumed run keeps the time of its steps.
func TestScenario_ResumeKeepsTheStepTimeout(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("fail"))
	in := journey("r1", 1)
	in.StepTimeoutSeconds = 10
	require.Equal(t, "fail fail", statuses(runScenario(t, s, in)))
	s = on(t, s, stagetest.Never())
	result := runUnder(t, s, "again", scenarioflow.Input{RunID: "r1", Plan: scenario.Plan{Slug: "buy"}, Resume: true})
	require.Equal(t, "TimeOver: the step's time of 10s was over before it came to an end", *result.Steps[0].Error)
}

// A step without a verdict resumes from its journal.
func TestScenario_ResumeFromTheJournal(t *testing.T) {
	t.Parallel()
	s := newScenario(t, records("before", "stdout", "x"), &llm.Error{Kind: llm.AuthFailed, Message: "no such key"})
	require.Equal(t, "fail error skipped", statuses(runScenario(t, s, journey("r1", 2))))
	s = on(t, s, ends("pass"), ends("pass"))
	s.Cast["agent_a"].Saw = func(n int, req llm.Request) {
		if n == 1 {
			require.Len(t, req.Messages, 4)
		}
	}
	result := runUnder(t, s, "again", scenarioflow.Input{RunID: "r1", Plan: scenario.Plan{Slug: "buy"}, Resume: true})
	require.Equal(t, "pass pass pass", statuses(result))
	require.Equal(t, []string{"step-01/evidence/before.txt"}, result.Steps[0].EvidencePaths, "the conversation has it")
	require.Equal(t, int64(3), result.Cost.ModelCalls)
	require.Equal(t, "error pass", string(result.Steps[0].Attempts[0].Status+" "+result.Steps[0].Attempts[1].Status))
	require.True(t, result.Steps[0].Attempts[1].Continues)
}

// A step whose model's server has been away for the team's outage_seconds fails.
func TestScenario_Outage(t *testing.T) {
	t.Parallel()
	s := newScenario(t, &llm.Error{Kind: llm.Overloaded, Status: 503, Message: "overloaded", Since: time.Now().Add(-time.Minute)})
	in := journey("r1", 1)
	in.Config = json.RawMessage(`{"agents":[{"id":"agent_a","backend":{"model":"m"}}],"timeout_settings":{"outage_seconds":30}}`)
	result := runScenario(t, s, in)
	require.Equal(t, "fail error", statuses(result))
	require.Regexp(t, `^Outage: no usable reply for 1m\d+s: overloaded$`, *result.Error)
}

// A client that resumes a workflow needs only its ID: the record of the workflow names the
// scenario and the run.
func TestScenario_ResumeByTheWorkflowID(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("pass"), ends("fail"))
	s.RegisterWorkflow(under)
	in := journey("r1", 2)
	require.Equal(t, "fail pass fail", statuses(runUnder(t, s, "shop/any ID", in)))

	s = on(t, s, ends("pass"))
	s.ExecuteWorkflow(under, "shop/any ID", scenarioflow.Input{Resume: true})
	result := ended(t, s, in)
	require.Equal(t, "pass pass pass", statuses(result))
	require.Equal(t, "r1", result.RunID)
	require.Equal(t, "scenarios/buy/runs/r1", result.RunPath)
	require.Equal(t, "buy", result.Scenario)
	require.Equal(t, int64(3), result.Cost.ModelCalls)

	s = on(t, s)
	s.ExecuteWorkflow(under, "another ID", scenarioflow.Input{Resume: true})
	require.ErrorContains(t, s.GetWorkflowError(), "workflow another ID has no run of a scenario to resume: give plan.slug and run_id, or start a new run")
}

// A run that was cut off resumes the steps that its last record lacks.
func TestScenario_ResumeAfterTermination(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	var cut *artifact.Dir
	var begun acts.Result
	s = newScenario(t, records("before", "stdout", "x"), ends("pass"), records("after", "stdout", "x"),
		stagetest.Block{Reached: func() { cut = stagetest.CopyOf(t, s.Store); s.CancelWorkflow() }})
	s.RegisterWorkflow(under)
	s.Cast["agent_a"].Saw = func(n int, _ llm.Request) {
		if n == 1 {
			begun = resultOf(t, s, "r1")
		}
	}
	s.ExecuteWorkflow(under, "w", journey("r1", 2))
	require.NoError(t, artifact.PutJSON(t.Context(), cut, "scenarios/buy/runs/r1/result.json", begun))

	s.Store = cut
	s = on(t, s, ends("pass"))
	result := runUnder(t, s, "w", scenarioflow.Input{RunID: "r1", Plan: scenario.Plan{Slug: "buy"}, Resume: true})
	require.Equal(t, "pass pass pass", statuses(result))
	require.Equal(t, int64(4), result.Cost.ModelCalls, "no reply is paid twice, none is forgotten")
	require.Equal(t, 1, s.Cast["agent_a"].Asked)
	require.Equal(t, []string{"step-01/evidence/before.txt"}, result.Steps[0].EvidencePaths)
}

// A run belongs to one workflow ID; a terminated run continues under that ID only.
func TestScenario_ARunBelongsToOneWorkflow(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("fail"))
	runScenario(t, s, journey("r1", 1))
	s = on(t, s)
	s.ExecuteWorkflow(under, "other", journey("r1", 1))
	var refused *temporal.ApplicationError
	require.ErrorAs(t, s.GetWorkflowError(), &refused)
	require.Equal(t, activities.SessionTaken, refused.Type())

	running := resultOf(t, s, "r1")
	running.Status, running.CompletedAt = scenario.Running, nil
	require.NoError(t, artifact.PutJSON(t.Context(), s.Store, "scenarios/buy/runs/r1/result.json", running))
	resume := scenarioflow.Input{RunID: "r1", Plan: scenario.Plan{Slug: "buy"}, Resume: true}
	s = on(t, s)
	s.ExecuteWorkflow(under, "other", resume)
	require.ErrorContains(t, s.GetWorkflowError(), "is not over")
}

// "run numbers are unique"
func TestScenario_NumbersAreUnique(t *testing.T) {
	t.Parallel()
	shared := newScenario(t)
	const runs = 6
	var together sync.WaitGroup
	numbers := make([]int, runs)
	for n := range runs {
		s := on(t, shared, ends("pass"))
		together.Go(func() {
			numbers[n] = runScenario(t, s, journey(fmt.Sprintf("r%d", n), 1)).RunNumber
		})
	}
	together.Wait()
	require.ElementsMatch(t, []int{1, 2, 3, 4, 5, 6}, numbers)

	s := on(t, shared, ends("pass"))
	in := journey("later", 1)
	in.After = 40
	require.Equal(t, 41, runScenario(t, s, in).RunNumber, "above the highest number that the client knows")
}
