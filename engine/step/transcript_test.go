package step_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

func (b *bench) transcript(number int) (step.Transcript, error) {
	return step.ReadTranscript(b.t.Context(), b.store, b.spec.Layout, b.spec.Dir(number))
}

func kinds(lines []step.Line) []loop.EntryKind {
	var all []loop.EntryKind
	for _, l := range lines {
		all = append(all, l.Kind)
	}
	return all
}

func TestReadTranscript_committed(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	result, err := b.run(call("list_files", nil), done("Two."))
	require.NoError(t, err)
	got, err := b.transcript(1)
	require.NoError(t, err)
	require.True(t, got.Over)
	require.Equal(t, result.Commit, *got.Commit)
	require.Equal(t, "run-l1", got.Claim.Token)
	require.Equal(t, []loop.EntryKind{loop.Opening, loop.Reply, loop.Results, loop.Reply, loop.Results}, kinds(got.Lines))
	require.Equal(t, llm.Usage{InputTokens: 20, ModelCalls: 2}, got.Usage())

	file, err := b.store.Get(t.Context(), b.spec.Dir(1)+"transcript.jsonl")
	require.NoError(t, err)
	var lines []string
	for _, l := range got.Lines {
		lines = append(lines, string(l.Raw))
	}
	require.Equal(t, string(file), strings.Join(lines, "\n")+"\n", "the lines as they are")
	blob, err := b.store.Exists(t.Context(), b.spec.Layout.Blob(result.Commit.Transcript))
	require.NoError(t, err)
	require.False(t, blob, "it is stored once")

	// After a crash that follows the commit, a later attempt does not change the transcript.
	_, err = b.run()
	require.NoError(t, err)
	again, err := b.transcript(1)
	require.NoError(t, err)
	require.Equal(t, got, again)
}

// The transcript of an attempt that died just before its commit does not replace the committed one,
// which is then a blob. A large transcript is also a blob.
func TestReadTranscript_blob(t *testing.T) {
	t.Parallel()
	for name, large := range map[string]bool{"after another attempt": false, "large": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &rules{})
			key, answer := b.spec.Dir(1)+"transcript.jsonl", "Two."
			if large {
				answer = strings.Repeat("Two.", 300_000)
			} else {
				require.NoError(t, b.store.Create(t.Context(), key, []byte(`{"kind":"opening"}`+"\n")))
			}
			result, err := b.run(call("list_files", nil), done(answer))
			require.NoError(t, err)
			got, err := b.transcript(1)
			require.NoError(t, err)
			require.Len(t, got.Lines, 5)

			// If a worker dies after the commit, there is no file, but the commit names its blob.
			require.NoError(t, b.store.Delete(t.Context(), key))
			again, err := b.transcript(1)
			require.NoError(t, err)
			require.Equal(t, got, again)
			require.Equal(t, result.Commit, *got.Commit)
		})
	}
}

// A transcript that ends with an action is not over before its commit.
func TestReadTranscript_beforeTheCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	_, err := b.run(call("list_files", nil), done("Two."))
	require.NoError(t, err)
	require.NoError(t, b.store.Delete(t.Context(), b.spec.Dir(1)+"action.json"))
	got, err := b.transcript(1)
	require.NoError(t, err)
	require.True(t, got.AwaitsCommit())
	require.False(t, got.Over)
}

// The journal of a committed step is deleted, or kept for the caller.
func TestRun_journalAfterTheCommit(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		b := newBench(t, &rules{})
		b.spec.KeepsJournal = kept
		_, err := b.run(call("list_files", nil), done("Two."))
		require.NoError(t, err)
		found := 0
		for _, err := range b.store.List(t.Context(), b.spec.Layout.Journals(b.spec.Token)) {
			require.NoError(t, err)
			found++
		}
		require.Equal(t, kept, found > 0)
	}
}

// A killed step has only its journal, to which a later attempt adds.
func TestReadTranscript_unfinished(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ports, _ := suspend(t, b)

	got, err := b.transcript(1)
	require.NoError(t, err)
	require.False(t, got.Over)
	require.Nil(t, got.Commit)
	require.Equal(t, []loop.EntryKind{loop.Opening, loop.Reply, loop.Results, loop.Reply, loop.Results, loop.Reply}, kinds(got.Lines), "the reply of the last call is kept")
	require.Equal(t, llm.Usage{InputTokens: 30, ModelCalls: 3}, got.Usage())
	require.Equal(t, b.now, got.Lines[0].Time)

	// The final transcript begins with the same lines.
	b.spec.Attempt.Number = 2
	_, err = step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	whole, err := b.transcript(1)
	require.NoError(t, err)
	require.True(t, whole.Over)
	require.Greater(t, len(whole.Lines), len(got.Lines))
	require.Equal(t, got.Lines, whole.Lines[:len(got.Lines)])
}

func TestReadTranscript_started(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ports := b.ports()
	leaseOf(&ports).alive = func() error { return errKilled }
	_, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, errKilled)
	got, err := b.transcript(1)
	require.NoError(t, err)
	require.False(t, got.Over)
	require.Empty(t, got.Lines)

	_, err = b.transcript(2)
	require.ErrorIs(t, err, artifact.ErrNotFound, "nobody has claimed it")
}

// A suspended step is over. Its successor repeats its lines and counts only its own usage.
func TestReadTranscript_suspended(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ports := b.ports()
	model := &worked{}
	ports.Model = model
	stop := errors.New("suspended")
	leaseOf(&ports).alive = failing(stop, func() bool { return model.calls.Load() == 2 })
	suspended, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, stop)
	require.NoError(t, step.Leave(t.Context(), ports, b.spec, suspended))
	first, err := b.transcript(1)
	require.NoError(t, err)
	require.True(t, first.Over)
	require.Nil(t, first.Commit)

	b.spec.Token, b.spec.Attempt.ResumeFrom, b.spec.After = "run-l2", "run-l1", 1
	leaseOf(&ports).alive = failing(stop, func() bool { return model.calls.Load() == 4 })
	_, err = step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, stop)
	second, err := b.transcript(2)
	require.NoError(t, err)
	require.False(t, second.Over)
	require.Equal(t, []loop.EntryKind{
		loop.Opening, loop.Reply, loop.Results, loop.Reply, loop.Resumed, loop.Results, loop.Reply, loop.Results, loop.Reply,
	}, kinds(second.Lines))
	require.EqualValues(t, 2, second.Usage().ModelCalls)
}

func TestReadTranscript_malformed(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	_, err := b.run(done("Two."))
	require.NoError(t, err)
	key := b.spec.Dir(1) + "transcript.jsonl"
	require.NoError(t, b.store.Put(t.Context(), key, strings.NewReader("{\"kind\":\"opening\"}\n\n{\"kind\":")))
	_, err = b.transcript(1)
	var malformed *artifact.MalformedError
	require.ErrorAs(t, err, &malformed)
	require.ErrorContains(t, err, "line 3")
}
