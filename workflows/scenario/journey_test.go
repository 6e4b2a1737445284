package scenario_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	acts "conclave/activities/scenario"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/scenario"
	"conclave/workflows"
	scenarioflow "conclave/workflows/scenario"
	"conclave/workflows/stagetest"
)

const aboutShop = `# Shop

## Application Type

Web shop, base URL http://127.0.0.1:3000

## Credentials

- User: alice@example.com
- Password: hunter2!

## Tech Stack

Go
`

// journey returns a scenario of several steps, the second of which signs in.
func journey(id string, steps int) scenarioflow.Input {
	in := scenarioflow.Input{RunID: id, PRD: aboutShop, Files: map[string]string{}, Plan: scenario.Plan{Slug: "buy", Title: "Buy a thing"}}
	for n := 1; n <= steps; n++ {
		ref := scenario.StepRef{ID: fmt.Sprintf("%02d", n), Title: fmt.Sprintf("Step %d", n), File: fmt.Sprintf("%02d-do.md", n)}
		in.Plan.Steps = append(in.Plan.Steps, ref)
		in.Files[ref.File] = fmt.Sprintf("# Step %02d\n\nOpen the page.", n)
		if n == 2 {
			in.Files[ref.File] = "---\ncredentials: true\n---\n\n# Step 02\n\nLog in as it says."
		}
	}
	return in
}

// ends returns a report of a step.
func ends(status string, claimed ...string) llm.Message {
	report := map[string]any{"status": status, "evidence_paths": append([]string{}, claimed...), "error": nil, "summary": "Done."}
	if status == "fail" {
		report["error"] = "expected a cart, saw none"
	}
	data, _ := json.Marshal(report)
	return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "r", Name: "report_result", Arguments: string(data)}}}
}

func records(name, kind, data string) llm.Message {
	return stagetest.Call(scenario.EvidenceTool, map[string]string{"name": name, "type": kind, "data": data})
}

func newScenario(t *testing.T, replies ...any) *stagetest.Stage {
	t.Helper()
	s := stagetest.New(t, map[string][]any{"agent_a": replies}, nil)
	s.RegisterWorkflowWithOptions(scenarioflow.Workflow, workflow.RegisterOptions{Name: scenarioflow.Type})
	return s
}

// under runs a scenario as a child workflow with its own workflow ID and run ID, because the test
// environment gives run IDs only to children.
func under(ctx workflow.Context, id string, in scenarioflow.Input) (acts.Result, error) {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: id})
	var r acts.Result
	err := workflow.ExecuteChildWorkflow(ctx, scenarioflow.Type, in).Get(ctx, &r)
	return r, err
}

// on returns a stage with the store of another one.
func on(t *testing.T, earlier *stagetest.Stage, replies ...any) *stagetest.Stage {
	t.Helper()
	s := stagetest.NewOn(t, earlier.Store, map[string][]any{"agent_a": replies}, nil)
	s.RegisterWorkflowWithOptions(scenarioflow.Workflow, workflow.RegisterOptions{Name: scenarioflow.Type})
	s.RegisterWorkflow(under)
	return s
}

func runScenario(t *testing.T, s *stagetest.Stage, in scenarioflow.Input) acts.Result {
	t.Helper()
	s.ExecuteWorkflow(scenarioflow.Type, in)
	return ended(t, s, in)
}

func runUnder(t *testing.T, s *stagetest.Stage, id string, in scenarioflow.Input) acts.Result {
	t.Helper()
	s.ExecuteWorkflow(under, id, in)
	return ended(t, s, in)
}

func ended(t *testing.T, s *stagetest.Stage, in scenarioflow.Input) acts.Result {
	t.Helper()
	require.True(t, s.IsWorkflowCompleted())
	require.NoError(t, s.GetWorkflowError())
	var result acts.Result
	require.NoError(t, s.GetWorkflowResult(&result))
	require.Equal(t, result, resultOf(t, s, in.RunID), "result.json is the result of the workflow")
	return result
}

// resultOf reads result.json of a run.
func resultOf(t *testing.T, s *stagetest.Stage, id string) acts.Result {
	t.Helper()
	r, err := artifact.ReadJSON[acts.Result](t.Context(), s.Store, "scenarios/buy/runs/"+id+"/result.json")
	require.NoError(t, err)
	return r
}

func statuses(r acts.Result) string {
	all := []string{string(r.Status)}
	for _, s := range r.Steps {
		all = append(all, string(s.Status))
	}
	return strings.Join(all, " ")
}

