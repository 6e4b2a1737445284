package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// Seed 001: a vote lists the answers shown to its agent, including those that arrived while it
// worked.
func TestCommit_witnessed(t *testing.T) {
	t.Parallel()
	t.Run("asked at the commit", func(t *testing.T) {
		t.Parallel()
		r := &rules{}
		b := newBench(t, r)
		b.spec.Witnessed = func() (map[string]int, int) {
			return map[string]int{"agent_b": len(r.learned)}, 4
		}
		result, err := b.run(call("list_files", nil), done("Two."))
		require.NoError(t, err)
		require.Equal(t, map[string]int{"agent_b": 5}, result.Commit.SeenSteps)
		require.Equal(t, 4, result.Commit.Heard)
		stored, err := artifact.ReadJSON[artifact.Commit](t.Context(), b.store, b.spec.Layout.Step("agent_a", 1, "action.json"))
		require.NoError(t, err)
		require.Equal(t, 4, stored.Heard)
		claim, err := artifact.ReadJSON[artifact.Claim](t.Context(), b.store, b.spec.Layout.Step("agent_a", 1, "step.json"))
		require.NoError(t, err)
		require.Equal(t, b.spec.Shown.Seen, claim.SeenSteps, "the claim has the answers shown at the start")
	})
	t.Run("nobody to ask", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, &rules{})
		result, err := b.run(done("Two."))
		require.NoError(t, err)
		require.Equal(t, b.spec.Shown.Seen, result.Commit.SeenSteps)
		raw, err := b.store.Get(t.Context(), b.spec.Dir(1)+"action.json")
		require.NoError(t, err)
		require.NotContains(t, string(raw), "heard")
	})
}

// A step that ends without an action keeps its number and its transcript.
func TestRun_endsItself(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*rules{
		"at a safe point": {updates: func(_ context.Context, replies int) (loop.Update, error) {
			if replies < 2 {
				return loop.Update{}, nil
			}
			return loop.Update{}, &loop.EndedError{Why: loop.EndRestart}
		}},
		"instead of its action": {confirm: func(context.Context) (loop.Update, error) {
			return loop.Update{}, &loop.EndedError{Why: loop.EndRestart}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, r)
			second := call("list_files", nil)
			if r.confirm != nil {
				second = done("Two.")
			}
			result, err := b.run(call("list_files", nil), second)
			var ended *loop.EndedError
			require.ErrorAs(t, err, &ended)
			require.Equal(t, loop.EndRestart, ended.Why)
			require.Equal(t, 1, result.Step)
			require.Equal(t, llm.Usage{InputTokens: 20, ModelCalls: 2}, result.Usage)
			require.Zero(t, result.Commit)

			require.NoError(t, step.Leave(t.Context(), b.ports(), b.spec, result))
			kept, err := b.store.Get(t.Context(), b.spec.Dir(1)+"transcript.jsonl")
			require.NoError(t, err)
			require.Equal(t, string(result.Transcript), string(kept))
			require.Contains(t, string(kept), "How many moons has Mars?")
			for _, absent := range []string{b.spec.Dir(1) + "action.json", b.spec.Layout.Agent("agent_a", "last_action.json")} {
				found, err := b.store.Exists(t.Context(), absent)
				require.NoError(t, err)
				require.False(t, found, absent)
			}
		})
	}
}

func TestLeave_unclaimed(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	require.NoError(t, step.Leave(t.Context(), b.ports(), b.spec, step.Result{Step: 1}))
	for key, err := range b.store.List(t.Context(), "") {
		require.NoError(t, err)
		require.Fail(t, "a step without a transcript leaves "+key)
	}
	b.spec.Dir = nil // there is nothing to name
	require.NoError(t, step.Leave(t.Context(), b.ports(), b.spec, step.Result{Transcript: []byte("x")}))
}

// The cause of the context takes precedence over the step's own end.
func TestRun_endedFromOutside(t *testing.T) {
	t.Parallel()
	paused := errors.New("the session is paused")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &rules{updates: func(context.Context, int) (loop.Update, error) {
		cancel(paused)
		return loop.Update{}, &loop.EndedError{Why: loop.EndRestart}
	}}
	b := newBench(t, r)
	result, err := step.Run(ctx, b.ports(), b.spec)
	require.ErrorIs(t, err, paused)
	require.NotEmpty(t, result.Transcript)
}

func TestRun_learnFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the peer's files are gone")
	r := &rules{learn: func(context.Context, loop.Entry) error { return broken }}
	b := newBench(t, r)
	result, err := b.run(done("Two."))
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "learn the opening")
	require.Zero(t, result.Usage.ModelCalls)
}

// The transcript has the durations of model calls and tools.
// A model that never calls a tool gets the explanation of the ports as its error.
func TestRun_modelThatCallsNothing(t *testing.T) {
	t.Parallel()
	text := llm.Message{Role: llm.Assistant, Content: "Your turn."}
	tried := llm.Message{Role: llm.Assistant, Content: `{"name": "submit", "arguments": {"content": "Two`}
	for name, tt := range map[string]struct {
		replies []llm.Message
		says    string
	}{
		"no reply has a call": {[]llm.Message{text, text, text}, "model m called no tool"},
		"one has one in text": {[]llm.Message{text, tried, text}, "model m tried to call a tool in text"},
		"one has a call":      {[]llm.Message{call("list_files", nil), text, text, text}, "no valid action after 3 attempts (last rejection: text)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &rules{refuseText: true})
			ports := b.ports(tt.replies...)
			ports.NoCalls, ports.UnreadCalls = "model m called no tool", "model m tried to call a tool in text"
			_, err := step.Run(t.Context(), ports, b.spec)
			require.EqualError(t, err, tt.says)
			class, _ := step.Classify(err)
			require.Equal(t, step.Class{Type: "NoAction", Final: true}, class)
		})
	}
}

func TestTranscript_seconds(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	_, err := b.run(call("list_files", nil), done("Two."))
	require.NoError(t, err)
	raw, err := b.store.Get(t.Context(), b.spec.Dir(1)+"transcript.jsonl")
	require.NoError(t, err)
	var seconds []float64
	for line := range strings.Lines(string(raw)) {
		var e loop.Entry
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		seconds = append(seconds, e.Seconds)
	}
	require.Equal(t, []float64{0, 2, 0, 2, 0}, seconds)
}

// An action without files commits the fallback manifest as its own.
func TestCommit_otherwise(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		own  []llm.Message
		want []string
	}{
		"none of its own": {nil, []string{"a.md", "deep/b.md"}},
		"its own":         {[]llm.Message{call("write_file", map[string]string{"path": "mine.md", "content": "mine"})}, []string{"mine.md"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &rules{})
			other := b.peer(2, "a.md", "a", "deep/b.md", "b").Manifest
			b.spec.Seal = func(a loop.Action) (step.Sealed, error) {
				return step.Sealed{Payload: a.Payload, Workspace: true, Otherwise: other}, nil
			}
			result, err := b.run(append(tt.own, done("Two."))...)
			require.NoError(t, err)
			require.Equal(t, len(tt.want), result.Files)
			m, err := artifact.LoadManifest(t.Context(), b.store, b.spec.Layout, result.Commit.Manifest)
			require.NoError(t, err)
			var paths []string
			for _, f := range m.Files {
				paths = append(paths, f.Path)
				there, err := b.store.Exists(t.Context(), b.spec.Dir(result.Step)+"workspace/"+f.Path)
				require.NoError(t, err)
				require.True(t, there, f.Path)
			}
			require.Equal(t, tt.want, paths)
		})
	}
}
