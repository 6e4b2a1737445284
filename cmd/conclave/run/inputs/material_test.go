package inputs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
)

// connected returns a connection to a store in a directory.
func connected(t *testing.T) (*cli.Connection, *bytes.Buffer) {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	var stderr bytes.Buffer
	return &cli.Connection{CLI: &cli.CLI{Stdout: &bytes.Buffer{}, Stderr: &stderr, DataDir: t.TempDir()}, Store: store}, &stderr
}

func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	var f Flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Add(set)
	require.NoError(t, set.Parse(args))
	return &f
}

func TestFlags_Upload(t *testing.T) {
	t.Parallel()
	conn, stderr := connected(t)
	dir, docs := t.TempDir(), filepath.Join(t.TempDir(), "docs")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("A=1"), 0o644))
	require.NoError(t, os.Mkdir(docs, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(docs, "a.md"), []byte("a"), 0o644))
	m, err := parse(t, "--base", dir, "--context", docs, "--context", docs+"=again").Upload(t.Context(), conn)
	require.NoError(t, err)
	require.Len(t, m.Context, 2)
	require.Equal(t, "docs", m.Context[0].Name)
	require.Equal(t, "again", m.Context[1].Name)
	require.Equal(t, m.Context[0].Manifest, m.Context[1].Manifest)
	hash, err := snapshot.Parse(m.Base)
	require.NoError(t, err)
	b, err := snapshot.Open(t.Context(), conn.Store, hash)
	require.NoError(t, err)
	require.Len(t, b.Manifest().Files, 1)
	require.Contains(t, stderr.String(), "left out because of secrets: .env; --include-secrets")
	require.Contains(t, stderr.String(), "1 file, 13 bytes; sent 13 bytes")

	m, err = parse(t, "--base", dir, "--include-secrets").Upload(t.Context(), conn)
	require.NoError(t, err)
	require.NotEqual(t, snapshot.Reference(hash), m.Base)
	none, err := parse(t).Upload(t.Context(), conn)
	require.NoError(t, err)
	require.False(t, none.Given())
}

func TestFlags_Check(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for want, args := range map[string][]string{
		"no such file":      {"--base", filepath.Join(dir, "missing")},
		"it is a file":      {"--base", file},
		"context name":      {"--context", dir + "=a b"},
		"another context x": {"--context", dir + "=x", "--context", dir + "=x"},
		"DIR=NAME":          {"--context", dir + "=.hidden"},
		"name of a source":  {"--base", "source:../x"},
	} {
		require.ErrorContains(t, parse(t, args...).Check(), want)
	}
	require.NoError(t, parse(t, "--base", dir, "--context", dir+"=a").Check())
	_, err := parse(t, "--base", dir).Upload(t.Context(), &cli.Connection{CLI: &cli.CLI{}})
	require.ErrorContains(t, err, "--bucket")
}

// A source of the workers is no directory of this machine: nothing is sent.
func TestFlags_source(t *testing.T) {
	t.Parallel()
	f := parse(t, "--base", "source:site")
	require.NoError(t, f.Check())
	require.True(t, f.HasBase())
	require.Empty(t, f.Directory())
	m, err := f.Upload(t.Context(), &cli.Connection{CLI: &cli.CLI{}})
	require.NoError(t, err)
	require.Equal(t, artifact.Material{Base: "source:site"}, m)
	for want, args := range map[string][]string{"": {"--base", "source:site"}, "--base": {"--base", "site"}, "--context": {"--context", "site"}, "--image": {"--image", "x"}} {
		var f Flags
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Add(set)
		f.AddImages(set)
		require.NoError(t, set.Parse(args))
		require.Equal(t, want, f.Fixed())
	}
}

func TestUpload_limit(t *testing.T) {
	t.Parallel()
	conn, _ := connected(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "big"), nil, 0o644))
	require.NoError(t, os.Truncate(filepath.Join(dir, "big"), artifact.MaxBaseFileBytes+1))
	_, err := Upload(t.Context(), conn.CLI, conn.Store, dir, false)
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	require.ErrorContains(t, err, ".conclaveignore")
	for key, err := range conn.Store.List(t.Context(), "") {
		require.NoError(t, err)
		require.Fail(t, "sent: "+key)
	}
}

func TestPrintUploaded_JSON(t *testing.T) {
	t.Parallel()
	conn, _ := connected(t)
	conn.JSON = true
	require.NoError(t, printUploaded(conn.CLI, snapshot.Uploaded{
		Hash: "ab", Files: 2, Bytes: 10, Sent: 5, LeftOut: []artifact.Warning{{Path: "fifo", Problem: "it is no file"}},
	}))
	var got map[string]any
	require.NoError(t, json.Unmarshal(conn.Stdout.(*bytes.Buffer).Bytes(), &got))
	require.Equal(t, map[string]any{
		"reference": "sha256:ab", "files": 2.0, "bytes": 10.0, "sent_bytes": 5.0, "secrets": []any{},
		"left_out": []any{map[string]any{"path": "fifo", "problem": "it is no file"}},
	}, got)
}

func TestMemory(t *testing.T) {
	t.Parallel()
	conn, stderr := connected(t)
	Remember(conn, "s1", "/home/me/project")
	Remember(conn, "s2", "")
	for id, want := range map[string]string{"s1": "/home/me/project", "s2": "", "s3": ""} {
		dir, err := Directory(conn, id)
		require.NoError(t, err)
		require.Equal(t, want, dir)
	}
	elsewhere, _ := connected(t)
	elsewhere.CLI.DataDir = conn.CLI.DataDir
	dir, err := Directory(elsewhere, "s1")
	require.NoError(t, err)
	require.Empty(t, dir, "a session of that ID in another store")
	Forget(conn, "s1")
	dir, err = Directory(conn, "s1")
	require.NoError(t, err)
	require.Empty(t, dir)
	require.Empty(t, stderr.String())
}

func TestBar(t *testing.T) {
	t.Parallel()
	conn, stderr := connected(t)
	b := &bar{cli: conn.CLI, dir: "/x/project"}
	b.showProgress(snapshot.Progress{Files: 5, AllFiles: 10, Bytes: 1 << 20, AllBytes: 2 << 20})
	require.Contains(t, stderr.String(), "uploading project [████████████░░░░░░░░░░░░]")
	require.Contains(t, stderr.String(), "5 of 10 files")
	before := stderr.Len()
	b.showProgress(snapshot.Progress{Files: 6, AllFiles: 10})
	require.Equal(t, before, stderr.Len(), "at most ten times a second")
	b.shown = time.Time{}
	b.showProgress(snapshot.Progress{})
	b.clearLine()
	require.True(t, bytes.HasSuffix(stderr.Bytes(), []byte("\r\x1b[K")))
}
