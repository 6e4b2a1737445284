package outputs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
	"conclave/engine/session"
	"conclave/workflows"
)

// sessionOf returns a store and the connection of a command. The store has session s1 with
// two answers, with or without a decision for agent1.1.
func sessionOf(t *testing.T, decided string) (*cli.Connection, *bytes.Buffer) {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	layout := artifact.InBucket("s1")
	put := func(key string, doc any) {
		require.NoError(t, artifact.PutJSON(t.Context(), store, key, doc))
	}
	put(layout.File("session.json"), artifact.Session{Query: "Why?"})
	var status acts.State
	if decided != "" {
		status.Final = &acts.FinalAnswer{Agent: "agent_a", Label: decided}
	}
	put(layout.File("status.json"), status)
	for i, a := range []struct {
		agent, label string
		files        map[string]string
	}{
		{"agent_a", "agent1.1", map[string]string{"main.go": "package main\n", "bin/run.sh": "#!/bin/sh\n", "logo\x07.png": "\x89\x00"}},
		{"agent_b", "agent2.1", nil},
	} {
		manifest := ""
		if len(a.files) > 0 {
			dir := t.TempDir()
			for path, content := range a.files {
				name := filepath.Join(dir, path)
				require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
				mode := os.FileMode(0o600)
				if filepath.Ext(path) == ".sh" {
					mode = 0o700
				}
				require.NoError(t, os.WriteFile(name, []byte(content), mode))
			}
			require.NoError(t, os.Symlink("main.go", filepath.Join(dir, "link")))
			copied := artifact.OpenWorkingCopy(store, layout, dir, t.TempDir())
			_, err := copied.Scan(t.Context())
			require.NoError(t, err)
			manifest, err = copied.Manifest().Hash()
			require.NoError(t, err)
			put(layout.Blob(manifest), copied.Manifest())
		}
		put(layout.Step(a.agent, 1, "action.json"), artifact.Commit{Kind: "new_answer", Payload: json.RawMessage(`{"answer":"A."}`), Manifest: manifest})
		put(layout.Ledger(i+1), session.Entry{Run: "r", Accepted: coordination.Accepted{Seq: i + 1, Agent: a.agent, Step: 1, Action: coordination.NewAnswer, Label: a.label}})
	}
	put(artifact.InBucket("empty").File("session.json"), artifact.Session{Query: "Why?"})
	var out bytes.Buffer
	return &cli.Connection{Store: store, CLI: &cli.CLI{Stdout: &out, Stderr: &out, Queue: workflows.TaskQueue, DataDir: t.TempDir()}}, &out
}

func TestFind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decided, id, label, want string
		files                    int
	}{
		"the decision":            {"agent1.1", "s1", "", "agent1.1", 4},
		"the decision as final":   {"agent1.1", "s1", "agent1.final", "agent1.1", 4},
		"an answer without files": {"agent1.1", "s1", "agent2.1", "agent2.1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, _ := sessionOf(t, c.decided)
			f, err := findAnswer(t.Context(), conn, c.id, c.label)
			require.NoError(t, err)
			require.Equal(t, c.want, f.Label)
			require.Len(t, f.Files.Files, c.files)
		})
	}
	for name, c := range map[string]struct{ id, label, want string }{
		"no decision":      {"s1", "", "session s1 has no decision yet; name an answer: agent1.1, agent2.1"},
		"an unknown label": {"s1", "agent3.1", "session s1 has no answer agent3.1; it has agent1.1, agent2.1"},
		"another final":    {"s1", "agent2.final", "session s1 has no answer agent2.final"},
		"no answers":       {"empty", "", "session empty has no answers yet; `conclave status empty "},
		"no session":       {"s2", "", "s2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, _ := sessionOf(t, "")
			_, err := findAnswer(t.Context(), conn, c.id, c.label)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
		})
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	conn, out := sessionOf(t, "agent1.1")
	f, err := findAnswer(t.Context(), conn, "s1", "")
	require.NoError(t, err)
	require.NoError(t, printList(conn, f, f.filesBelow("")))
	require.Equal(t, "100755  10 bytes  bin/run.sh\n120000  0 bytes   link -> main.go\n100644  2 bytes   \"logo\\007.png\"\n100644  13 bytes  main.go\n", out.String())
	for dir, want := range map[string]int{".": 4, "bin": 1, "bin/": 1, "bi": 0, "main.go": 0} {
		require.Len(t, f.filesBelow(dir), want, dir)
	}

	out.Reset()
	require.NoError(t, printFile(t.Context(), conn, f, "./bin/run.sh"))
	require.Equal(t, "#!/bin/sh\n", out.String())
	require.ErrorContains(t, printFile(t.Context(), conn, f, "main.c"), "agent1.1 of session s1 has no file main.c; it has bin/run.sh, link, ")

	out.Reset()
	conn.JSON = true
	require.NoError(t, printList(conn, f, append(f.filesBelow("."), artifact.File{Path: "caf\xe9\n"})))
	var list struct{ Files []listed }
	require.NoError(t, json.Unmarshal(out.Bytes(), &list))
	require.Equal(t, listed{Path: "link", Mode: "120000", Link: "main.go"}, list.Files[1])
	require.Equal(t, "caf\xe9\n", string(list.Files[4].PathBase64))
}