func TestScenario_AllPass(t *testing.T) {
	t.Parallel()
	s := newScenario(t,
		stagetest.Call("write_file", map[string]string{"path": "notes.md", "content": "x"}),
		records("before", "console_log", "quiet"), records("after", "console_log", "loud"),
		ends("pass", "step-01/evidence/before.txt", "step-01/evidence/after.txt"),
		ends("pass"), ends("pass"))
	result := runScenario(t, s, journey("r1", 3))
	require.Equal(t, "pass pass pass pass", statuses(result))
	require.Equal(t, 1, result.RunNumber)
	require.NotNil(t, result.CompletedAt)
	require.Equal(t, artifact.Timestamp(*result.CompletedAt), *result.CompletedAt, "whole milliseconds, as in all documents")
	require.Nil(t, result.FailedStep)
	require.Nil(t, result.Error)
	require.Equal(t, int64(6), result.Cost.ModelCalls)
	require.Equal(t, []string{"step-01/evidence/after.txt", "step-01/evidence/before.txt"}, result.Steps[0].EvidencePaths)
	require.Empty(t, result.Steps[0].Warnings)
	require.Equal(t, []string{}, result.Steps[1].EvidencePaths)
	require.Equal(t, "Done.", result.Steps[1].Summary)

	for _, file := range []string{
		"step-01/step.json", "step-01/action.json", "step-01/transcript.jsonl", "step-01/workspace.json", "step-01/last_action.json",
		"step-01/evidence/before.meta.json", "step-03/transcript.jsonl", "definition/meta.json", "definition/steps/02-do.md", "definition/prd.md", "events.jsonl",
	} {
		there, err := s.Store.Exists(t.Context(), "scenarios/buy/runs/r1/"+file)
		require.NoError(t, err)
		require.True(t, there, file)
	}
	meta, err := artifact.ReadJSON[scenario.Evidence](t.Context(), s.Store, "scenarios/buy/runs/r1/step-01/evidence/after.meta.json")
	require.NoError(t, err)
	require.Equal(t, "r1 01 console_log after after.txt", strings.Join([]string{meta.RunID, meta.StepID, meta.Type, meta.Name, meta.File}, " "))
	require.Equal(t, int64(4), meta.Size)
	require.Len(t, meta.SHA256, 64)
	for key, err := range s.Store.List(t.Context(), "scenarios/buy/runs/r1/journal/") {
		require.NoError(t, err)
		require.Fail(t, "a journal is left", key)
	}
	stagetest.RequireTimes(t, s.Store, artifact.InScenario("buy", "r1"))
}

// "Fail, no result, or a step timeout stops the run; later steps skipped"
func TestScenario_WhatStopsARun(t *testing.T) {
	t.Parallel()
	talk := stagetest.Text("I think it works.")
	for name, c := range map[string]struct {
		replies []any
		want    string
		seconds int
		why     string
	}{
		"fail":      {[]any{ends("pass"), ends("fail")}, "fail pass fail skipped skipped", 0, "expected a cart, saw none"},
		"no result": {[]any{ends("pass"), talk, talk, talk}, "fail pass error skipped skipped", 0, `NoAction: the agent reported no verdict in 3 model calls; it last said: "I think it works."`},
		"timeout":   {[]any{ends("pass"), stagetest.Never()}, "fail pass error skipped skipped", 10, "TimeOver: the step's time of 10s was over"},
		"broken":    {[]any{ends("pass"), &llm.Error{Kind: llm.AuthFailed, Message: "no such key"}}, "fail pass error skipped skipped", 0, "AuthFailed: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, c.replies...)
			in := journey("r1", 4)
			in.StepTimeoutSeconds = c.seconds
			result := runScenario(t, s, in)
			require.Equal(t, c.want, statuses(result))
			require.NotNil(t, result.CompletedAt)
			require.Equal(t, "02", *result.FailedStep)
			require.Contains(t, *result.Error, c.why)
			require.Contains(t, *result.Steps[1].Error, c.why)
			require.Nil(t, result.Steps[2].Error)
		})
	}
}

// "Each agent receives only …": the file of its step, the summary, and the status of
// the step before it, which may be any.
func TestScenario_EachAgentReceivesOnly(t *testing.T) {
	t.Parallel()
	first := map[int]llm.Request{}
	noise := strings.Repeat("noise ", 5000)
	s := newScenario(t, records("before", "custom", noise), ends("pass"), ends("pass"), stagetest.Call("list_files", nil), ends("pass"), ends("pass"))
	s.Cast["agent_a"].Saw = func(n int, req llm.Request) { first[n] = req }
	require.Equal(t, "pass pass pass pass pass", statuses(runScenario(t, s, journey("r1", 4))))

	opening := func(req llm.Request) string { return req.Messages[1].Content }
	for _, n := range []int{1, 3, 4, 6} {
		require.Len(t, first[n].Messages, 2, "a fresh conversation")
		require.Equal(t, first[1].Messages[0], first[n].Messages[0])
		require.Equal(t, first[1].Tools, first[n].Tools)
	}
	require.Equal(t, `Execute step 03 of scenario buy.

## Step content

# Step 03

Open the page.

## Project context

## Application Type
Web shop, base URL http://127.0.0.1:3000

## Tech Stack
Go

## Previous step

step 02: pass
`, opening(first[4]))
	require.Contains(t, opening(first[1]), "\nfirst step\n")
	require.Contains(t, opening(first[3]), "hunter2!", "it signs in")
	require.NotContains(t, opening(first[1])+opening(first[4]), "hunter2!")

	// The size of the first request of step k does not depend on k.
	require.Equal(t, strings.ReplaceAll(opening(first[4]), "03", "04"), strings.ReplaceAll(opening(first[6]), "step 03: pass", "step 02: pass"))
}

