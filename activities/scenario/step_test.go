package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/activities/tools"
	"conclave/activities/workertest"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/step"
)

// heartbeatDetails are the details of a step's heartbeats, as servers keep them.
type heartbeatDetails struct {
	Fruitless int       `json:"fruitless"`
	Began     time.Time `json:"began,omitzero"`
}

// script is a model that gives the same reply to every request.
type script llm.Message

func (s script) Generate(context.Context, llm.Request) (llm.Reply, error) {
	return llm.Reply{Message: llm.Message(s), Usage: llm.Usage{InputTokens: 100, OutputTokens: 10, ModelCalls: 1}}, nil
}

// floor is a store with the activities of scenarios on it.
type floor struct {
	*testsuite.TestActivityEnvironment
	*Activities
	*workertest.Worker
	t     *testing.T
	store *artifact.Dir
}

// newFloor returns a floor with a run of a scenario of one step that is about to
// begin. The agent reports that every step passes.
func newFloor(t *testing.T) (*floor, StepInput) {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	report, err := json.Marshal(map[string]any{"status": "pass", "evidence_paths": []string{}, "error": nil, "summary": "Fine."})
	require.NoError(t, err)
	model := script{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c1", Name: "report_result", Arguments: string(report)}}}
	team := config.Default()
	team.Agents = team.Agents[:1]
	w := &workertest.Worker{OnModel: func(config.Agent) (loop.Model, error) { return model, nil }}
	f := &floor{t: t, store: store, Worker: w, Activities: &Activities{ReadFile: tools.ReadFile, Process: attempt.Process{
		Equipment: w, Server: w, Teams: activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: team}},
		Store: store, Now: time.Now, Scratch: t.TempDir(),
	}}}
	var suite testsuite.WorkflowTestSuite
	f.TestActivityEnvironment = suite.NewTestActivityEnvironment()
	f.SetTestTimeout(2 * time.Minute)
	f.RegisterSteps(f.TestActivityEnvironment)
	ref := scenario.StepRef{ID: "01", Title: "Open", File: "01-open.md"}
	value, err := f.ExecuteActivity("PrepareScenario", PrepareInput{
		RunID: "r1", Owner: artifact.Owner{WorkflowID: "w", FirstRunID: "f"}, Files: map[string]string{ref.File: "Open it."}, StepTimeoutSeconds: 60,
		Plan: scenario.Plan{Slug: "buy", Title: "Buy", Steps: []scenario.StepRef{ref}},
	})
	require.NoError(t, err)
	var p Prepared
	require.NoError(t, value.Get(&p))
	return f, StepInput{
		Scenario: "buy", Run: "r1", ConfigHash: p.ConfigHash, Launch: scenario.Launch{ID: "l1", Step: ref}, TimeoutSeconds: 60,
	}
}

func (f *floor) try(in StepInput) (StepResult, error) {
	f.t.Helper()
	value, err := f.ExecuteActivity("RunScenarioStep", in)
	var result StepResult
	if err == nil {
		require.NoError(f.t, value.Get(&result))
	}
	return result, err
}

// The time of a step counts from the beginning of its first attempt, and a late attempt
// is final; but it still finds an action that was committed in time.
func TestRunScenarioStep_timeIsOver(t *testing.T) {
	t.Parallel()
	f, in := newFloor(t)
	f.SetHeartbeatDetails(heartbeatDetails{Began: time.Now().Add(-time.Hour)})
	_, err := f.try(in)
	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, step.TimeOver, failed.Type())
	require.True(t, failed.NonRetryable())

	f, in = newFloor(t)
	first, err := f.try(in)
	require.NoError(t, err)
	f.SetHeartbeatDetails(heartbeatDetails{Began: time.Now().Add(-time.Hour)})
	again, err := f.try(in)
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// browser is a server whose browser does not start.
type browser struct{ called *[]string }

func (b browser) Tools() []llm.Tool {
	return []llm.Tool{{Name: "mcp__pw__browser_navigate"}, {Name: "mcp__pw__browser_click"}}
}

