package scenario

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
)

// A run has a result before it starts, and leaves nothing if it does not start.
func TestBegin(t *testing.T) {
	t.Parallel()
	p := open(t, t.TempDir())
	save(t, p, "buy", "Open")
	at := time.Date(2026, 11, 22, 11, 0, 0, 0, time.FixedZone("CET", 3600))
	data, err := p.Begin("buy", "r1", at)
	require.NoError(t, err)
	r, err := p.Run("buy", "r1")
	require.NoError(t, err)
	require.Equal(t, scenario.Running, r.Status)
	require.Equal(t, "2026-11-22T10:00:00Z", r.StartedAt)
	require.JSONEq(t, string(data), read(t, p.Path("buy", "runs", "r1", "result.json")))

	require.NoError(t, p.Forget("buy", "r1"))
	require.NoDirExists(t, p.Path("buy", "runs", "r1"))
	_, err = p.Run("buy", "r1")
	require.EqualError(t, err, "there is no run r1 of scenario buy in "+p.Path("buy", "runs")+"; `conclave scenario status` lists the runs")
	require.ErrorContains(t, p.Forget("buy", "r1"), "whose run was not started")
	for slug, id := range map[string]string{"../buy": "r1", "buy": "../r1", "Buy": "r1"} {
		_, err := p.Begin(slug, id, at)
		require.Error(t, err)
		_, err = p.Run(slug, id)
		require.Error(t, err)
	}
}

// A result is written with indentation, and only if it belongs to the run.
func TestNote(t *testing.T) {
	t.Parallel()
	p := open(t, t.TempDir())
	require.NoError(t, p.Note("buy", "r1", []byte(runResult(t, scenario.Run{RunID: "r1", Scenario: "buy", Status: scenario.Pass}))))
	text := read(t, p.Path("buy", "runs", "r1", "result.json"))
	require.True(t, strings.HasPrefix(text, "{\n  \"run_id\": \"r1\""), text)
	require.True(t, strings.HasSuffix(text, "}\n"))
	for _, wrong := range []string{"", "{", "[]", runResult(t, scenario.Run{RunID: "r2", Scenario: "buy"}), runResult(t, scenario.Run{RunID: "r1", Scenario: "sell"})} {
		require.ErrorContains(t, p.Note("buy", "r1", []byte(wrong)), "write the result of run r1")
	}
	require.Equal(t, text, read(t, p.Path("buy", "runs", "r1", "result.json")))
}

// Statistics are written only if they change, and a fault in meta.yaml is named.
func TestFold(t *testing.T) {
	t.Parallel()
	p := open(t, t.TempDir())
	save(t, p, "buy", "Open")
	meta := p.Path("buy", "meta.yaml")
	for i, status := range []scenario.Status{scenario.Pass, scenario.Fail, scenario.Pass} {
		id := "r" + string(rune('1'+i))
		require.NoError(t, p.Note("buy", id, []byte(runResult(t, scenario.Run{
			RunID: id, RunNumber: i + 1, Scenario: "buy", Status: status, StartedAt: "2026-11-21T10:00:0" + id[1:] + "Z", DurationMS: int64(i+1) * 100,
		}))))
	}
	s, err := p.Fold(t.Context(), "buy")
	require.NoError(t, err)
	require.Equal(t, 3, s.TotalRuns)
	require.Contains(t, read(t, meta), "avg_duration_ms: 200")
	old := time.Unix(1, 0)
	require.NoError(t, os.Chtimes(meta, old, old))
	again, err := p.Fold(t.Context(), "buy")
	require.NoError(t, err)
	require.Equal(t, s, again)
	info, err := os.Stat(meta)
	require.NoError(t, err)
	require.Equal(t, old.UTC(), info.ModTime().UTC(), "nothing changed, so nothing is written")

	write(t, meta, "- a list\n")
	_, err = p.Fold(t.Context(), "buy")
	require.ErrorContains(t, err, "read "+meta+": not a mapping")
	require.NoError(t, os.Remove(meta))
	_, err = p.Fold(t.Context(), "buy")
	require.ErrorContains(t, err, "meta.yaml")

	ended, stop := context.WithCancel(t.Context())
	stop()
	held := open(t, p.Dir())
	_, err = held.Fold(ended, "buy")
	require.Error(t, err)
}

