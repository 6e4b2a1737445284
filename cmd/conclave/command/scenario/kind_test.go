package scenario

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	acts "conclave/activities/scenario"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
	"conclave/workflows"
	scenarioflow "conclave/workflows/scenario"
)

func TestReporter_reopens(t *testing.T) {
	t.Parallel()
	conn := &cli.Connection{CLI: &cli.CLI{Queue: workflows.TaskQueue}}
	kind := Kind()
	run := runs.Run{Kind: kind, ID: "20261121-153012-k3f9", Workflow: "w1", Status: "fail"}
	input, err := kind.ReopenInput(t.Context(), conn, run, workflows.Request{})
	require.NoError(t, err)
	require.Equal(t, scenarioflow.Input{Resume: true}, input, "the worker finds the run of a workflow that was never prepared")
	run.Slug = "buy-now"
	input, err = kind.ReopenInput(t.Context(), conn, run, workflows.Request{})
	require.NoError(t, err)
	in := input.(scenarioflow.Input)
	require.Equal(t, "buy-now", in.Plan.Slug)
	require.Equal(t, run.ID, in.RunID)
	require.True(t, in.Resume)
	run.Status = "pass"
	_, err = kind.ReopenInput(t.Context(), conn, run, workflows.Request{})
	require.ErrorContains(t, err, "it passed; nothing was started")
}

func TestReporter_updates(t *testing.T) {
	t.Parallel()
	conn := &cli.Connection{CLI: &cli.CLI{Queue: workflows.TaskQueue}}
	open := runs.Run{Kind: Kind(), ID: "r1", Slug: "buy", Workflow: "scenario-buy-r1", Status: "running"}
	ended := open
	ended.Closed, ended.Status = time.Unix(1, 0), "fail"
	for _, tt := range []struct {
		run  runs.Run
		u    runs.Update
		says string // empty if the run takes the update
	}{
		{open, runs.Update{Name: workflows.RetrySignal, Action: "retry failed steps of"}, "retry failed steps of scenario run buy/r1: it is still running; `conclave watch buy/r1` follows it"},
		{ended, runs.Update{Name: workflows.SaySignal}, "it has ended (fail)"},
		{open, runs.Update{Name: workflows.SaySignal}, ""},
		{open, runs.Update{Name: workflows.PauseSignal}, ""},
		{ended, runs.Update{Name: workflows.RetrySignal}, ""},
	} {
		err := reporter{}.AdaptUpdate(conn, tt.run, &tt.u)
		if tt.says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tt.says)
		}
	}
}

// result is the result of a run whose second step failed.
func result(status scenario.Status) acts.Result {
	why := "no lamp"
	return acts.Result{RunID: "r1", RunNumber: 3, Scenario: "buy", Title: "Buying", Status: status, StartedAt: artifact.Timestamp(time.Now()), DurationMS: 2500, Steps: []scenario.Result{
		{ID: "01", Title: "Open", Status: scenario.Pass, DurationMS: 1500, Warnings: []string{"slow"}},
		{ID: "02", Title: "Buy", Status: scenario.Fail, DurationMS: 1000, Error: &why},
	}}
}

