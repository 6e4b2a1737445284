package mcp_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/mcp"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// fake returns the test binary as a server of a kind.
func fake(t *testing.T, name, kind string) mcp.Server {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return mcp.Server{Name: name, Command: self, Env: map[string]string{asServer: kind}}
}

// waiting returns a server that is ready only when four have come to the meeting, a directory.
func waiting(t *testing.T, name, meeting string) mcp.Server {
	t.Helper()
	s := fake(t, name, "waits")
	s.Env["MEETING"], s.StartTimeout = meeting, 5*time.Minute
	return s
}

func open(t *testing.T, dir string, servers ...mcp.Server) *mcp.Client {
	t.Helper()
	c, err := mcp.Open(t.Context(), servers, mcp.Place{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func run(t *testing.T, c *mcp.Client, tool, arguments string) loop.Output {
	t.Helper()
	out, err := c.Run(t.Context(), llm.ToolCall{ID: "1", Name: tool, Arguments: arguments})
	require.NoError(t, err)
	return out
}

func offered(c *mcp.Client) []string {
	var names []string
	for _, tool := range c.Tools() {
		names = append(names, tool.Name)
	}
	return names
}

func TestClient_offersAndRunsTheToolsOfAServer(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir(), fake(t, "fake", "ordinary"))

	tools := c.Tools()
	for i := range tools {
		require.NotEmpty(t, tools[i].State)
		tools[i].State = ""
	}
	require.Contains(t, tools, llm.Tool{
		Name: "mcp__fake__echo", Description: "echo of ordinary",
		Parameters: []byte(`{"properties":{"text":{"type":"string"},"times":{"type":"integer"}},"required":["text"],"type":"object"}`),
	})
	require.Contains(t, tools, llm.Tool{
		Name: "mcp__fake__cwd", Description: "cwd of ordinary", Parameters: []byte(`{"properties":{},"type":"object"}`),
	})
	require.Equal(t, loop.Output{Text: "hello"}, run(t, c, "mcp__fake__echo", `{"text": "hello"}`))
	require.Equal(t, "error: the disk is full", run(t, c, "mcp__fake__fail", "").Text)
	require.Equal(t, `error: no MCP server has a tool "mcp__fake__nothing" now; call one that is offered`, run(t, c, "mcp__fake__nothing", "{}").Text)
}

func TestRun_sendsOnlyArgumentsThatAreAnObject(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir(), fake(t, "fake", "ordinary"))
	for arguments, want := range map[string]string{
		`["text"]`:  `the arguments are not a JSON object`,
		`null`:      `the arguments are null`,
		`{"text": `: `the arguments are not a JSON object`,
	} {
		got := run(t, c, "mcp__fake__echo", arguments).Text
		require.True(t, strings.HasPrefix(got, "error: mcp__fake__echo: "), got)
		require.Contains(t, got, want)
	}
	require.Contains(t, run(t, c, "mcp__fake__strict", `{"text": 5}`).Text, "error: ", "the server refuses it")
	require.Equal(t, "a", run(t, c, "mcp__fake__echo", `{"text": "a", "times": null}`).Text, "an optional argument that is null is absent")
}

// The worker's environment has keys.
func TestOpen_passesOnlyTheConfiguredEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-planted")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "planted too")
	dir := t.TempDir()
	s := fake(t, "fake", "ordinary")
	s.Env["DATABASE"] = "notes"
	c := open(t, dir, s)

	variables := make(map[string]string)
	for _, line := range strings.Split(run(t, c, "mcp__fake__env", "{}").Text, "\n") {
		name, value, _ := strings.Cut(line, "=")
		variables[name] = value
	}
	home := variables["HOME"]
	require.NotEqual(t, os.Getenv("HOME"), home)
	require.DirExists(t, home)
	require.NotEmpty(t, variables["CONCLAVE_MCP_MARK"])
	delete(variables, "CONCLAVE_MCP_MARK")
	require.Equal(t, filepath.Join(home, "tmp"), variables["TMPDIR"], "browsers keep profiles there")
	require.DirExists(t, variables["TMPDIR"])
	delete(variables, "TMPDIR")
	require.Equal(t, map[string]string{"PATH": os.Getenv("PATH"), "HOME": home, "CONCLAVE_WORKSPACE": dir, "DATABASE": "notes", asServer: "ordinary"}, variables)

	require.NoError(t, c.Close())
	require.NoDirExists(t, home)
}

