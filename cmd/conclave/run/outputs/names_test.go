package outputs

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
	"conclave/engine/files/snapshot"
	"conclave/engine/session"
)

// repository makes a git repository in dir and returns a function that runs git in it or below.
// Its hooks and helpers are those of the repository.
func repository(t *testing.T, dir string) func(below string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	git := func(below string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", filepath.Join(dir, below), "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		t.Logf("git %s: %v %s", strings.Join(args, " "), err, out)
	}
	git(".", "init", "-q")
	return git
}

// answers stores an answer with a manifest, as an earlier version has stored it.
func answers(t *testing.T, conn *cli.Connection, files ...artifact.File) {
	t.Helper()
	layout := artifact.InBucket("old")
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), conn.Store, key, doc)) }
	data, err := artifact.EncodeJSON(artifact.Change{Files: files})
	require.NoError(t, err)
	hash, err := artifact.PutBlob(t.Context(), conn.Store, layout, data)
	require.NoError(t, err)
	put(layout.File("session.json"), artifact.Session{Query: "Why?"})
	put(layout.File("status.json"), acts.State{Final: &acts.FinalAnswer{Agent: "agent_a", Label: "agent1.1"}})
	put(layout.Step("agent_a", 1, "action.json"), artifact.Commit{Kind: "new_answer", Payload: []byte(`{"answer":"A."}`), Manifest: hash})
	put(layout.Ledger(1), session.Entry{Run: "r", Accepted: coordination.Accepted{Seq: 1, Agent: "agent_a", Step: 1, Action: coordination.NewAnswer, Label: "agent1.1"}})
}

// stored returns an entry of a manifest, whose content it stores.
func stored(t *testing.T, conn *cli.Connection, name, content string) artifact.File {
	t.Helper()
	hash, err := artifact.PutBlob(t.Context(), conn.Store, artifact.InBucket("old"), []byte(content))
	require.NoError(t, err)
	return artifact.File{Path: name, Mode: 0o755, Size: int64(len(content)), SHA256: hash}
}

// An agent that includes .git by a .conclaveignore, or writes a file of that name, gets nothing
// run: neither by a commit, nor by git status.
func TestApply_filesOfGit(t *testing.T) {
	t.Parallel()
	conn, _ := sessionOf(t, "agent1.1")
	dir, marks := t.TempDir(), t.TempDir()
	git := repository(t, dir)
	work := t.TempDir()
	place := func(name, content string) {
		name = filepath.Join(work, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o755)) //nolint:gosec // a hook
	}
	place(".conclaveignore", "!.git\n!.git/\n!**/.git/\n")
	place(".git/hooks/pre-commit", "#!/bin/sh\ntouch "+marks+"/hook\n")
	place(".GIT/hooks/pre-commit", "#!/bin/sh\ntouch "+marks+"/hook\n")
	place("src/sub/.git", "gitdir: .x\n")
	place("src/sub/.x/HEAD", "ref: refs/heads/main\n")
	place("src/sub/.x/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = \"touch "+marks+"/status; false\"\n")
	place("src/sub/.x/objects/info/x", "")
	place("src/sub/.x/refs/heads/x", "")
	place("main.go", "package main\n")
	layout := artifact.InBucket("s1")
	copied := artifact.OpenWorkingCopy(conn.Store, layout, work, "")
	_, hash, err := copied.Seal(t.Context())
	require.NoError(t, err)
	require.NoError(t, artifact.PutJSON(t.Context(), conn.Store, layout.Step("agent_a", 1, "action.json"),
		artifact.Commit{Kind: "new_answer", Payload: []byte(`{"answer":"A."}`), Manifest: hash}))

	f, err := findAnswer(t.Context(), conn, "s1", "")
	require.NoError(t, err)
	changes, err := f.readChanges(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, applyChanges(conn, f, dir, changes, patch.Options{}), "src/sub/.x/HEAD is refused", "it would be a repository without .git")
	require.NoFileExists(t, filepath.Join(dir, "main.go"))
	changes = slices.DeleteFunc(changes, func(c patch.Change) bool { return strings.HasPrefix(c.New.Path, "src/sub/.x/refs") })
	require.NoError(t, applyChanges(conn, f, dir, changes, patch.Options{}))
	require.FileExists(t, filepath.Join(dir, "main.go"))
	git(".", "add", "main.go")
	git(".", "commit", "-q", "-m", "all")
	git("src/sub", "status")
	left, err := os.ReadDir(marks)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoFileExists(t, filepath.Join(dir, "src/sub/.git"))
	require.NotEmpty(t, copied.Warnings())
}

