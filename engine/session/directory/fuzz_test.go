package directory

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
)

// canary is the content of files outside the directory that links could reach.
const canary = "outside-canary"

// builder creates a directory from a fuzzer's bytes: any kind of file under any name that is read.
type builder struct {
	s      sessionDirectory
	script []byte
}

func (b *builder) next(n int) int {
	if len(b.script) == 0 {
		return 0
	}
	c := b.script[0]
	b.script = b.script[1:]
	return int(c) % n
}

// content returns a valid document, or the next bytes.
func (b *builder) content() string {
	documents := []string{
		answerJSON("text"), vote("agent_a", "agent_a:1", "agent_b:2"), vote("agent_b"), stop("complete"), "", "null", "[]", `{"answer": 1}`, `{"answer": "x", "answer": "y"}`,
		`{"token": "t", "kind": "new_answer", "payload": {"answer": "c"}}`, `{"token": "t", "kind": "vote", "payload": {"target": "agent_a"}}`,
		`{"token": "t", "seen_steps": {"agent_a": 1}}`, `{"run": "r", "seq": 1, "agent": "agent_a", "step": 1, "action": "new_answer"}`, "\xff\xfe",
	}
	if at := b.next(len(documents) + 4); at < len(documents) {
		return documents[at]
	}
	n := min(len(b.script), 1+b.next(60))
	raw := string(b.script[:n])
	b.script = b.script[n:]
	return raw
}

func (b *builder) name() string {
	agents := []string{"agent_a", "agent_b", "agent_c", "Agent", "a b"}
	steps := []string{"001", "002", "003", "1", "0004", "999999999999999999999", "x"}
	files := []string{"answer.json", "vote.json", "stop.json", "action.json", "step.json", "workspace", "workspace/file", "other.json"}
	switch b.next(12) {
	case 0:
		return "agents/" + agents[b.next(len(agents))]
	case 1:
		return "agents/" + agents[b.next(len(agents))] + "/" + steps[b.next(len(steps))]
	case 2:
		return fmt.Sprintf("ledger/%06d.json", 1+b.next(3))
	}
	return "agents/" + agents[b.next(len(agents))] + "/" + steps[b.next(len(steps))] + "/" + files[b.next(len(files))]
}

// entry creates a file, link or directory under an unused name.
func (b *builder) entry(outside string) {
	name := b.name()
	path := b.s.path(name)
	if os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return // below a file, or a link that leads nowhere
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err != nil || !strings.HasPrefix(real+"/", b.s.dir+"/") {
		return // other paths stay as they are
	}
	if _, err := os.Lstat(path); err == nil {
		return
	}
	switch b.next(8) {
	case 0:
		_ = os.Symlink([]string{outside, filepath.Join(outside, "answer.json"), "..", "answer.json", "../../agent_b"}[b.next(5)], path)
	case 1:
		_ = os.Mkdir(path, 0o755)
	case 2:
		_ = syscall.Mkfifo(path, 0o644)
	default:
		_ = os.WriteFile(path, []byte(b.content()), 0o644)
	}
}

// Reading any directory terminates with warnings, stays inside the directory, and prefers an older
// answer to a malformed newer one. Check accepts the result.
func FuzzRead(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, script, newer []byte) {
		// Only this agent's steps are fixed: an answer, and then the fuzzer's bytes.
		s := newSession(t, map[string]string{"agents/zz/001/answer.json": answerJSON("older"), "agents/zz/002/answer.json": string(newer)})
		d, warnings := s.scripted(script)
		require.NotContains(t, fmt.Sprintf("%+v %+v", d, warnings), canary)

		zz, _ := d.Agent("zz")
		newest, ok := zz.newest()
		require.True(t, ok)
		if newest.Step == 1 {
			require.Equal(t, "older", newest.Text)
			require.True(t, slices.ContainsFunc(warnings, func(w string) bool {
				return strings.HasPrefix(w, "agents/zz/002")
			}), "a step was ignored and nobody said so: %q", newer)
		}
		inOrder(t, d)
		report := d.Check(coordination.Config{}, nil)
		require.Equal(t, report.Consensus == nil, report.Reason != "")
	})
}

// No step is shown content from outside the directory.
func FuzzAnswers(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, script, newer []byte) {
		s := newSession(t, map[string]string{"agents/agent_a/001/answer.json": string(newer)})
		d, _ := s.scripted(script)
		shownInside(t, s, d)
	})
}

func seeds(f *testing.F) {
	f.Add([]byte{}, []byte(answerJSON("newer")))
	f.Add([]byte("\x03\x00\x00\x00\x03\x00"), []byte(`{"answer"`))
	f.Add([]byte(strings.Repeat("\x04\x01\x02\x03\x05\x06\x07", 40)), []byte("\xff"))
	for seed := range uint64(12) {
		script := make([]byte, 0, 400)
		for i := range uint64(50) {
			script = binary.LittleEndian.AppendUint64(script, (seed+1)*0x9E3779B97F4A7C15*(i+1)>>7)
		}
		f.Add(script, []byte(`{"answer": 7}`))
	}
}

// scripted creates a directory from a script and reads it.
func (s sessionDirectory) scripted(script []byte) (Directory, []string) {
	outside := newSession(s.t, map[string]string{
		"answer.json": answerJSON(canary), "001/answer.json": answerJSON(canary), "file": canary, "step.json": `{"token": "` + canary + `"}`,
	})
	b := &builder{s: s, script: script}
	for range 40 {
		if len(b.script) == 0 {
			break
		}
		b.entry(outside.dir)
	}
	return s.read()
}

// inOrder checks the invariants of a Directory.
func inOrder(t *testing.T, d Directory) {
	t.Helper()
	require.True(t, slices.IsSorted(d.IDs()))
	for i, a := range d.Agents {
		require.Equal(t, i+1, a.Number)
		require.Positive(t, a.Steps)
		require.False(t, a.Vote != nil && a.Stop != nil)
		last := 0
		for m, one := range a.Answers {
			require.Equal(t, fmt.Sprintf("agent%d.%d", a.Number, m+1), one.Label)
			require.Greater(t, one.Step, last)
			last = one.Step
		}
		require.LessOrEqual(t, last, a.Steps)
		if a.Vote != nil {
			require.Greater(t, a.Vote.Step, last)
		}
	}
}

// shownInside launches steps and searches their answers for the canary.
func shownInside(t *testing.T, s sessionDirectory, d Directory) {
	t.Helper()
	store := s.store()
	for _, runner := range []string{"agent_a", "agent_x"} {
		l, err := d.Launch(runner, coordination.Config{})
		if err != nil {
			continue // it is not a directory
		}
		answers := d.Answers(s.root, store, artifact.Layout{}, s.dir, d.With(runner).IDs(), t.TempDir())
		for _, shown := range l.Shown {
			c, err := answers.Commit(t.Context(), shown)
			require.NoError(t, err)
			require.NotContains(t, string(c.Payload), canary)
			m, err := artifact.LoadManifest(t.Context(), store, artifact.Layout{}, c.Manifest)
			require.NoError(t, err)
			for _, file := range m.Files {
				if file.Link == "" {
					data, err := store.Get(t.Context(), artifact.Layout{}.Blob(file.SHA256))
					require.NoError(t, err)
					require.NotContains(t, string(data), canary)
				}
			}
		}
	}
}