func TestOpen_startsServersConcurrently(t *testing.T) {
	t.Parallel()
	meeting := t.TempDir()
	c := open(t, t.TempDir(), waiting(t, "a", meeting), waiting(t, "b", meeting), waiting(t, "c", meeting), waiting(t, "d", meeting))
	require.Equal(t, "hello", run(t, c, "mcp__d__echo", `{"text": "hello"}`).Text)
	require.Equal(t, "mcp__a__big", offered(c)[0])
}

func TestOpen_namesServersThatCannotBeConnected(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"exits":  `connect MCP server "bad": `,
		"noise":  "it writes lines to standard output that are not MCP messages",
		"flood":  "it sent a message longer than 32 MiB",
		"silent": "it was not ready within 500ms",
		"deaf":   "it was not ready within 500ms",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			bad := fake(t, "bad", kind)
			bad.Env["LICENSE_KEY"] = "very-secret-license"
			if strings.HasPrefix(want, "it was not") {
				bad.StartTimeout = 500 * time.Millisecond
			}
			started := time.Now()
			_, err := mcp.Open(t.Context(), []mcp.Server{fake(t, "good", "ordinary"), bad}, mcp.Place{Dir: t.TempDir()})
			require.ErrorContains(t, err, want)
			require.Less(t, time.Since(started), 5*time.Minute)
			failed, ok := errors.AsType[*mcp.StartError](err)
			require.True(t, ok)
			require.Equal(t, "bad", failed.Server)
			if kind == "exits" {
				require.ErrorContains(t, err, "the program ended (exit status 3); it wrote last:\nno license for key [redacted]")
			}
		})
	}
}

func TestOpen_findsNoProgramByARelativePath(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		server mcp.Server
		want   string
	}{
		"relative":      {mcp.Server{Name: "a", Command: "./x"}, `there is no program "./x" in PATH`},
		"relative path": {mcp.Server{Name: "a", Command: "x", Env: map[string]string{"PATH": ".:bin"}}, `there is no program "x" in PATH; install it, or give its absolute path (PATH is .:bin)`},
		"missing":       {mcp.Server{Name: "a", Command: "no-such-program"}, `there is no program "no-such-program"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), []byte("#!/bin/sh\n"), 0o700))
			_, err := mcp.Open(t.Context(), []mcp.Server{tt.server}, mcp.Place{Dir: dir})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestStdio_skipsABanner(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir(), fake(t, "fake", "banner"))
	require.Equal(t, "hello", run(t, c, "mcp__fake__echo", `{"text": "hello"}`).Text)
}

func TestOpen_offersAnOlderProtocolToAServerThatExitsOnTheNewest(t *testing.T) {
	t.Parallel()
	c := open(t, t.TempDir(), fake(t, "fake", "unprobed"))
	require.Equal(t, "hello", run(t, c, "mcp__fake__echo", `{"text": "hello"}`).Text)
}

func TestOpen_endsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the worker stops")
	time.AfterFunc(200*time.Millisecond, func() { cancel(stopped) })
	_, err := mcp.Open(ctx, []mcp.Server{fake(t, "bad", "silent")}, mcp.Place{Dir: t.TempDir()})
	require.ErrorContains(t, err, "the worker stops")
}

func TestTools_followTheServersList(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ordinary", "unprobed"} {
		c := open(t, t.TempDir(), fake(t, "fake", kind))
		require.Contains(t, offered(c), "mcp__fake__fail")
		require.NotContains(t, offered(c), "mcp__fake__grown")
		run(t, c, "mcp__fake__grow", "{}")
		require.Contains(t, offered(c), "mcp__fake__grown", "changes before the result are there with it")
		require.NotContains(t, offered(c), "mcp__fake__fail")
		require.Equal(t, "I am new", run(t, c, "mcp__fake__grown", "{}").Text)
		require.Contains(t, run(t, c, "mcp__fake__fail", "{}").Text, "error: no MCP server has a tool")
	}
}
