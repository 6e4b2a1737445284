package step_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// sleepingStore is the store of a worker that sleeps before one of its calls, while others work.
type sleepingStore struct {
	artifact.Store
	calls int
	at    int    // the call before which it sleeps, from 1
	sleep func() // what happens meanwhile
	only  func(key string) bool
}

func (s *sleepingStore) wait(key string) {
	if s.only != nil && !s.only(key) {
		return
	}
	if s.calls++; s.calls == s.at {
		s.sleep()
	}
}

func (s *sleepingStore) Get(ctx context.Context, key string) ([]byte, error) {
	s.wait(key)
	return s.Store.Get(ctx, key)
}

func (s *sleepingStore) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	s.wait(key)
	return s.Store.Open(ctx, key)
}

func (s *sleepingStore) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	s.wait(key)
	return s.Store.Put(ctx, key, body)
}

func (s *sleepingStore) Create(ctx context.Context, key string, body []byte) error {
	s.wait(key)
	return s.Store.Create(ctx, key, body)
}

func (s *sleepingStore) Exists(ctx context.Context, key string) (bool, error) {
	s.wait(key)
	return s.Store.Exists(ctx, key)
}

// otherEnd is the end without an action of another attempt of the bench's step.
func otherEnd() step.Result {
	return step.Result{Step: 1, Transcript: []byte(`{"time":"2026-03-20T22:32:03Z","kind":"opening","messages":[]}` + "\n")}
}

// requireCommitted requires that everybody reads the transcript that the step committed, and that
// transcript.jsonl is that transcript.
func requireCommitted(t *testing.T, b *bench, when string) {
	t.Helper()
	commit, err := artifact.ReadJSON[artifact.Commit](t.Context(), b.store, b.spec.Dir(1)+"action.json")
	require.NoError(t, err, when)
	requireRead(t, b, commit.Transcript, when)
	file, err := b.store.Get(t.Context(), b.spec.Dir(1)+"transcript.jsonl")
	require.NoError(t, err, when)
	require.Equal(t, commit.Transcript, sum(file), "the file, %s", when)
	partial, err := b.store.Exists(t.Context(), b.spec.Dir(1)+"partial.json")
	require.NoError(t, err)
	require.False(t, partial, "a committed step has no files of a step without an action, %s", when)
}

func requireRead(t *testing.T, b *bench, committed, when string) {
	t.Helper()
	got, err := b.transcript(1)
	require.NoError(t, err, when)
	var lines strings.Builder
	for _, l := range got.Lines {
		lines.WriteString(string(l.Raw) + "\n")
	}
	require.Equal(t, committed, sum([]byte(lines.String())), "as read, %s", when)
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// A worker that ends another attempt of the step sleeps before any of its calls, and the step
// commits meanwhile.
func TestLeave_commitMeanwhile(t *testing.T) {
	t.Parallel()
	for _, earlier := range []bool{false, true} { // whether the step has a transcript of another attempt
		for at := 1; ; at++ {
			b := newBench(t, &rules{})
			when := fmt.Sprintf("call %d, earlier: %t", at, earlier)
			if earlier {
				require.NoError(t, b.store.Create(t.Context(), b.spec.Dir(1)+"transcript.jsonl", []byte(`{"kind":"opening"}`+"\n")))
			}
			store := &sleepingStore{Store: b.store, at: at}
			store.sleep = func() {
				_, err := b.run(writeCall("plan", "x"), done("Two."))
				require.NoError(t, err, when)
			}
			ports := b.ports()
			ports.Store = store
			end := otherEnd()
			end.Partial = artifact.Delta{Changed: []artifact.File{{Path: "old", Mode: 0o644, Link: "x"}}}
			require.NoError(t, step.Leave(t.Context(), ports, b.spec, end), when)
			if store.calls < at {
				require.Greater(t, at, 3)
				break
			}
			requireCommitted(t, b, when)
		}
	}
}

// The committing worker sleeps a minute before any of its calls, and another one ends the step
// meanwhile.
func TestRun_leftMeanwhile(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		b := newBench(t, &rules{})
		when := fmt.Sprintf("call %d", at)
		store := &sleepingStore{Store: b.store, at: at, only: func(key string) bool { return !strings.Contains(key, "journal/") }}
		store.sleep = func() {
			b.now = b.now.Add(time.Minute)
			require.NoError(t, step.Leave(t.Context(), b.ports(), b.spec, otherEnd()), when)
		}
		ports := b.ports(done("Two."))
		ports.Store = store
		result, err := step.Run(t.Context(), ports, b.spec)
		require.NoError(t, err, when)
		if store.calls < at {
			require.Greater(t, at, 3)
			return
		}
		require.Equal(t, 1, result.Step)
		requireCommitted(t, b, when)
	}
}