// A session that an earlier version has stored is refused with the name, by all that carries its
// files out.
func TestFind_storedBefore(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		".git/hooks/pre-commit", "src/sub/.git", ".GIT/config", ".git /config", "git~1/config", ".g\u200cit/config", ".git::$INDEX_ALLOCATION/hooks/x", `a\.git\hooks`,
		".conclave-apply/journal", ".Conclave-Apply/old0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, out := sessionOf(t, "agent1.1")
			files := []artifact.File{stored(t, conn, name, "#!/bin/sh\nid\n"), stored(t, conn, "zzz", "z")}
			answers(t, conn, files...)
			_, err := findAnswer(t.Context(), conn, "old", "")
			var refused *artifact.NameError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, name, refused.Name)
			require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
			dir := t.TempDir()
			require.Error(t, Offer(t.Context(), conn, "old", dir, true))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, entries)
			_, err = Open(t.Context(), conn, "old", "")
			require.ErrorAs(t, err, &refused)
			require.Empty(t, out.String())
		})
	}
}

// A base whose manifest somebody has written by hand is not opened, neither for a session nor for a
// pipeline's run.
func TestFind_craftedBase(t *testing.T) {
	t.Parallel()
	conn, _ := sessionOf(t, "agent1.1")
	m := artifact.Manifest{Files: []artifact.File{stored(t, conn, ".git/hooks/pre-commit", "id")}}
	hash := artifact.SumOf([]byte(manifestJSON(t, m)))
	require.NoError(t, conn.Store.Put(t.Context(), snapshot.Root+"manifests/sha256/"+hash+".json", strings.NewReader(manifestJSON(t, m))))
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), conn.Store, key, doc)) }
	material := artifact.Material{Base: snapshot.Reference(hash)}
	put(artifact.InBucket("s1").File("session.json"), artifact.Session{Query: "Why?", Material: material})
	put(artifact.InPipeline("p1").File("pipeline.json"), artifact.Session{Query: "Why?", Material: material})
	for _, id := range []string{"s1", "p1"} {
		_, err := findAnswer(t.Context(), conn, id, "")
		var refused *artifact.NameError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, "read the base of ")
	}
}

// A journal that was cloned with a repository is not believed.
func TestApply_clonedJournal(t *testing.T) {
	t.Parallel()
	conn, out, f, changes := changesOf(t)
	dir, mark := t.TempDir(), filepath.Join(t.TempDir(), "hook")
	git := repository(t, dir)
	place := func(name string, content []byte) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o755)) //nolint:gosec // a hook
	}
	place(".conclave-apply/journal", oldJournal(t, ".git/hooks/pre-commit", ".conclave-apply/old0"))
	place(".conclave-apply/old0", []byte("#!/bin/sh\ntouch "+mark+"\n"))
	git(".", "add", "-f", ".conclave-apply")
	for _, o := range []patch.Options{{}, {Check: true}} {
		err := applyChanges(conn, f, dir, changes, o)
		require.ErrorIs(t, err, patch.ErrForeign)
		require.ErrorContains(t, err, "move it away")
		require.ErrorContains(t, err, "; nothing was changed")
		require.NotContains(t, out.String(), "reverted")
	}
	git(".", "commit", "-q", "--allow-empty", "-m", "all")
	require.NoFileExists(t, mark)
	require.NoFileExists(t, filepath.Join(dir, "main.go"))

	require.NoError(t, os.RemoveAll(filepath.Join(dir, patch.Stage)))
	require.NoError(t, applyChanges(conn, f, dir, changes, patch.Options{}))
	require.FileExists(t, filepath.Join(dir, "main.go"))
}

// An upload names the stage of an apply that was interrupted, and leaves it out.
func TestUpload_interruptedApply(t *testing.T) {
	t.Parallel()
	conn, _ := sessionOf(t, "agent1.1")
	dir := t.TempDir()
	interrupted(t, conn, dir)
	up, err := snapshot.Upload{Store: conn.Store, Dir: dir, Now: time.Now}.Run(t.Context())
	require.NoError(t, err)
	require.Len(t, up.LeftOut, 1)
	require.Equal(t, `".conclave-apply" was left out: ".conclave-apply" is where conclave keeps the files of an apply that runs or was interrupted: choose another name`, up.LeftOut[0].String())
}

// oldJournal returns the journal of an apply as it lay in the tree once, with one edit.
func oldJournal(t *testing.T, from, to string) []byte {
	t.Helper()
	type edit struct{ From, To string }
	var journal bytes.Buffer
	require.NoError(t, gob.NewEncoder(&journal).Encode([]edit{{From: from, To: to}}))
	return journal.Bytes()
}

// manifestJSON returns the manifest of a base as it is stored.
func manifestJSON(t *testing.T, m artifact.Manifest) string {
	t.Helper()
	data, err := json.Marshal(m)
	require.NoError(t, err)
	return string(data) + "\n"
}
