package record

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
)

var teamOfTwo = coordination.Config{Agents: []string{"agent_a", "agent_b"}}

// reading reads the session of a directory.
func reading(t *testing.T, dir string) *Session {
	t.Helper()
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	s, err := NewReader(store, artifact.Layout{}, root).Read(t.Context())
	require.NoError(t, err)
	return s
}

// In a copy of a session with a base, an answer has the files that differ from the base, and the record
// has the patch of the final one.
func TestRead_base(t *testing.T) {
	t.Parallel()
	p := stage.ThreeRounds(t)
	plain := reading(t, p.Dir).Final().Answer
	require.Len(t, plain.Files, 3)
	s, err := artifact.ReadJSON[artifact.Session](t.Context(), p.Store, "session.json")
	require.NoError(t, err)
	s.Base = "sha256:0"
	changed := plain.Files[1]
	changed.SHA256 = "another"
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), p.Store, key, doc)) }
	put("session.json", s)
	put("base.json", artifact.Manifest{Files: []artifact.File{plain.Files[0], changed, {Path: "gone.txt", SHA256: "x"}}})
	require.NoError(t, p.Store.Put(t.Context(), "final/agent_c/change.patch", strings.NewReader("diff --git a/x b/x\n")))
	based := reading(t, p.Dir)
	require.Equal(t, plain.Files[1:], based.Final().Answer.Files)
	require.Equal(t, []string{"gone.txt"}, based.Final().Answer.Removed)
	require.Equal(t, "diff --git a/x b/x\n", based.Change)
	require.Equal(t, "sha256:0", based.Base)
}

func TestRead_threeRounds(t *testing.T) {
	t.Parallel()
	s := reading(t, stage.ThreeRounds(t).Dir)
	require.Empty(t, s.Problems)
	require.Equal(t, "Which database suits a small shop?", s.Query)
	require.Equal(t, "consensus", s.State.Status)
	require.Equal(t, "agent3.2", s.Final().Answer.Label)
	require.Len(t, s.Steps, 9)
	require.Equal(t, "openai/gpt-5.2", s.Agents[0].Model)
	require.Equal(t, "The shop is often offline.", s.Messages[0].Text)

	stale := map[string]string{}
	for _, p := range s.Steps {
		if p.Vote != nil && p.Vote.Stale != nil {
			stale[p.Agent] = p.Vote.Stale.Label
			require.Equal(t, 2, p.Number)
			require.False(t, p.Vote.Stands)
		}
	}
	require.Equal(t, map[string]string{"agent_a": "agent3.2", "agent_b": "agent3.2"}, stale)

	first := s.Step("agent_c", 1)
	require.Equal(t, "no_tool_calls", first.Rejections[0].Code)
	require.Len(t, first.Answer.Files, 2)
	require.Equal(t, 6*time.Second, s.Answered("agent3.1").Ended.Sub(s.Answered("agent1.1").Started)-2*time.Second)
}

// A second reading of a session equals the first reading by a new reader.
func TestReader_again(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", teamOfTwo)
	r := NewReader(p.Store, p.Layout, nil)
	s, err := r.Read(t.Context())
	require.NoError(t, err)
	require.True(t, s.Running())
	require.Len(t, s.Steps, 2)
	require.True(t, s.Steps[0].Ended.IsZero())

	p.Answer(1, "agent_a", "A.", nil)
	p.Answer(1, "agent_b", "B.", nil)
	p.Vote(1, "agent_a", "agent_b", "B is right.")
	p.Vote(1, "agent_b", "agent_b", "Mine.")
	again, err := r.Read(t.Context())
	require.NoError(t, err)
	fresh, err := NewReader(p.Store, p.Layout, nil).Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, fresh, again)
	require.Equal(t, "agent_b", again.State.Winner)
	require.True(t, s.Running(), "an earlier reading stays as it was")
}

// A page that was opened before the first step sees the steps as they start, although nothing is on
// record yet and status.json names no agent.
func TestReader_beforeTheFirstRecord(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", teamOfTwo)
	require.NoError(t, os.Remove(filepath.Join(p.Dir, "status.json")))
	agents, later := filepath.Join(p.Dir, "agents"), filepath.Join(p.Dir, "later")
	require.NoError(t, os.Rename(agents, later))
	r := NewReader(p.Store, p.Layout, nil)
	s, err := r.Read(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.Steps)

	require.NoError(t, os.Rename(later, agents))
	s, err = r.Read(t.Context())
	require.NoError(t, err)
	require.Len(t, s.Steps, 2)
}

