package outputs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/inputs"
	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
	"conclave/engine/files/snapshot"
)

// onABase returns a session whose decision has changed main.go of a base and renamed old.txt to
// new.txt. The directory of the base is remembered.
func onABase(t *testing.T) (conn *cli.Connection, out *bytes.Buffer, dir string) {
	t.Helper()
	conn, out = sessionOf(t, "agent1.1")
	conn.CLI.DataDir = t.TempDir()
	place := func(dir string, files map[string]string) {
		for name, content := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
		}
	}
	dir = t.TempDir()
	place(dir, map[string]string{"main.go": "package old\n", "old.txt": strings.Repeat("A line.\n", 9), "kept": "k", ".env": "TOKEN=x"})
	up, err := snapshot.Upload{Store: conn.Store, Dir: dir, Now: time.Now}.Run(t.Context())
	require.NoError(t, err)
	b, err := snapshot.Open(t.Context(), conn.Store, up.Hash)
	require.NoError(t, err)
	layout := artifact.InBucket("s1").On(b)
	work := t.TempDir()
	place(work, map[string]string{"main.go": "package main\n", "new.txt": strings.Repeat("A line.\n", 9), "kept": "k"})
	require.NoError(t, os.MkdirAll(filepath.Join(work, ".conclave/checks"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(work, "memory/short_term"), 0o755))
	place(work, map[string]string{".conclave/checks/a.sh": "true", "memory/short_term/verification_latest.md": "memo"})
	_, hash, err := artifact.OpenWorkingCopy(conn.Store, layout, work, "").Seal(t.Context())
	require.NoError(t, err)
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), conn.Store, key, doc)) }
	put(layout.File("session.json"), artifact.Session{Query: "Why?", Material: artifact.Material{Base: snapshot.Reference(up.Hash)}})
	put(layout.Step("agent_a", 1, "action.json"), artifact.Commit{Kind: "new_answer", Payload: []byte(`{"answer":"A."}`), Manifest: hash})
	inputs.Remember(conn, "s1", dir)
	return conn, out, dir
}

// Without --to the change goes to the directory of the base, and nothing else there is touched.
func TestApply_toTheBase(t *testing.T) {
	t.Parallel()
	conn, out, dir := onABase(t)
	f, err := findAnswer(t.Context(), conn, "s1", "")
	require.NoError(t, err)
	require.Len(t, f.Files.Files, 5, "all files of the answer")
	changes, err := f.readChanges(t.Context())
	require.NoError(t, err)
	require.NoError(t, printPatch(t.Context(), conn, changes))
	require.Contains(t, out.String(), "-package old\n+package main\n")
	require.Contains(t, out.String(), "rename from old.txt\nrename to new.txt\n")
	require.NotContains(t, out.String(), "kept")
	require.NotContains(t, out.String(), "checks", "files for agents are in no diff")
	require.NotContains(t, out.String(), "memo")

	to, err := targetDir(conn, f, "")
	require.NoError(t, err)
	require.Equal(t, dir, to)
	require.NoError(t, applyChanges(conn, f, to, changes, patch.Options{}))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4)
	require.FileExists(t, filepath.Join(dir, "new.txt"))
	require.FileExists(t, filepath.Join(dir, ".env"), "it never travelled")

	elsewhere := &cli.CLI{DataDir: t.TempDir()}
	conn.CLI = elsewhere
	_, err = targetDir(conn, f, "")
	require.ErrorContains(t, err, "the directory of session s1 is not remembered here")
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
}

// A session without a base has no directory.
func TestTarget_withoutABase(t *testing.T) {
	t.Parallel()
	conn, _ := sessionOf(t, "agent1.1")
	conn.CLI.DataDir = t.TempDir()
	f, err := findAnswer(t.Context(), conn, "s1", "")
	require.NoError(t, err)
	_, err = targetDir(conn, f, "")
	require.ErrorContains(t, err, "was started without --base, so it has no directory of its own; name one with --to DIR")
	to, err := targetDir(conn, f, "here")
	require.NoError(t, err)
	require.Equal(t, "here", to)
}

// The change is applied only if the person agrees, who may look at it first.
func TestOffer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"n\n": "package old\n", "": "package old\n", "y\n": "package main\n", "d\nYES\n": "package main\n", "d\n\n": "package old\n",
	} {
		conn, out, dir := onABase(t)
		conn.Stdin = iotest.OneByteReader(strings.NewReader(answer))
		require.NoError(t, Offer(t.Context(), conn, "s1", dir, false))
		require.Contains(t, out.String(), "2 files changed, 1 insertion(+), 1 deletion(-)")
		require.Contains(t, out.String(), "Apply this change to "+dir+"? [y/N, d shows it]")
		require.Equal(t, strings.HasPrefix(answer, "d"), strings.Contains(out.String(), "-package old\n+package main\n"))
		content, err := os.ReadFile(filepath.Join(dir, "main.go"))
		require.NoError(t, err)
		require.Equal(t, want, string(content), answer)
	}
	conn, _, dir := onABase(t)
	conn.Stdin = strings.NewReader("y\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("mine\n"), 0o644))
	err := Offer(t.Context(), conn, "s1", dir, false)
	require.ErrorContains(t, err, "main.go; nothing was written")
	require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(err), "the session has run")
}

// A person who has agreed before is not asked. The output of a program stays its own.
func TestOffer_agreed(t *testing.T) {
	t.Parallel()
	for _, automation := range []bool{false, true} {
		conn, out, dir := onABase(t)
		var errs bytes.Buffer
		conn.Stdin, conn.Stderr, conn.Automation = nil, &errs, automation
		require.NoError(t, Offer(t.Context(), conn, "s1", dir, true))
		require.Equal(t, automation, out.Len() == 0)
		require.Contains(t, out.String()+errs.String(), "2 files changed\n")
		require.NotContains(t, errs.String(), "[y/N")
		content, err := os.ReadFile(filepath.Join(dir, "main.go"))
		require.NoError(t, err)
		require.Equal(t, "package main\n", string(content))
	}
}

func TestPrintChanged(t *testing.T) {
	t.Parallel()
	conn, out, _ := onABase(t)
	conn.CLI.DataDir = "my data"
	PrintChanged(t.Context(), conn, "s1")
	require.Equal(t, "2 files changed: conclave diff s1 --data-dir 'my data'\n", out.String())
	out.Reset()
	PrintChanged(t.Context(), conn, "gone")
	require.Contains(t, out.String(), "what it changed cannot be read: ")
}
