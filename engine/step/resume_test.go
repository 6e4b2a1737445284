package step_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

var errKilled = errors.New("killed")

// mortal is the store of a process that is killed after a number of calls. The last call may still
// take effect.
type mortal struct {
	artifact.Store
	life atomic.Int64
	late bool // the last call has its effect, and nobody learns of it
}

func (m *mortal) spend(do func() error) error {
	left := m.life.Add(-1)
	switch {
	case left >= 0:
		return do()
	case left == -1 && m.late:
		_ = do()
	}
	return errKilled
}

func (m *mortal) Get(ctx context.Context, key string) (data []byte, err error) {
	err = m.spend(func() error { data, err = m.Store.Get(ctx, key); return err })
	return data, err
}

func (m *mortal) Open(ctx context.Context, key string) (body io.ReadCloser, err error) {
	err = m.spend(func() error { body, err = m.Store.Open(ctx, key); return err })
	return body, err
}

func (m *mortal) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return m.spend(func() error { return m.Store.Put(ctx, key, body) })
}

func (m *mortal) Create(ctx context.Context, key string, body []byte) error {
	return m.spend(func() error { return m.Store.Create(ctx, key, body) })
}

func (m *mortal) Copy(ctx context.Context, src, dst string) error {
	return m.spend(func() error { return m.Store.Copy(ctx, src, dst) })
}

func (m *mortal) Exists(ctx context.Context, key string) (there bool, err error) {
	err = m.spend(func() error { there, err = m.Store.Exists(ctx, key); return err })
	return there, err
}

func (m *mortal) Delete(ctx context.Context, key string) error {
	return m.spend(func() error { return m.Store.Delete(ctx, key) })
}

func (m *mortal) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return m.Store.List(ctx, prefix)
}

// worked is a model that replies according to the conversation: it writes, changes and removes
// files, then answers.
type worked struct{ calls atomic.Int64 }

func (w *worked) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	w.calls.Add(1)
	turn := 0
	for _, m := range req.Messages {
		if m.Role == llm.Assistant {
			turn++
		}
	}
	write := func(path, content string) llm.Message {
		return call("write_file", map[string]string{"path": path, "content": content})
	}
	replies := []llm.Message{
		write("plan.md", "one"),
		write("sub/data", "two"),
		call("edit_file", map[string]string{"path": "plan.md", "old_string": "one", "new_string": "one and a half"}),
		call("copy_path", map[string]string{"from": "sub/data", "to": "copy"}),
		done("It is done."),
	}
	return llm.Reply{Message: replies[turn], Usage: llm.Usage{InputTokens: 10, ModelCalls: 1}}, nil
}

const workedCalls = 5

// killed runs the step until its process is killed at the given store call, then runs it again
// until it ends. It returns the number of model calls and the number of store calls of the first
// attempt.
func killed(t *testing.T, b *bench, life int64, late bool) (asked, used int64, r step.Result) {
	t.Helper()
	model := &worked{}
	ports := b.ports()
	ports.Model = model
	used, r = killedAt(t, b, ports, life, late)
	return model.calls.Load(), used, r
}

// killedAt is like killed, for any model.
func killedAt(t *testing.T, b *bench, ports step.Ports, life int64, late bool) (used int64, r step.Result) {
	t.Helper()
	dying := &mortal{Store: b.store, late: late}
	dying.life.Store(life)
	ports.Store = dying
	b.spec.Attempt.Number = 1
	r, err := step.Run(t.Context(), ports, b.spec)
	used = life - dying.life.Load()
	if dying.life.Load() >= 0 {
		require.NoError(t, err)
		return used, r
	}
	if err != nil { // deletions have no error
		require.ErrorIs(t, err, errKilled)
	}
	ports.Store = b.store
	b.spec.Attempt.Number = 2
	b.spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) {
		return &rules{}, []llm.Message{{Role: llm.User, Content: "How many moons has Mars?"}}, nil
	}
	r, err = step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	return used, r
}

// A step killed before or after any of its store calls is resumed by the next attempt:
// at most one model call is repeated, the files are the same, and there is one action.
func TestResume_killedAnywhere(t *testing.T) {
	t.Parallel()
	_, total, want := killed(t, newBench(t, &rules{}), 1<<30, false)
	require.Greater(t, total, int64(15))
	for _, late := range []bool{false, true} {
		for life := range total {
			b := newBench(t, &rules{})
			asked, _, got := killed(t, b, life, late)
			require.LessOrEqual(t, asked, int64(workedCalls+1), "killed at call %d of %d, late: %t", life, total, late)
			require.Equal(t, 1, got.Step)
			require.Equal(t, want.Commit.Manifest, got.Commit.Manifest, "killed at call %d of %d, late: %t", life, total, late)
			require.JSONEq(t, string(want.Commit.Payload), string(got.Commit.Payload))
			require.GreaterOrEqual(t, got.Usage.ModelCalls, int64(workedCalls))
			require.True(t, noJournal(t, b), "killed at call %d of %d, late: %t", life, total, late)
		}
	}
}

