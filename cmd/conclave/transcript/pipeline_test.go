package transcript

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/hall/halltest"
	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
)

func pipelineOf(t *testing.T) *hall.Connection {
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
		data, err := json.Marshal(entryAt{Time: time.Unix(1, 0).UTC(), Entry: loop.Entry{Kind: loop.Opening, Messages: []llm.Message{{Role: llm.User, Content: "A haiku"}}}})
		require.NoError(t, err)
		require.NoError(t, store.Put(t.Context(), layout.PipelineStep(n, step, "transcript.jsonl"), bytes.NewReader(append(data, '\n'))))
	}
	put(layout.PipelineStep(1, "main", "action.json"), artifact.Commit{Token: "main", Kind: string(pipeline.Call), Payload: json.RawMessage(`{"text":"a moment","to":"lint","iterations":1}`)})
	put(layout.PipelineStep(2, "lint", "action.json"), artifact.Commit{Token: "lint", Kind: string(pipeline.Completed), Payload: json.RawMessage(`{"text":"clean","iterations":2}`)})
	put(layout.PipelineStep(2, "lint", "answer.json"), artifact.Answer{AgentID: "lint", Answer: "clean", Label: "lint"})
	url := store.URL(layout.PipelineStep(2, "lint", "workspace"))
	put(layout.PipelineStep(2, "lint", "last_action.json"), artifact.LastAction{AgentID: "lint", Action: "completed", StepNumber: 2, WorkspacePath: &url})
	return &hall.Connection{Store: store}
}

func TestTranscript_pipeline(t *testing.T) {
	t.Parallel()
	p := pipelineOf(t)
	shown := func(step string, number int) (int, string, string) {
		var out, errs bytes.Buffer
		c := &hall.CLI{Stdout: &out, Stderr: &errs, Queue: drive.TaskQueue}
		p.CLI = c
		return halltest.Report(c, show(t.Context(), p, request{session: "p1", agent: step, step: number})), out.String(), errs.String()
	}
	code, stdout, stderr := shown("lint", 0)
	require.Equal(t, hall.ExitOK, code, stderr)
	require.Contains(t, stdout, "lint · step 002")
	_, stdout, _ = shown("main", 1)
	require.Contains(t, stdout, "A haiku")
	code, _, stderr = shown("main", 2)
	require.Equal(t, hall.ExitUsage, code)
	require.Contains(t, stderr, `has no step "main 002"; it has main 001, lint 002`)
}