// changesOf returns the changes of the decided answer.
func changesOf(t *testing.T) (*cli.Connection, *bytes.Buffer, *Answer, []patch.Change) {
	t.Helper()
	conn, out := sessionOf(t, "agent1.1")
	f, err := findAnswer(t.Context(), conn, "s1", "")
	require.NoError(t, err)
	changes, err := f.readChanges(t.Context())
	require.NoError(t, err)
	return conn, out, f, changes
}

func TestDiff(t *testing.T) {
	t.Parallel()
	conn, out, f, changes := changesOf(t)
	require.NoError(t, printPatch(context.Background(), conn, changes))
	require.Contains(t, out.String(), "diff --git a/bin/run.sh b/bin/run.sh\nnew file mode 100755\n")
	require.Equal(t, "bin/run.sh\nlink\n\"logo\\007.png\"\nmain.go\n", changedPaths(changes))

	out.Reset()
	conn.JSON = true
	require.NoError(t, printChanges(conn, f, changes))
	var printed struct {
		Files []changed
		Patch string
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &printed))
	require.Equal(t, changed{Path: "bin/run.sh", Added: 1}, printed.Files[0])
	require.Contains(t, printed.Patch, "GIT binary patch")
}

func TestApply(t *testing.T) {
	t.Parallel()
	conn, out, f, changes := changesOf(t)
	dir := t.TempDir()
	require.NoError(t, applyChanges(conn, f, dir, changes, patch.Options{Check: true}))
	require.Equal(t, "agent1.1 can be applied to "+dir+": 4 files would change\n", out.String())
	require.NoFileExists(t, filepath.Join(dir, "main.go"))

	require.NoError(t, applyChanges(conn, f, dir, changes, patch.Options{}))
	require.Contains(t, out.String(), "agent1.1 of session s1 applied to "+dir+": 4 files changed\n")
	require.FileExists(t, filepath.Join(dir, "bin/run.sh"))
	out.Reset()
	require.NoError(t, applyChanges(conn, f, dir, changes, patch.Options{}))
	require.Equal(t, dir+" already has the change of agent1.1\n", out.String())
	out.Reset()
	require.NoError(t, applyChanges(conn, f, dir, nil, patch.Options{}))
	require.Equal(t, "agent1.1 changes no files\n", out.String())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("mine\n"), 0o600))
	err := applyChanges(conn, f, dir, changes, patch.Options{})
	require.ErrorContains(t, err, "these files match neither side of the change: main.go; nothing was written")
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	require.ErrorContains(t, err, "or merge them with --3way")
	require.ErrorContains(t, applyChanges(conn, f, dir, changes, patch.Options{Merge: true}), "Only changes of different lines of a text file can be merged")
	require.ErrorContains(t, applyChanges(conn, f, filepath.Join(dir, "none"), changes, patch.Options{}), "make the directory first")
	require.ErrorContains(t, applyChanges(conn, f, filepath.Join(dir, "main.go"), changes, patch.Options{}), "name a directory")

	require.NoError(t, os.Remove(filepath.Join(dir, "main.go")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "bin")))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, "bin")))
	err = applyChanges(conn, f, dir, changes, patch.Options{})
	require.ErrorContains(t, err, "below these links, which are not followed: bin; nothing was written. Move them away")
	require.NotContains(t, err.Error(), "--3way")
}