func (b browser) Run(_ context.Context, c llm.ToolCall) (loop.Output, error) {
	*b.called = append(*b.called, c.Name+c.Arguments)
	return loop.Output{Text: "error: ### Error\nChromium sandboxing failed!\nat launch", Failed: true}, nil
}

func (b browser) Close() error { return nil }

// A browser that cannot start ends the first step as an error with its reason, before a model is asked.
// Later steps and attempts do not touch the page that is open.
func TestRunScenarioStep_probesTheBrowser(t *testing.T) {
	t.Parallel()
	f, in := newFloor(t)
	var called []string
	f.OnOpenTools = func(context.Context, config.Agent, string, activities.Sharing) (step.Tools, error) {
		return browser{&called}, nil
	}
	_, err := f.try(in)
	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.NonRetryable())
	require.Equal(t, activities.ToolsUnavailable, failed.Type())
	require.Equal(t, "the browser of pw does not work: Chromium sandboxing failed!", failed.Message())
	require.Equal(t, []string{`mcp__pw__browser_navigate{"url":"about:blank"}`}, called)

	f, in = newFloor(t)
	f.OnOpenTools = func(context.Context, config.Agent, string, activities.Sharing) (step.Tools, error) {
		return browser{&called}, nil
	}
	in.Launch.Previous = &scenario.Previous{ID: "00", Status: scenario.Pass}
	_, err = f.try(in)
	require.NoError(t, err)
	require.Len(t, called, 1)
}

// The first step is an error if every call of the servers' tools failed, whatever the agent reports.
func TestRunScenarioStep_brokenServer(t *testing.T) {
	t.Parallel()
	f, in := newFloor(t)
	f.OnOpenTools = func(context.Context, config.Agent, string, activities.Sharing) (step.Tools, error) {
		return database{}, nil
	}
	asked := 0
	f.OnModel = func(config.Agent) (loop.Model, error) {
		return turns{&asked, []llm.ToolCall{
			{ID: "c1", Name: "mcp__db__query", Arguments: "{}"},
			{ID: "c2", Name: "report_result", Arguments: `{"status":"fail","evidence_paths":[],"error":"expected a row, found none","summary":"No."}`},
		}}, nil
	}
	got, err := f.try(in)
	require.NoError(t, err)
	require.Equal(t, scenario.Errored, got.Status)
	require.Equal(t, "the only call of db failed: connection refused", *got.Error)
	require.Contains(t, got.Warnings, "the only call of db failed: connection refused")
}

// turns is a model that makes one call after the other.
type turns struct {
	asked *int
	calls []llm.ToolCall
}

func (m turns) Generate(context.Context, llm.Request) (llm.Reply, error) {
	*m.asked++
	return llm.Reply{Message: llm.Message{Role: llm.Assistant, ToolCalls: m.calls[*m.asked-1 : *m.asked]}, Usage: llm.Usage{ModelCalls: 1}}, nil
}

// database is a server that cannot reach its database.
type database struct{}

func (database) Tools() []llm.Tool { return []llm.Tool{{Name: "mcp__db__query"}} }

func (database) Run(context.Context, llm.ToolCall) (loop.Output, error) {
	return loop.Output{Text: "connection refused", Failed: true}, nil
}

func (database) Close() error { return nil }

// Attempts that die silently end the step.
func TestRunScenarioStep_deadAttempts(t *testing.T) {
	t.Parallel()
	f, in := newFloor(t)
	f.SetHeartbeatDetails(heartbeatDetails{Fruitless: 3, Began: time.Now()})
	_, err := f.try(in)
	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "NoProgress", failed.Type())
}

