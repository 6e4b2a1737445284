package files

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	"conclave/workflows"
)

func pipelineOf(t *testing.T) *cli.Connection {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	layout := artifact.InPipeline("p1")
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), store, key, doc)) }
	put(layout.File("pipeline.json"), map[string]string{"request": "A haiku", "workflow_id": "p1", "first_run_id": "r1"})
	put(layout.File("claims/001.json"), artifact.Claim{Token: "l1"})
	for n, step := range map[int]string{1: "main", 2: "lint"} {
		put(layout.PipelineStep(n, step, "step.json"), artifact.Claim{Token: step, StartedAt: time.Unix(1, 0).UTC()})
		data, err := json.Marshal(entryAt{time.Unix(1, 0).UTC(), loop.Entry{Kind: loop.Opening, Messages: []llm.Message{{Role: llm.User, Content: "A haiku"}}}})
		require.NoError(t, err)
		require.NoError(t, store.Put(t.Context(), layout.PipelineStep(n, step, "transcript.jsonl"), bytes.NewReader(append(data, '\n'))))
	}
	put(layout.PipelineStep(1, "main", "action.json"), artifact.Commit{Token: "main", Kind: string(pipeline.Call), Payload: json.RawMessage(`{"text":"a moment","to":"lint","iterations":1}`)})
	put(layout.PipelineStep(2, "lint", "action.json"), artifact.Commit{Token: "lint", Kind: string(pipeline.Completed), Payload: json.RawMessage(`{"text":"clean","iterations":2}`)})
	put(layout.PipelineStep(2, "lint", "answer.json"), artifact.Answer{AgentID: "lint", Answer: "clean", Label: "lint"})
	url := store.URL(layout.PipelineStep(2, "lint", "workspace"))
	put(layout.PipelineStep(2, "lint", "last_action.json"), artifact.LastAction{AgentID: "lint", Action: "completed", StepNumber: 2, WorkspacePath: &url})
	return &cli.Connection{Store: store}
}

func TestPull_pipeline(t *testing.T) {
	t.Parallel()
	p, dir := pipelineOf(t), t.TempDir()
	pulledRun := func() (int, string) {
		var out, errs bytes.Buffer
		c := &cli.CLI{Stdout: &out, Stderr: &errs, JSON: true, Queue: workflows.TaskQueue}
		p.CLI = c
		return stage.Report(c, pullFrom(t.Context(), p, "p1", dir, true)), out.String()
	}
	code, stdout := pulledRun()
	require.Equal(t, cli.ExitOK, code, stdout)
	var s pullResult
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	require.Equal(t, 2, s.Verified.Steps)
	require.NoDirExists(t, filepath.Join(dir, "claims"))
	last, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, last.Close()) })
	action, err := artifact.ReadJSON[artifact.LastAction](t.Context(), last, "steps/002-lint/last_action.json")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "steps/002-lint/workspace"), *action.WorkspacePath)

	require.NoError(t, artifact.PutJSON(t.Context(), last, "steps/002-lint/answer.json", artifact.Answer{Answer: "filthy"}))
	require.NoError(t, artifact.PutJSON(t.Context(), last, "steps/001-main/answer.json", artifact.Answer{Answer: "x"}))
	code, stdout = pulledRun()
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Contains(t, stdout, "steps/002-lint/answer.json\",\n        \"problem\": \"is missing or not what action.json commits")
	require.Contains(t, stdout, "is there, and action.json commits a call")

	other := answered(t)
	code, _, stderr := pulled(t, cli.CLI{}, other, dir, false)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "it is not empty and holds no session; name a new or an empty directory")
}

func TestTranscript_pipeline(t *testing.T) {
	t.Parallel()
	p := pipelineOf(t)
	code, stdout, stderr := asked(t, cli.CLI{}, p, stepRequest{run: "p1", agent: "lint"})
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "lint · step 002")
	_, stdout, _ = asked(t, cli.CLI{}, p, stepRequest{run: "p1", agent: "main", step: 1})
	require.Contains(t, stdout, "A haiku")
	code, _, stderr = asked(t, cli.CLI{}, p, stepRequest{run: "p1", agent: "main", step: 2})
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, `has no step "main 002"; it has main 001, lint 002`)
}