// An attempt goes on with the reply that an earlier one has stored in its transcript before it died. One that
// was stored later, or that does not follow the journal, is of no use: the attempt commits its own.
func TestRun_replyInATranscript(t *testing.T) {
	t.Parallel()
	text := func(kind loop.EntryKind, m llm.Message) loop.Entry {
		return loop.Entry{Kind: kind, Messages: []llm.Message{m}}
	}
	opened := text(loop.Opening, llm.Message{Role: llm.User, Content: "How many moons has Mars?"})
	reply := text(loop.Reply, done("Three."))
	reply.Usage = &llm.Usage{ModelCalls: 1}
	acted := loop.Entry{Kind: loop.Results, Action: &loop.Action{Kind: "text", Payload: json.RawMessage(`"Three."`)}}
	for name, tt := range map[string]struct {
		left, journal []loop.Entry
		late          bool
		calls         int64
		want          string
	}{
		"before its commit":      {left: []loop.Entry{opened, reply, acted}, calls: 1, want: "Three."},
		"without an action":      {left: []loop.Entry{opened, reply}, calls: 1, want: "Two."},
		"after the next one":     {left: []loop.Entry{opened, reply, acted}, late: true, calls: 1, want: "Two."},
		"beside another journal": {left: []loop.Entry{opened, reply, acted}, journal: []loop.Entry{text(loop.Opening, llm.Message{Role: llm.User, Content: "?"})}, calls: 1, want: "Two."},
		"behind the journal":     {left: []loop.Entry{opened, reply, acted}, journal: []loop.Entry{opened}, calls: 1, want: "Three."},
		"in the journal":         {left: []loop.Entry{opened, reply, acted}, journal: []loop.Entry{opened, reply}, calls: 1, want: "Three."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &rules{})
			linesOf := func(entries []loop.Entry) (lines []step.Line, transcript []byte) {
				for _, e := range entries {
					line, err := json.Marshal(step.Line{Time: b.now, Entry: e})
					require.NoError(t, err)
					lines, transcript = append(lines, step.Line{Time: b.now, Entry: e}), append(append(transcript, line...), '\n')
				}
				return lines, transcript
			}
			_, transcript := linesOf(tt.left)
			leave := func() { require.NoError(t, b.store.Create(t.Context(), b.spec.Dir(1)+"transcript.jsonl", transcript)) }
			require.NoError(t, artifact.CreateJSON(t.Context(), b.store, b.spec.Dir(1)+"step.json", artifact.Claim{Token: b.spec.Token}))
			if lines, _ := linesOf(tt.journal); lines != nil {
				require.NoError(t, artifact.CreateJSON(t.Context(), b.store, b.spec.Layout.Journal(b.spec.Token, 1), map[string]any{"attempt": 1, "lines": lines}))
			}
			b.spec.Attempt.Number = 2
			b.spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) {
				return &rules{confirm: func(context.Context) (loop.Update, error) {
					if tt.late {
						leave()
					}
					return loop.Update{}, nil
				}}, opened.Messages, nil
			}
			if !tt.late {
				leave()
				found, err := step.Recover(t.Context(), b.ports(), b.spec)
				require.NoError(t, err)
				require.Equal(t, tt.want == "Three.", found.Usage.ModelCalls == 1, "as reckoned")
			}
			result, err := b.run(done("Two."))
			require.NoError(t, err)
			require.JSONEq(t, `"`+tt.want+`"`, string(result.Commit.Payload))
			require.Equal(t, tt.calls, result.Usage.ModelCalls)
			requireCommitted(t, b, name)
		})
	}
}