// The documents of a step are derived from its commit. A reader that finds only the commit reads
// the step again.
func TestReader_between(t *testing.T) {
	t.Parallel()
	for _, late := range []string{"agent_a/001/answer.json", "agent_a/001/transcript.jsonl", "agent_c/001/workspace.json", "agent_a/002/vote.json"} {
		t.Run(late, func(t *testing.T) {
			t.Parallel()
			p := stage.ThreeRounds(t)
			want := reading(t, p.Dir)
			name := filepath.Join(p.Dir, "agents", filepath.FromSlash(late))
			require.NoError(t, os.Rename(name, name+".later"))
			r := NewReader(p.Store, p.Layout, nil)
			_, err := r.Read(t.Context())
			require.NoError(t, err)
			require.NoError(t, os.Rename(name+".later", name))
			got, err := r.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, want.Steps, got.Steps)
		})
	}
}

func TestRead_damaged(t *testing.T) {
	t.Parallel()
	p := stage.ThreeRounds(t)
	for _, name := range []string{"agents/agent_a/002/vote.json", "agents/agent_b/001/workspace.json", "config.json"} {
		require.NoError(t, os.WriteFile(p.Dir+"/"+name, []byte("{"), 0o600))
	}
	s := reading(t, p.Dir)
	require.Len(t, s.Problems, 3)
	require.Nil(t, s.Step("agent_a", 2).Vote)
	require.Equal(t, "agent3.2", s.Final().Answer.Label)
}

func TestRead_none(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	_, err = NewReader(store, artifact.Layout{}, nil).Read(t.Context())
	require.ErrorIs(t, err, ErrNone)
}

// The steps of other programs have no claims, commits or events.
func TestRead_stepMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.MkdirAll(dir+"/"+name[:len(name)-len(path.Base(name))], 0o700))
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(content), 0o600))
	}
	write("agents/claude/001/answer.json", `{"agent_id":"claude","answer":"Yes.","timestamp":"2026-11-22T09:00:04Z"}`)
	write("agents/claude/001/workspace/a b.txt", "hello")
	write("agents/gemini/001/answer.json", `{"agent_id":"gemini","answer":"No.","timestamp":"2026-11-22T09:00:05Z"}`)
	write("agents/claude/002/vote.json", `{"voter":"claude","target":"gemini","reason":"It is right.","seen_steps":{"claude":1,"gemini":1},"timestamp":"2026-11-22T09:00:08Z"}`)
	write("agents/gemini/002/answer.json", `{"agent_id":"gemini","answer":"No, never.","timestamp":"2026-11-22T09:00:09Z"}`)
	s := reading(t, dir)
	require.True(t, s.Running())
	require.Equal(t, "agent2.2", s.Step("gemini", 2).Answer.Label)
	require.Equal(t, "agent2.1", s.Step("claude", 2).Vote.TargetLabel)
	require.Equal(t, "agent2.2", s.Step("claude", 2).Vote.Stale.Label)
	require.Equal(t, "a b.txt", s.Step("claude", 1).Answer.Files[0].Path)

	write("agents/claude/003/vote.json", `{"voter":"claude","target":"gemini","reason":"Still.","seen_steps":{"claude":1,"gemini":2},"timestamp":"2026-11-22T09:00:12Z"}`)
	write("agents/gemini/003/vote.json", `{"voter":"gemini","target":"gemini","reason":"Mine.","seen_steps":{"claude":1,"gemini":2},"timestamp":"2026-11-22T09:00:13Z"}`)
	s = reading(t, dir)
	require.Equal(t, "consensus", s.State.Status)
	require.Equal(t, "agent2.2", s.Final().Answer.Label)
}

// Nobody is sent a file with a reserved name, wherever the record is.
func TestReader_reservedNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{".git/config", "src/.GIT", "git~1/config", ".conclave-apply/journal", "kept"} {
		name = dir + "/agents/claude/001/workspace/" + name
		require.NoError(t, os.MkdirAll(path.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	require.NoError(t, os.WriteFile(dir+"/agents/claude/001/answer.json", []byte(`{"agent_id":"claude","answer":"Yes.","timestamp":"2026-11-22T09:00:04Z"}`), 0o600))
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	r := NewReader(store, artifact.Layout{}, nil)
	s, err := r.Read(t.Context())
	require.NoError(t, err)
	files := s.Step("claude", 1).Answer.Files
	require.Len(t, files, 5)
	for _, f := range files {
		_, err := r.Content(t.Context(), "agents/claude/001/", f, 10)
		if f.Path == "kept" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, artifact.ErrNotFound)
		require.ErrorContains(t, err, "choose another")
	}
}