// result.json of a running run exists before its first step.
func TestPrepareScenario_writesTheFirstResult(t *testing.T) {
	t.Parallel()
	before := artifact.Timestamp(time.Now())
	f, _ := newFloor(t)
	r, err := artifact.ReadJSON[Result](t.Context(), f.store, "scenarios/buy/runs/r1/result.json")
	require.NoError(t, err)
	require.Equal(t, scenario.Running, r.Status)
	require.Equal(t, 1, r.RunNumber)
	require.False(t, r.StartedAt.Before(before), "it began when it began")
	require.Nil(t, r.CompletedAt)
	require.Equal(t, []scenario.Result{}, r.Steps)
}

// A prd.md that was stored before the start must exist and have the given hash.
func TestPrepareScenario_findsTheStoredPRD(t *testing.T) {
	t.Parallel()
	const prd = "## Base URL\nhttp://127.0.0.1:8080\n"
	for name, tt := range map[string]struct {
		there string
		says  string
	}{
		"the same":   {prd, ""},
		"another":    {prd + "Password: hunter2\n", "has changed since run r2 was started"},
		"not there":  {"", "start the run with the bucket and prefix of the workers"},
		"cut in two": {prd[:10], "has changed since run r2 was started"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, in := newFloor(t)
			if tt.there != "" {
				require.NoError(t, f.store.Put(t.Context(), PRDKey("buy", "r2"), strings.NewReader(tt.there)))
			}
			_, err := f.ExecuteActivity("PrepareScenario", PrepareInput{
				RunID: "r2", Owner: artifact.Owner{WorkflowID: "w2", FirstRunID: "f2"}, Files: map[string]string{"01-open.md": "Open it."}, PRDHash: PRDHash(prd),
				Plan: scenario.Plan{Slug: "buy", Title: "Buy", Steps: []scenario.StepRef{in.Launch.Step}},
			})
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			var failed *temporal.ApplicationError
			require.ErrorAs(t, err, &failed)
			require.Contains(t, failed.Message(), tt.says)
			require.True(t, failed.NonRetryable())
		})
	}
}

// PrepareScenario and RecordScenario can be repeated, and do not change a run that
// belongs to another workflow.
func TestScenario_canBeRepeated(t *testing.T) {
	t.Parallel()
	f, in := newFloor(t)
	f.RegisterBookkeeping(f.TestActivityEnvironment)
	prepare := PrepareInput{
		RunID: "r1", Owner: artifact.Owner{WorkflowID: "w", FirstRunID: "f"}, Files: map[string]string{"01-open.md": "Open it."},
		Plan: scenario.Plan{Slug: "buy", Title: "Buy", Steps: []scenario.StepRef{in.Launch.Step}},
	}
	value, err := f.ExecuteActivity("PrepareScenario", prepare)
	require.NoError(t, err)
	var p Prepared
	require.NoError(t, value.Get(&p))
	require.Equal(t, 1, p.RunNumber, "it has a number")

	at := time.Now().UTC()
	failed := scenario.Result{ID: "01", Status: scenario.Fail, EvidencePaths: []string{}}
	record := RecordInput{
		Result: Result{RunID: "r1", RunNumber: 1, Scenario: "buy", Status: scenario.Fail, CompletedAt: &at, Steps: []scenario.Result{failed}, Execution: 1},
		Events: []Event{{Seq: 1, Kind: "started"}, {Seq: 2, Kind: "ended"}},
	}
	for range 2 {
		_, err := f.ExecuteActivity("RecordScenario", record)
		require.NoError(t, err)
	}
	lines, err := f.store.Get(t.Context(), "scenarios/buy/runs/r1/events.jsonl")
	require.NoError(t, err)
	require.Equal(t, 2, bytes.Count(lines, []byte("\n")), "every event is recorded once")

	resume := PrepareInput{RunID: "r1", Owner: artifact.Owner{WorkflowID: "w2", FirstRunID: "f2"}, Plan: scenario.Plan{Slug: "buy"}, Resume: true}
	for range 2 {
		value, err := f.ExecuteActivity("PrepareScenario", resume)
		require.NoError(t, err)
		var p Prepared
		require.NoError(t, value.Get(&p))
		require.Equal(t, 2, p.Execution)
		require.Equal(t, 2, p.Events)
		require.Equal(t, 60, p.StepTimeoutSeconds, "that of the first workflow")
	}
	resume.WorkflowID = "w3"
	_, err = f.ExecuteActivity("PrepareScenario", resume)
	require.ErrorContains(t, err, "it belongs to workflow w2")

	_, err = f.ExecuteActivity("RecordScenario", record) // of the first workflow, late
	require.NoError(t, err)
	data, err := f.store.Get(t.Context(), "scenarios/buy/runs/r1/result.json")
	require.NoError(t, err)
	var r Result
	require.NoError(t, json.Unmarshal(data, &r))
	require.Equal(t, scenario.Running, r.Status)
	require.Equal(t, 2, r.Execution)

	// The retried step was running when the second workflow was cut off.
	layout := artifact.InScenario("buy", "r1")
	for n, token := range []string{"f-l1", "f2-l1"} {
		require.NoError(t, artifact.CreateJSON(t.Context(), f.store, layout.ScenarioStep("01", n+1, "step.json"), artifact.Claim{Token: token}))
		require.NoError(t, artifact.CreateJSON(t.Context(), f.store, layout.Journal(token, 1), map[string]any{"attempt": 1}))
	}
	resume.Owner, resume.StepTimeoutSeconds = artifact.Owner{WorkflowID: "w2", FirstRunID: "f3"}, 90
	value, err = f.ExecuteActivity("PrepareScenario", resume)
	require.NoError(t, err)
	p = Prepared{}
	require.NoError(t, value.Get(&p))
	require.Equal(t, "f2-l1", p.Rest)
	require.Equal(t, 90, p.StepTimeoutSeconds)
	require.Equal(t, "01", p.RestStep)
	require.True(t, p.Unrecorded)
}

