package view

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/hall/halltest"
	"conclave/cmd/conclave/record/recordtest"
	"conclave/engine/artifact"
)

// viewed runs the command on a directory or an ID.
func viewed(t *testing.T, of string, f flags) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c := &hall.CLI{Stdout: &out, Stderr: &errs, DataDir: t.TempDir()}
	if f.listen == "" {
		f.listen = "127.0.0.1:0"
	}
	code = halltest.Report(c, run(t.Context(), c, nil, of, f))
	return code, out.String(), errs.String()
}

func TestView_output(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.html")
	code, _, stderr := viewed(t, recordtest.ThreeRounds(t).Dir, flags{output: file})
	require.Equal(t, hall.ExitOK, code, stderr)
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(html), "The decision: agent3.2, by agent_c")
	require.Contains(t, stderr, file+": ")
}

func TestView_refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   string
		f    flags
		want string
	}{
		"another address": {t.TempDir(), flags{listen: "0.0.0.0:80"}, "--listen 0.0.0.0:80 is not a loopback address"},
		"no session":      {t.TempDir(), flags{}, "it holds no session"},
		"no directory":    {"./nothing/here", flags{}, "there is no such directory"},
		"all in one file": {"", flags{output: "x.html"}, "--output writes the page of one session; name it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := viewed(t, c.of, c.f)
			require.Equal(t, hall.ExitUsage, code)
			require.Contains(t, stderr, c.want)
		})
	}
}

// A directory is served until the command is interrupted.
func TestView_serves(t *testing.T) {
	t.Parallel()
	dir := recordtest.ThreeRounds(t).Dir
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	defer interrupt()
	reading, writing := io.Pipe()
	c := &hall.CLI{Stdout: writing, Stderr: io.Discard}
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c, nil, dir, flags{listen: "127.0.0.1:0"}) }()
	line := make([]byte, 200)
	n, err := reading.Read(line)
	require.NoError(t, err)
	reply, err := http.Get(strings.TrimSpace(string(line[:n])))
	require.NoError(t, err)
	defer func() { _ = reply.Body.Close() }()
	html, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	require.Contains(t, string(html), "The decision: agent3.2, by agent_c")
	interrupt()
	require.NoError(t, <-ended)
}

// The page of a pipeline's run is written from a directory and found by its ID.
func TestView_pipeline(t *testing.T) {
	t.Parallel()
	r := recordtest.NewRun(t, "p1")
	r.End("# The end")
	file := filepath.Join(t.TempDir(), "page.html")
	code, _, stderr := viewed(t, filepath.Join(r.Dir, "pipelines", "p1"), flags{output: file})
	require.Equal(t, hall.ExitOK, code, stderr)
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(html), "<h3>The end</h3>")

	conn := &hall.Connection{CLI: &hall.CLI{Stdout: io.Discard, Stderr: io.Discard}, Store: r.Store}
	require.NoError(t, os.Remove(file))
	require.NoError(t, viewStored(t.Context(), conn, nil, "p1", flags{output: file}))
	require.FileExists(t, file)
	kind, _, err := find(t.Context(), conn, "p1")
	require.NoError(t, err)
	require.Equal(t, pipelines, kind)
	_, _, err = find(t.Context(), conn, "p2")
	require.ErrorContains(t, err, "p2")
	_, _, err = find(t.Context(), &hall.Connection{}, "p1")
	require.ErrorContains(t, err, "name it with --bucket")
}

// The page of a scenario's run is found by its ID, written from its directory, and served.
func TestView_scenario(t *testing.T) {
	t.Parallel()
	dir, layout := recordtest.Scenario(t)
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	conn := &hall.Connection{CLI: &hall.CLI{Stdout: io.Discard, Stderr: io.Discard}, Store: store}
	kind, found, err := find(t.Context(), conn, "r1")
	require.NoError(t, err)
	require.Equal(t, scenarios, kind)
	require.Equal(t, layout, found)

	file := filepath.Join(t.TempDir(), "page.html")
	code, _, stderr := viewed(t, filepath.Join(dir, filepath.FromSlash(layout.Root())), flags{output: file})
	require.Equal(t, hall.ExitOK, code, stderr)
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(html), `<img alt="form.png" src="data:image/jpeg;base64,`)
	require.Contains(t, string(html), "1 run, 1 failure")
	require.NoError(t, viewStored(t.Context(), conn, nil, "r1", flags{output: file}))
}