func TestScenario_InvalidInputFailsAtOnce(t *testing.T) {
	t.Parallel()
	change := func(f func(*scenarioflow.Input)) scenarioflow.Input {
		in := journey("r1", 2)
		f(&in)
		return in
	}
	two := json.RawMessage(`{"agents":[{"id":"a","backend":{"model":"m"}},{"id":"b","backend":{"model":"m"}}]}`)
	spends := func(limit string) json.RawMessage {
		return json.RawMessage(`{"agents":[{"id":"a","backend":{"model":"m"}}],"orchestrator":{"budget":{` + limit + `}}}`)
	}
	for name, in := range map[string]any{
		"a budget of money":  change(func(in *scenarioflow.Input) { in.Config = spends(`"max_cost_usd":1`) }),
		"a budget of tokens": change(func(in *scenarioflow.Input) { in.Config = spends(`"max_total_tokens":9`) }),
		"slug leaves":        change(func(in *scenarioflow.Input) { in.Plan.Slug = "../other" }),
		"run id leaves":      change(func(in *scenarioflow.Input) { in.RunID = "../r2" }),
		"dashed run id":      change(func(in *scenarioflow.Input) { in.RunID = "-r2" }),
		"file leaves":        change(func(in *scenarioflow.Input) { in.Plan.Steps[0].File = "../01-x.md" }),
		"id is twice":        change(func(in *scenarioflow.Input) { in.Plan.Steps[1].ID = "01" }),
		"no steps":           journey("r1", 0),
		"100 steps":          journey("r1", 100),
		"two agents":         change(func(in *scenarioflow.Input) { in.Config = two }),
		"both":               change(func(in *scenarioflow.Input) { in.Config, in.Team = two, "default" }),
		"unknown team":       change(func(in *scenarioflow.Input) { in.Team = "nobody" }),
		"reaches out": change(func(in *scenarioflow.Input) {
			in.Config = json.RawMessage(strings.Replace(string(two), `"m"`, `"m","base_url":"http://x"`, 1))
		}),
		"huge files":            change(func(in *scenarioflow.Input) { in.Files["01-do.md"] = strings.Repeat("x", scenarioflow.MaxDefinition) }),
		"huge prd":              change(func(in *scenarioflow.Input) { in.PRD = strings.Repeat("x", scenarioflow.MaxDefinition+1) }),
		"undeclared credential": change(func(in *scenarioflow.Input) { in.PRD = "## Credentials\n\nada / hunter2\n" }),
		"credential in a step":  change(func(in *scenarioflow.Input) { in.Files["02-do.md"] = "---\ncredentials: hunter2\n---\n# Step 02\n" }),
		"missing file":          change(func(in *scenarioflow.Input) { delete(in.Files, "02-do.md") }),
		"empty file":            change(func(in *scenarioflow.Input) { in.Files["02-do.md"] = "\n" }),
		"odd file":              change(func(in *scenarioflow.Input) { in.Files["03-do.md"] = "x" }),
		"negative time":         change(func(in *scenarioflow.Input) { in.StepTimeoutSeconds = -1 }),
		"prd twice":             change(func(in *scenarioflow.Input) { in.PRDHash = acts.PRDHash(in.PRD) }),
		"no hash of prd":        change(func(in *scenarioflow.Input) { in.PRD, in.PRDHash = "", "../prd.md" }),
		"prd is not there":      change(func(in *scenarioflow.Input) { in.PRD, in.PRDHash = "", acts.PRDHash(in.PRD) }),
		"nothing to continue":   scenarioflow.Input{RunID: "gone", Plan: scenario.Plan{Slug: "buy"}, Resume: true},
		"resume of no run":      scenarioflow.Input{Plan: scenario.Plan{Slug: "buy"}, Resume: true},
		"resume of no scenario": scenarioflow.Input{RunID: "r1", Resume: true},
		"resume and edit":       change(func(in *scenarioflow.Input) { in.Resume = true }),
		"no object":             "hello",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, ends("pass"))
			s.ExecuteWorkflow(scenarioflow.Type, in)
			require.True(t, s.IsWorkflowCompleted())
			var refused *temporal.ApplicationError
			require.ErrorAs(t, s.GetWorkflowError(), &refused)
			require.True(t, refused.NonRetryable())
			require.Contains(t, []string{workflows.InvalidInput, activities.ConfigInvalid}, refused.Type())
			require.Zero(t, s.Cast["agent_a"].Asked, "nothing was paid for")
			for key, err := range s.Store.List(t.Context(), "scenarios/") {
				require.NoError(t, err)
				require.Fail(t, "something was written", key)
			}
		})
	}
}