// cutting provides a tool list_files that runs until the step is cancelled.
type cutting struct {
	opened step.Tools
	began  chan struct{} // closed when it runs
}

func (c cutting) Tools() []llm.Tool { return c.opened.Tools() }

func (c cutting) Close() error { return c.opened.Close() }

func (c cutting) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	if call.Name != "list_files" {
		return c.opened.Run(ctx, call)
	}
	close(c.began)
	<-ctx.Done()
	return loop.Output{}, ctx.Err()
}

// cutOff makes the server cancel the step while list_files runs.
func (f *floor) cutOff() {
	began := make(chan struct{})
	f.OnOpenTools = func(ctx context.Context, a config.Agent, dir string, s activities.Sharing) (step.Tools, error) {
		opened, err := (&workertest.Worker{}).OpenTools(ctx, a, dir, s)
		return cutting{opened, began}, err
	}
	f.OnHeartbeat = func(context.Context, []byte, ...any) error {
		<-began
		return temporal.NewCanceledError()
	}
}

// A step that is cancelled in a batch of calls keeps what the batch has done.
func TestRunScenarioStep_cancelledInABatch(t *testing.T) {
	t.Parallel()
	f, in := newFloor(t)
	f.OnModel = func(config.Agent) (loop.Model, error) {
		return script{Role: llm.Assistant, ToolCalls: []llm.ToolCall{
			{ID: "c1", Name: "write_file", Arguments: `{"path":"a.txt","content":"x"}`}, {ID: "c2", Name: "list_files", Arguments: "{}"},
		}}, nil
	}
	f.cutOff()
	_, err := f.try(in)
	layout := artifact.InScenario("buy", "r1")
	dir := layout.ScenarioStep("01", 1, "")
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, err, &cancelled)
	files, err := artifact.ReadJSON[artifact.Manifest](t.Context(), f.store, dir+"partial.json")
	require.NoError(t, err)
	require.Equal(t, "a.txt", files.Files[0].Path)
	left, err := step.ReadTranscript(t.Context(), f.store, layout, dir)
	require.NoError(t, err)
	last := left.Lines[len(left.Lines)-1]
	require.Equal(t, loop.Results, last.Kind)
	require.Len(t, last.Messages, 1, "of write_file")
}
