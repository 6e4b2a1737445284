package files

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

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
)

// viewed runs the command on a directory or an ID.
func viewed(t *testing.T, of string, f viewFlags) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c := &cli.CLI{Stdout: &out, Stderr: &errs, DataDir: t.TempDir()}
	if f.listen == "" {
		f.listen = "127.0.0.1:0"
	}
	code = stage.Report(c, serveView(t.Context(), c, nil, of, f))
	return code, out.String(), errs.String()
}

func TestView_output(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.html")
	code, _, stderr := viewed(t, stage.ThreeRounds(t).Dir, viewFlags{output: file})
	require.Equal(t, cli.ExitOK, code, stderr)
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(html), `The decision: <a href="#answer-agent3.2">agent3.2</a>, by agent_c`)
	require.Contains(t, stderr, file+": ")
}

func TestView_refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   string
		f    viewFlags
		want string
	}{
		"another address": {t.TempDir(), viewFlags{listen: "0.0.0.0:80"}, "--listen 0.0.0.0:80 is not a loopback address"},
		"no session":      {t.TempDir(), viewFlags{}, "it holds no session"},
		"no directory":    {"./nothing/here", viewFlags{}, "there is no such directory"},
		"all in one file": {"", viewFlags{output: "x.html"}, "--output writes the page of one session; name it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := viewed(t, c.of, c.f)
			require.Equal(t, cli.ExitUsage, code)
			require.Contains(t, stderr, c.want)
		})
	}
}

// A directory is served until the command is interrupted.
func TestView_serves(t *testing.T) {
	t.Parallel()
	dir := stage.ThreeRounds(t).Dir
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	defer interrupt()
	reading, writing := io.Pipe()
	c := &cli.CLI{Stdout: writing, Stderr: io.Discard}
	ended := make(chan error, 1)
	go func() { ended <- serveView(ctx, c, nil, dir, viewFlags{listen: "127.0.0.1:0"}) }()
	line := make([]byte, 200)
	n, err := reading.Read(line)
	require.NoError(t, err)
	reply, err := http.Get(strings.TrimSpace(string(line[:n])))
	require.NoError(t, err)
	defer func() { _ = reply.Body.Close() }()
	html, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	require.Contains(t, string(html), `The decision: <a href="#answer-agent3.2">agent3.2</a>, by agent_c`)
	interrupt()
	require.NoError(t, <-ended)
}

// The page of a pipeline's run is written from a directory and found by its ID.
func TestView_pipeline(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	r.End("# The end")
	file := filepath.Join(t.TempDir(), "page.html")
	code, _, stderr := viewed(t, filepath.Join(r.Dir, "pipelines", "p1"), viewFlags{output: file})
	require.Equal(t, cli.ExitOK, code, stderr)
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(html), "<h3>The end</h3>")

	conn := &cli.Connection{CLI: &cli.CLI{Stdout: io.Discard, Stderr: io.Discard}, Store: r.Store}
	require.NoError(t, os.Remove(file))
	require.NoError(t, viewStored(t.Context(), conn, nil, "p1", viewFlags{output: file}))
	require.FileExists(t, file)
	require.ErrorContains(t, viewStored(t.Context(), conn, nil, "p2", viewFlags{}), "there is no session p2")
	require.ErrorContains(t, viewStored(t.Context(), &cli.Connection{}, nil, "p1", viewFlags{}), "name it with --bucket")
}

// The page of a scenario's run is found by its ID, written from its directory, and served.
func TestView_scenario(t *testing.T) {
	t.Parallel()
	dir, layout := stage.Scenario(t)
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	conn := &cli.Connection{CLI: &cli.CLI{Stdout: io.Discard, Stderr: io.Discard}, Store: store}
	file := filepath.Join(t.TempDir(), "page.html")
	code, _, stderr := viewed(t, filepath.Join(dir, filepath.FromSlash(layout.Root())), viewFlags{output: file})
	require.Equal(t, cli.ExitOK, code, stderr)
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(html), `<img alt="form.png" src="data:image/jpeg;base64,`)
	require.Contains(t, string(html), "1 run, 1 failure")
	for _, id := range []string{"sign-in/r1", "r1"} {
		require.NoError(t, os.Remove(file))
		require.NoError(t, viewStored(t.Context(), conn, nil, id, viewFlags{output: file}))
		require.FileExists(t, file)
	}
}
