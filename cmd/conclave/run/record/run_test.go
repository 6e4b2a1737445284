package record

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// filled returns a store with empty documents under the keys.
func filled(t *testing.T, keys ...string) *artifact.Dir {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	for _, key := range keys {
		require.NoError(t, store.Put(t.Context(), key, strings.NewReader("{}")))
	}
	return store
}

// An ID names one run of any kind. That of a scenario's run is SLUG/RUN_ID, or its run ID if only
// one scenario has it.
func TestFind(t *testing.T) {
	t.Parallel()
	store := filled(t, "sessions/s1/session.json", "sessions/r1/session.json", "sessions/damaged/status.json", "pipelines/p1/pipeline.json",
		"pipelines/started/config.json", "scenarios/buy/runs/r1/result.json", "scenarios/buy/runs/r2/step-01/step.json",
		"scenarios/buy/runs/both/result.json", "scenarios/sell/runs/both/result.json", "scenarios/buy/numbers/001.json")
	for id, want := range map[string]string{
		"s1": "session s1", "p1": "pipeline run p1", "buy/r1": "scenario run buy/r1", "r2": "scenario run buy/r2", "sell/both": "scenario run sell/both",
		"scenario-sell-both": "scenario run sell/both", "r1": "session r1", "damaged": "session damaged", "started": "pipeline run started",
	} {
		r, err := Find(t.Context(), store, id)
		require.NoError(t, err, id)
		require.Equal(t, want, r.String())
		require.Equal(t, "/"+strings.TrimSuffix(strings.Replace(r.Layout.Root(), "/runs/", "/", 1), "/"), r.Page())
	}
	for _, id := range []string{"r", "s2", "buy", "buy/r3", "sell/r1", "numbers"} {
		_, err := Find(t.Context(), store, id)
		require.ErrorIs(t, err, ErrNone, id)
	}
	_, err := Find(t.Context(), store, "both")
	require.EqualError(t, err, "several scenarios have a run both; name one of buy/both, sell/both")
}

func TestCheckID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"s1", "buy/r1", "a.b"} {
		require.NoError(t, CheckID(id))
	}
	for _, id := range []string{"", "..", "a b", "buy/", "/r1", "Buy/r1", "buy/../r1", "buy/r1/x"} {
		require.Error(t, CheckID(id), id)
	}
}

func TestRunOf(t *testing.T) {
	t.Parallel()
	for key, want := range map[string][2]string{
		"sessions/s1/agents/a/001/step.json":     {"session s1", "agents/a/001/step.json"},
		"pipelines/p1/pipeline.json":             {"pipeline run p1", "pipeline.json"},
		"scenarios/buy/runs/r1/step-01/launch-2": {"scenario run buy/r1", "step-01/launch-2"},
	} {
		r, name, ok := RunOf(nil, key)
		require.True(t, ok)
		require.Equal(t, want, [2]string{r.String(), name})
		require.Equal(t, key, r.Layout.File(name))
	}
	for _, key := range []string{"sessions/s1", "scenarios/buy/numbers/1", "scenarios/buy/runs/r1", "bases/x/y", ""} {
		_, _, ok := RunOf(nil, key)
		require.False(t, ok, key)
	}
}

// The steps of a run are its directories of steps, ordered by number.
func TestRun_Steps(t *testing.T) {
	t.Parallel()
	store := filled(t, "sessions/s1/agents/a/001/step.json", "sessions/s1/agents/a/001/workspace/002/x", "sessions/s1/agents/a/999/step.json",
		"sessions/s1/agents/a/1000/step.json", "sessions/s1/agents/a/last_action.json", "sessions/s1/agents/a/0003/x", "sessions/s1/agents/a/000/x",
		"sessions/s1/agents/a/notes/x", "sessions/s1/agents/a-b/001/step.json", "sessions/s1/final/a/answer.json",
		"pipelines/p1/steps/002-lint/step.json", "pipelines/p1/steps/001-main/step.json", "pipelines/p1/steps/notes/x",
		"scenarios/buy/runs/r1/step-02/step.json", "scenarios/buy/runs/r1/step-02/launch-2/step.json", "scenarios/buy/runs/r1/step-02/launch-1/x",
		"scenarios/buy/runs/r1/step-01/attempt-2/evidence/x", "scenarios/buy/runs/r1/result.json")
	s1, p1, r1 := Sessions.At(store, "s1"), Pipelines.At(store, "p1"), Scenarios.At(store, "buy/r1")
	for _, c := range []struct {
		run   Run
		agent string
		want  []StepDir
	}{
		{s1, "", []StepDir{{"a", 1, "agents/a/001/"}, {"a", 999, "agents/a/999/"}, {"a", 1000, "agents/a/1000/"}, {"a-b", 1, "agents/a-b/001/"}}},
		{s1, "a-b", []StepDir{{"a-b", 1, "agents/a-b/001/"}}},
		{s1, "nobody", nil},
		{s1, "../s1", nil},
		{p1, "", []StepDir{{"main", 1, "steps/001-main/"}, {"lint", 2, "steps/002-lint/"}}},
		{p1, "lint", []StepDir{{"lint", 2, "steps/002-lint/"}}},
		{r1, "", []StepDir{{"01", 1, "step-01/"}, {"02", 1, "step-02/"}, {"02", 2, "step-02/launch-2/"}}},
		{r1, "02", []StepDir{{"02", 1, "step-02/"}, {"02", 2, "step-02/launch-2/"}}},
	} {
		steps, err := c.run.Steps(t.Context(), c.agent)
		require.NoError(t, err)
		require.Equal(t, c.want, steps)
	}
}

// The documents in a directory tell the kind of its run; without any it is a session of step mode.
func TestInDirectory(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]*Kind{"session.json": Sessions, "pipeline.json": Pipelines, "result.json": Scenarios, "notes.txt": Sessions} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte("{}"), 0o600))
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer func() { _ = root.Close() }()
		require.Equal(t, want, InDirectory(nil, root).Kind)
	}
}