// outage is a store that does not answer for some keys.
type outage struct {
	artifact.Store
	get, list, open string // parts of keys; empty for none
	gone            string // a key that was removed after it was listed
}

var errOutage = errors.New("the storage does not answer")

func (o outage) Get(ctx context.Context, key string) ([]byte, error) {
	if o.get != "" && strings.Contains(key, o.get) {
		return nil, errOutage
	}
	return o.Store.Get(ctx, key)
}

func (o outage) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	switch {
	case o.open != "" && strings.Contains(key, o.open):
		return nil, errOutage
	case o.gone != "" && strings.Contains(key, o.gone):
		return nil, artifact.ErrNotFound
	}
	return o.Store.Open(ctx, key)
}

func (o outage) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if o.list != "" && strings.Contains(prefix, o.list) {
		return func(yield func(string, error) bool) { yield("", errOutage) }
	}
	return o.Store.List(ctx, prefix)
}

// If an outage interrupts a copy, the error names the file, and the next update completes the copy.
func TestCopy_outages(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	prefix := artifact.InScenario("buy", "r1").Root()
	document := runResult(t, scenario.Run{RunID: "r1", Scenario: "buy", Status: scenario.Running, Steps: []scenario.Result{
		{ID: "01", Status: scenario.Pass}, {ID: "02", Status: scenario.Skipped}, {ID: "03", Status: scenario.Running},
	}})
	for key, content := range map[string]string{
		"result.json": document, "step-01/evidence/a.png": "a", "step-01/launch-2/transcript.jsonl": "{}", "step-02/evidence/b.png": "b",
		"step-03/evidence/c.png": "c", "step-01/evidence/../x": "", "step-01/evidence/.hidden": "h", "step-01/attempt-x/evidence/a.png": "x",
	} {
		if artifact.CheckKey(prefix+key) == nil {
			require.NoError(t, store.Put(t.Context(), prefix+key, strings.NewReader(content)))
		}
	}
	for says, broken := range map[string]outage{
		"read the result of run r1":             {get: "result.json"},
		"list ":                                 {list: "runs/r1/"},
		"copy ":                                 {open: "a.png"},
		"":                                      {gone: "a.png"},
		"copy " + store.URL(prefix+"step-01/l"): {open: "launch-2"},
	} {
		p := open(t, t.TempDir())
		broken.Store = store
		from, err := p.Copy(&broken, "buy", "r1")
		require.NoError(t, err)
		at := func(name string) string { return p.Path("buy", "runs", "r1", name) }
		if _, err = from.Update(t.Context()); says == "" {
			require.NoError(t, err)
			require.NoFileExists(t, at("step-01/evidence/a.png"))
			continue
		}
		require.ErrorIs(t, err, errOutage)
		require.ErrorContains(t, err, says)
		require.NoFileExists(t, at("result.json"), "the result comes after the files that it names")

		broken.get, broken.list, broken.open = "", "", ""
		data, err := from.Update(t.Context())
		require.NoError(t, err)
		require.JSONEq(t, document, string(data))
		require.Equal(t, "a", read(t, at("step-01/evidence/a.png")))
		require.FileExists(t, at("step-01/launch-2/transcript.jsonl"))
		for _, none := range []string{"step-02", "step-03", "step-01/evidence/.hidden", "step-01/attempt-x"} {
			_, err := os.Lstat(at(none))
			require.ErrorIs(t, err, os.ErrNotExist, none)
		}
		require.NoError(t, os.Remove(at("result.json")))
		_, err = from.Update(t.Context())
		require.NoError(t, err)
		require.NoFileExists(t, at("result.json"), "an equal result is not written again")
	}
}