// ending ends the step's context as soon as it has committed.
type ending struct {
	artifact.Store
	cancel context.CancelCauseFunc
}

func (e ending) Create(ctx context.Context, key string, body []byte) error {
	err := e.Store.Create(ctx, key, body)
	if strings.HasSuffix(key, "action.json") {
		e.cancel(errors.New("paused"))
	}
	return err
}

// A committed action counts, even if the step is ended immediately afterwards.
func TestRun_endedAfterCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ctx, cancel := context.WithCancelCause(t.Context())
	ports := b.ports()
	ports.Model, ports.Store = &worked{}, ending{b.store, cancel}
	result, err := step.Run(ctx, ports, b.spec)
	require.NoError(t, err)
	require.Error(t, ctx.Err())
	require.Equal(t, "text", result.Commit.Kind)
	there, err := b.store.Exists(t.Context(), b.spec.Dir(1)+"workspace.json")
	require.NoError(t, err)
	require.True(t, there, "the derived documents exist")
	require.True(t, noJournal(t, b))
}

// A step whose journal was taken over by another ends at its next entry, without another model
// call.
func TestResumeFrom_runningStep(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	old := &worked{}
	ports := b.ports()
	ports.Model = meanwhile{old, func(turn int) {
		if turn != 3 {
			return
		}
		spec := b.spec
		spec.Token, spec.Attempt.ResumeFrom, spec.After = "run-l2", b.spec.Token, 1
		spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) {
			return &rules{}, nil, nil
		}
		next := b.ports()
		next.Model = &worked{}
		result, err := step.Run(t.Context(), next, spec)
		require.NoError(t, err)
		require.Equal(t, 2, result.Step)
		require.EqualValues(t, workedCalls-2, result.Usage.ModelCalls, "the two that were kept are not paid again")
	}}
	_, err := step.Run(t.Context(), ports, b.spec)
	requireOvertaken(t, err)
	require.EqualValues(t, 3, old.calls.Load())
	there, err := b.store.Exists(t.Context(), b.spec.Dir(1)+"action.json")
	require.NoError(t, err)
	require.False(t, there)
}

func noJournal(t *testing.T, b *bench) bool {
	t.Helper()
	for key, err := range b.store.List(t.Context(), "") {
		require.NoError(t, err)
		if strings.HasPrefix(key, "journal/") {
			return false
		}
	}
	return true
}

// The commit deletes the journal; the transcript stays.
func TestRun_journalDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	_, _, result := killed(t, b, 1<<30, false)
	require.True(t, noJournal(t, b))
	transcript, err := b.store.Get(t.Context(), b.spec.Dir(result.Step)+"transcript.jsonl")
	require.NoError(t, err)
	require.Equal(t, workedCalls, strings.Count(string(transcript), `"kind":"reply"`))
}

// Of two concurrent attempts the later one continues; the earlier one ends at its next entry.
func TestRun_concurrentAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	model := &worked{}
	ports := b.ports()
	b.spec.Attempt.Number = 1
	var second step.Result
	ports.Model = meanwhile{model, func(turn int) {
		if turn != 3 {
			return
		}
		later, spec := b.ports(), b.spec
		later.Model, spec.Attempt.Number = &worked{}, 2
		spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) {
			return &rules{}, []llm.Message{{Role: llm.User, Content: "How many moons has Mars?"}}, nil
		}
		var err error
		second, err = step.Run(t.Context(), later, spec)
		require.NoError(t, err)
		// The commit deleted the journal, and a later entry would remain.
		require.NoError(t, artifact.CreateJSON(t.Context(), b.store, b.spec.Layout.Journal(b.spec.Token, 5), map[string]any{"attempt": 2, "writer": "later"}))
	}}
	_, err := step.Run(t.Context(), ports, b.spec)
	requireOvertaken(t, err)
	require.EqualValues(t, 3, model.calls.Load(), "it stops paying at its next entry")
	again, err := step.Run(t.Context(), b.ports(), b.spec)
	require.NoError(t, err)
	require.Equal(t, second.Commit, again.Commit, "it adopts the other commit")
}

// meanwhile runs a function during a model call.
type meanwhile struct {
	*worked
	do func(turn int)
}

func (m meanwhile) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	reply, err := m.worked.Generate(ctx, req)
	m.do(int(m.calls.Load()))
	return reply, err
}

// A resumed step has its own number, the conversation and the files of the old step, and none of
// its costs.
func TestResumeFrom(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ports, model := suspend(t, b)
	r := resume(b, "run-l2", "run-l1", 1, false)
	result, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.Equal(t, 2, result.Step)
	require.EqualValues(t, workedCalls, model.calls.Load(), "no reply is asked for again")
	require.EqualValues(t, workedCalls-3, result.Usage.ModelCalls, "the other step counts its own usage")
	require.Equal(t, 3, result.Files)
	require.Equal(t, "How many moons has Mars?", r.learned[0].Messages[0].Content)
	kinds := map[loop.EntryKind]int{}
	for _, e := range r.learned {
		kinds[e.Kind]++
	}
	require.Equal(t, 1, kinds[loop.Resumed])
}