// A rename counts as one file, an empty directory as none.
func TestApply_counts(t *testing.T) {
	t.Parallel()
	conn, out, dir := onABase(t)
	f, err := findAnswer(t.Context(), conn, "s1", "")
	require.NoError(t, err)
	changes, err := f.readChanges(t.Context())
	require.NoError(t, err)
	changes = append(changes, patch.Change{New: &patch.File{Path: "hollow", Mode: patch.Dir}})
	require.Contains(t, patch.FormatStats(patch.Stats(changes), 80), " 2 files changed")
	require.NoError(t, applyChanges(conn, f, dir, changes, patch.Options{Check: true}))
	require.Equal(t, "agent1.1 can be applied to "+dir+": 2 files would change\n", out.String())

	out.Reset()
	conn.JSON = true
	require.NoError(t, applyChanges(conn, f, dir, changes, patch.Options{Check: true}))
	var printed struct{ Files []string }
	require.NoError(t, json.Unmarshal(out.Bytes(), &printed))
	require.Equal(t, []string{"main.go", "new.txt"}, printed.Files)

	out.Reset()
	conn.JSON = false
	require.NoError(t, applyChanges(conn, f, dir, changes, patch.Options{}))
	require.Equal(t, "main.go\nold.txt => new.txt\nhollow/\nagent1.1 of session s1 applied to "+dir+": 2 files changed\n", out.String())
	require.DirExists(t, filepath.Join(dir, "hollow"))
}

// An error that left changes behind does not claim that there are none.
func TestRefusal(t *testing.T) {
	t.Parallel()
	half := &patch.UnrevertedError{Err: errors.New("rename a b: permission denied"), Revert: errors.New("rename b a: permission denied")}
	require.EqualError(t, explainRefusal(half, patch.Options{}),
		"rename a b: permission denied; its changes could not be reverted: rename b a: permission denied. Remove the cause and apply again, which reverts them first")
	half.Err = &patch.ConflictError{Paths: []string{"main.go"}}
	require.ErrorContains(t, explainRefusal(half, patch.Options{}), "main.go; its changes could not be reverted")
	require.EqualError(t, explainRefusal(errors.New("disk full"), patch.Options{}), "disk full; nothing was changed")
	mixed := &patch.ConflictError{Paths: []string{"a"}, Links: []string{"dir"}}
	require.ErrorContains(t, explainRefusal(mixed, patch.Options{}), "Move them away, or the links, and merge the files with --3way")
}

// A killed apply has left a stage, and its journal in the data directory. Only --check, which
// writes nothing, keeps them.
func TestApply_afterAKill(t *testing.T) {
	t.Parallel()
	conn, out, f, changes := changesOf(t)
	dir := t.TempDir()
	interrupted(t, conn, dir)
	err := applyChanges(conn, f, dir, changes, patch.Options{Check: true})
	require.ErrorContains(t, err, "an earlier apply was interrupted; without --check its changes are reverted first")
	require.NoError(t, applyChanges(conn, f, dir, changes, patch.Options{}))
	require.Contains(t, out.String(), "4 files changed\n")
	require.Contains(t, out.String(), "an earlier apply was interrupted; its changes were reverted")
	require.NoDirExists(t, filepath.Join(dir, patch.Stage))
	left, err := os.ReadDir(filepath.Join(conn.CLI.DataDir, "applies"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// interrupted makes a directory as an apply leaves it that is killed after it has put main.go there.
func interrupted(t *testing.T, conn *cli.Connection, dir string) {
	t.Helper()
	const content, stage = "package main\n", patch.Stage + "/anything"
	require.NoError(t, os.MkdirAll(filepath.Join(dir, stage), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(content), 0o600))
	type edit struct {
		From, To string
		Sum      []byte
	}
	sum := sha256.Sum256([]byte(content))
	var journal bytes.Buffer
	require.NoError(t, gob.NewEncoder(&journal).Encode(struct {
		Stage string
		Edits []edit
	}{stage, []edit{{From: stage + "/new0", To: "main.go", Sum: sum[:]}}}))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	st, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	journals := filepath.Join(conn.CLI.DataDir, "applies")
	require.NoError(t, os.MkdirAll(journals, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(journals, fmt.Sprintf("%d-%d", st.Dev, st.Ino)), journal.Bytes(), 0o600))
}