// A step whose reply is in its transcript only is gone on with by another one, which counts the reply if nobody has.
func TestResumeFrom_replyInATranscript(t *testing.T) {
	t.Parallel()
	for uncounted, want := range map[bool]int64{false: 0, true: 1} {
		b := newBench(t, &rules{})
		dying := &mortal{Store: b.store}
		dying.life.Store(2) // step.json, transcript.jsonl
		ports := b.ports(done("Two."))
		ports.Store = dying
		_, err := step.Run(t.Context(), ports, b.spec)
		require.ErrorIs(t, err, errKilled)
		require.True(t, noJournal(t, b))
		resume(b, "run-l2", "run-l1", 1, uncounted)
		result, err := b.run()
		require.NoError(t, err)
		require.Equal(t, 2, result.Step)
		require.Equal(t, want, result.Usage.ModelCalls)
	}
}

// Readers take the content that the commit names, whatever lies at transcript.jsonl; whoever finds
// the commit later writes the file again.
func TestFind_mendsTheTranscript(t *testing.T) {
	t.Parallel()
	for name, mend := range map[string]func(b *bench) error{
		"the next attempt":      func(b *bench) error { _, err := b.run(); return err },
		"a launch that adopts":  func(b *bench) error { _, err := step.Find(b.t.Context(), b.ports(), b.spec); return err },
		"an attempt that ended": func(b *bench) error { return step.Leave(b.t.Context(), b.ports(), b.spec, otherEnd()) },
		"a reckoning": func(b *bench) error {
			r, err := step.Recover(b.t.Context(), b.ports(), b.spec)
			require.NoError(b.t, err)
			return step.Abandon(b.t.Context(), b.ports(), b.spec, r, artifact.Error{Type: "Cancelled"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &rules{})
			key := b.spec.Dir(1) + "transcript.jsonl"
			require.NoError(t, b.store.Create(t.Context(), key, otherEnd().Transcript))
			result, err := b.run(call("list_files", nil), done("Two."))
			require.NoError(t, err)
			require.NoError(t, b.store.Put(t.Context(), key, strings.NewReader(string(otherEnd().Transcript)))) // a late write
			requireRead(t, b, result.Commit.Transcript, "before it is mended")
			require.NoError(t, mend(b))
			requireCommitted(t, b, "mended")
		})
	}
}

// A step whose records an attempt has left before its reckoning keeps them: they have what the
// journal has, and more.
func TestRecover_keepsWhatTheAttemptLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	left, err := b.run(writeCall("plan", "x"), read("plan"))
	require.ErrorIs(t, err, errScriptOver)
	line := `{"time":"2026-03-20T22:32:03Z","kind":"results","messages":[]}` + "\n"
	left.Transcript = append(left.Transcript, line...)
	left.Partial = left.Partial.Join(artifact.Delta{Changed: []artifact.File{{Path: "late", Mode: 0o644, Link: "plan"}}})
	require.NoError(t, step.Leave(t.Context(), b.ports(), b.spec, left))

	r, err := step.Recover(t.Context(), b.ports(), b.spec)
	require.NoError(t, err)
	require.NoError(t, step.Abandon(t.Context(), b.ports(), b.spec, r, artifact.Error{Type: "Cancelled"}))
	got, err := b.transcript(1)
	require.NoError(t, err)
	require.JSONEq(t, line, string(got.Lines[len(got.Lines)-1].Raw))
	files, err := artifact.ReadJSON[artifact.Manifest](t.Context(), b.store, b.spec.Dir(1)+"partial.json")
	require.NoError(t, err)
	require.Len(t, files.Files, 2)
}
