package recordtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/artifact"
	"conclave/engine/pipeline"
)

// Run is a pipeline's run in progress, in its own store.
type Run struct {
	t      testing.TB
	ID     string
	Dir    string
	Store  *artifact.Dir
	Layout artifact.Layout
	view   pipeline.View
	now    time.Time
}

// NewRun starts a run of the steps main, decide and export.
func NewRun(t testing.TB, id string) *Run {
	t.Helper()
	dir := t.TempDir()
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	r := &Run{t: t, ID: id, Dir: dir, Store: store, Layout: artifact.InPipeline(id), now: Began, view: pipeline.View{Stack: []string{}, Trace: []pipeline.TraceEntry{}}}
	r.put(r.Layout.File("pipeline.json"), map[string]any{"request": "Write a haiku.", "created_at": Began, "workflow_id": id})
	r.put(r.Layout.File("config.json"), map[string]any{"steps": []map[string]string{{"name": "main"}, {"name": "decide"}, {"name": "export"}}})
	r.Status("running")
	return r
}

func (r *Run) put(key string, document any) {
	r.t.Helper()
	require.NoError(r.t, artifact.PutJSON(r.t.Context(), r.Store, key, document))
}

// Status writes the status of the run.
func (r *Run) Status(status string) {
	r.t.Helper()
	r.put(r.Layout.File("status.json"), struct {
		ID      string `json:"id"`
		Request string `json:"request"`
		Status  string `json:"status"`
		pipeline.View
	}{r.ID, "Write a haiku.", status, r.view})
}

// Visit adds a visit of a step with a text. If team is not empty, a session decided it.
func (r *Run) Visit(seconds float64, step, text, team string) {
	r.t.Helper()
	number := len(r.view.Trace) + 1
	dir := r.Layout.PipelineStep(number, step, "")
	launch := fmt.Sprintf("l%d", number)
	r.put(dir+"step.json", artifact.Claim{Token: "r-1-" + launch, StartedAt: r.now})
	r.now = r.now.Add(time.Duration(seconds * float64(time.Second)))
	r.put(dir+"action.json", artifact.Commit{Token: "r-1-" + launch, Kind: "end", Timestamp: r.now})
	r.put(dir+"answer.json", artifact.Answer{AgentID: step, Answer: text, Timestamp: r.now})
	sum, err := artifact.PutBlob(r.t.Context(), r.Store, r.Layout, []byte(text+"\n"))
	require.NoError(r.t, err)
	r.put(dir+"workspace.json", artifact.Manifest{Files: []artifact.File{{Path: "haiku.txt", Size: int64(len(text) + 1), SHA256: sum}}})
	require.NoError(r.t, r.Store.Put(r.t.Context(), dir+"transcript.jsonl", emptyFile()))
	if team != "" {
		r.put(artifact.InBucket(fmt.Sprintf("%s-%s-%s", r.ID, step, launch)).File("session.json"), artifact.Session{Query: text, CreatedAt: r.now})
	}
	r.view.Trace = append(r.view.Trace, pipeline.TraceEntry{Number: number, Step: step, Status: pipeline.Completed, Text: text, Team: team})
	r.Status("running")
}

// End writes the result of the run.
func (r *Run) End(final string) {
	r.t.Helper()
	r.put(r.Layout.File("result.json"), map[string]any{"trace": r.view.Trace, "final": final})
	r.Status("completed")
}