// The commands that take an ID follow a scenario's run, and print its state and result.
func TestKind_commands(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status enumspb.WorkflowExecutionStatus
		result acts.Result
		code   int
		shows  string
	}{
		"passed":    {enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, acts.Result{RunID: "r1", Scenario: "buy", Status: scenario.Pass, Steps: result("").Steps[:1]}, cli.ExitOK, `buy +– +pass +1/1`},
		"failed":    {enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, result(scenario.Fail), cli.ExitNoAnswer, `buy +#3 +fail +1/2 +2.5 s +02 Buy: no lamp`},
		"timed out": {enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, result(scenario.Running), cli.ExitNoAnswer, `buy +#3 +fail +1/2`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &stage.Server{}
			e := server.Add(&stage.Execution{ID: "scenario-buy-r1", Type: scenarioflow.Type, State: acts.State{Result: tt.result}})
			var why error
			if tt.status == enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT {
				why = stage.Failed(t, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil))
			}
			e.End(tt.status, tt.result, why)
			conn, stdout, stderr := server.Connect(nil)
			run := runs.Order{Kind: Kind(), ID: "r1", Slug: "buy"}.Run()
			require.Equal(t, tt.code, cli.ExitCode(run.Kind.Watch(t.Context(), conn, run)))
			require.Regexp(t, tt.shows, stdout.String())
			require.Contains(t, stderr.String(), "buy 01 Open: pass (1.5 s)\nbuy 01 warning: slow\n")
			require.Contains(t, stderr.String(), "all steps and evidence: conclave pull buy/r1 DIR --address h:7233")
			stdout.Reset()
			conn.JSON = true
			require.Equal(t, tt.code, cli.ExitCode(run.Kind.PrintEnd(t.Context(), conn, run)))
			var printed scenario.Run
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &printed))
			require.Len(t, printed.Steps, len(tt.result.Steps))
		})
	}
}

// The state of an open run has its running step; as JSON it is that of the scenario's status.
func TestPrintStatus(t *testing.T) {
	t.Parallel()
	state := acts.State{Result: result(scenario.Running), Step: "03", Plan: []scenario.StepRef{{ID: "01"}, {ID: "02"}, {ID: "03"}}, Ignored: "jump"}
	state.Paused = true
	server := &stage.Server{}
	server.Add(&stage.Execution{ID: "scenario-buy-r1", Type: scenarioflow.Type, State: state})
	conn, stdout, _ := server.Connect(nil)
	run := runs.Order{Kind: Kind(), ID: "r1", Slug: "buy", Offline: true}.Run()
	run.Activities = []cli.Activity{{Agent: "step-03", Doing: coordination.Doing{Kind: coordination.CallsModel, Since: time.Now(), What: "model call 3"}}}
	require.NoError(t, run.Kind.PrintStatus(t.Context(), conn, run))
	require.Contains(t, stdout.String(), "buy/r1 · paused · 0:02 · offline models\n  Buying\n  buy 01 Open: pass (1.5 s)\n")
	require.Contains(t, stdout.String(), "\n  at 03\n    0:00 model call 3\n  ignored the signal jump\n  paused by a person\n    `conclave resume buy/r1 --address h:7233` resumes it\n  1 of 3 steps passed · no tokens yet\n  follow it: conclave watch buy/r1")
	stdout.Reset()
	conn.JSON = true
	require.NoError(t, run.Kind.PrintStatus(t.Context(), conn, run))
	var now recentRun
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &now))
	require.Equal(t, "03", *now.Step)
	require.Equal(t, coordination.CallsModel, now.Doing.Kind)
	require.True(t, now.Paused)
	require.Equal(t, 3, now.RunNumber)
}

// A pause and its end are events. An open result of a run without a worker is the recorded one.
func TestReporter_open(t *testing.T) {
	t.Parallel()
	conn, _, _ := (&stage.Server{}).Connect(nil)
	run := runs.Order{Kind: Kind(), ID: "r1", Slug: "buy"}.Run()
	view, f := reporter{}.NewView(conn, run), &runs.Follower{}
	var news []string
	for _, paused := range []bool{true, true, false} {
		state := acts.State{Result: result(scenario.Running)}
		state.Steps, state.Paused = state.Steps[:0], paused
		for _, e := range view(t.Context(), f, state).News {
			news = append(news, e.Text)
		}
	}
	require.Equal(t, []string{"scenario run buy/r1 is paused; `conclave resume buy/r1 --address h:7233` resumes it", "scenario run buy/r1 was resumed"}, news)

	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	require.NoError(t, artifact.PutJSON(t.Context(), store, "scenarios/buy/runs/r1/result.json", result(scenario.Running)))
	conn.Store = store
	open := run.Kind.OpenResult(t.Context(), conn, run).(outcome)
	require.Len(t, open.Steps, 2)
	require.Equal(t, scenario.Running, open.Status)
}