// The agent can correct files that cannot be stored.
func TestConfirm_unstorableFiles(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	long := strings.Repeat("é", 50)
	result, err := b.run(
		call("write_file", map[string]string{"path": long, "content": "x"}),
		done("One."),
		call("write_file", map[string]string{"path": ".conclaveignore", "content": "é*\n"}),
		done("Two."),
	)
	require.NoError(t, err)
	require.JSONEq(t, `"Two."`, string(result.Commit.Payload))
	require.Equal(t, 1, result.Files)
	var outputs []string
	for _, e := range r.learned {
		if e.Kind == loop.Updated {
			outputs = append(outputs, e.Messages[len(e.Messages)-1].Content)
		}
	}
	require.Len(t, outputs, 1)
	require.Contains(t, outputs[0], "cannot be stored")

	_, err = newBench(t, &rules{}).run(call("write_file", map[string]string{"path": long, "content": "x"}), done("1"), done("2"), done("3"), done("4"))
	var name *artifact.NameError
	require.ErrorAs(t, err, &name, "updates about files are bounded")
}

func TestRedact_toolResults(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	ports := b.ports(
		call("write_file", map[string]string{"path": "a", "content": "the key is sk-very-secret"}), read("a"), done("It is sk-very-secret."),
	)
	ports.Redact = func(data []byte) []byte {
		return []byte(strings.ReplaceAll(string(data), "sk-very-secret", "[redacted]"))
	}
	result, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.NotContains(t, results(r.learned)[1], "sk-very-secret", "a tool's result")
	transcript, err := b.store.Get(t.Context(), b.spec.Dir(result.Step)+"transcript.jsonl")
	require.NoError(t, err)
	require.NotContains(t, string(transcript), "sk-very-secret")
	require.Contains(t, string(transcript), "[redacted]")
}

// The transcript of a failed attempt does not replace that of another attempt's commit.
func TestLeave_committedTranscriptStays(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	result, err := b.run(done("Two."))
	require.NoError(t, err)
	before, err := b.store.Get(t.Context(), b.spec.Dir(1)+"transcript.jsonl")
	require.NoError(t, err)
	require.NoError(t, step.Leave(t.Context(), b.ports(), b.spec, step.Result{Step: result.Step, Transcript: []byte("{}\n")}))
	after, err := b.store.Get(t.Context(), b.spec.Dir(1)+"transcript.jsonl")
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// requireOvertaken requires that the attempt ended because a later one has taken over.
func requireOvertaken(t *testing.T, err error) {
	t.Helper()
	class, ok := step.Classify(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, step.Class{Type: step.Fenced, Free: true}, class)
	require.ErrorContains(t, err, "a later attempt of the step is at work")
}

// If nobody reported the end of a step, it is resumed with its usage. If it made a commit, that is
// used instead of another run.
func TestResumeFrom_uncounted(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	for name, test := range map[string]struct {
		killAt int64 // model calls
		calls  int64 // of the step that goes on
		usage  int64
		step   int
	}{
		"in the middle":    {3, workedCalls - 4, workedCalls - 3, 3},
		"after the commit": {0, 0, workedCalls, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &rules{})
			run := func(token, from string, after int, uncounted bool, model *worked, killAt int64) (step.Result, error) {
				ports := b.ports()
				ports.Model = model
				leaseOf(&ports).alive = failing(killed, func() bool { return killAt > 0 && model.calls.Load() == killAt })
				b.spec.Token, b.spec.Attempt.ResumeFrom, b.spec.Attempt.Uncounted, b.spec.After = token, from, uncounted, after
				b.spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) {
					return &rules{}, []llm.Message{{Role: llm.User, Content: "How many moons has Mars?"}}, nil
				}
				return step.Run(t.Context(), ports, b.spec)
			}
			_, err := run("run-l1", "", 0, false, &worked{}, test.killAt)
			if test.killAt > 0 {
				require.ErrorIs(t, err, killed)
				// The usage of run-l1 was reported, that of run-l2 was not.
				_, err = run("run-l2", "run-l1", 1, false, &worked{}, 1)
				require.ErrorIs(t, err, killed)
			} else {
				require.NoError(t, err)
			}
			from, after := "run-l1", 0
			if test.killAt > 0 {
				from, after = "run-l2", 2
			}
			model := &worked{}
			result, err := run("run2-l3", from, after, true, model, 0)
			require.NoError(t, err)
			require.Equal(t, test.step, result.Step)
			require.Equal(t, test.calls, model.calls.Load())
			require.Equal(t, test.usage, result.Usage.ModelCalls, "only the usage of run-l1 was reported")
		})
	}
}
