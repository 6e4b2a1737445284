package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func newShell(t *testing.T) stage.Shell {
	t.Helper()
	return stage.NewShell(t, func(c *cli.CLI) []*cobra.Command { return rootCommand(c).Commands() })
}

func TestUsageErrors_startNothing(t *testing.T) {
	s := newShell(t)
	s.File("full.txt", "")
	for _, tt := range []struct {
		line []string
		says string
	}{
		{[]string{"run"}, "run needs QUERY"},
		{[]string{"run", ""}, "the query is empty"},
		{[]string{"run", " \n"}, "the query is empty"},
		{[]string{"run", "two", "words"}, "put the QUERY in quotes"},
		{[]string{"start", "--offline", ""}, "the query is empty"},
		{[]string{"run", strings.Repeat("x", 256<<10+1)}, "at most 262144"},
		{[]string{"run", "--offlin", "q"}, "did you mean --offline?"},
		{[]string{"run", "--data-dri", "x", "q"}, "did you mean --data-dir?"},
		{[]string{"worker", "--worker-config", "w.yaml"}, "read the worker configuration: open w.yaml"},
		{[]string{"worker", "--worker-conf", "w.yaml"}, "did you mean --worker-config?"},
		{[]string{"rnu", "q"}, "did you mean `conclave run`?"},
		{[]string{"config", "validat", "x"}, "did you mean `conclave config validate`?"},
		{[]string{"run", "--offline", "--session-id", "a/b", "q"}, "letters, digits"},
		{[]string{"run", "--offline", "--session-id", "..", "q"}, "session id"},
		{[]string{"run", "--team", "default", "--config", "x.yaml", "q"}, "exclude each other"},
		{[]string{"run", "--team", "default", "--offline", "q"}, "--offline"},
		{[]string{"run", "--team", "nobody", "q"}, `no team "nobody"`},
		{[]string{"run", "--config", "nowhere.yaml", "q"}, "nowhere.yaml"},
		{[]string{"run", "--offline", "--eval-criteria", "nowhere.json", "q"}, "nowhere.json"},
		{[]string{"run", "--offline", "--bucket", "b", "q"}, "add --address"},
		{[]string{"run", "--offline", "--namespace", "other", "q"}, `not "other"`},
		{[]string{"status"}, "status needs ID"},
		{[]string{"result", "a", "b"}, "takes ID, got 2 arguments"},
		{[]string{"say", "s1"}, "say needs TEXT"},
		{[]string{"say", "s1", " \n"}, "the text is empty"},
		{[]string{"say", "s1", "two", "words"}, "put the TEXT in quotes"},
		{[]string{"say", "s1", "caf\xe9"}, "the TEXT is not UTF-8"},
		{[]string{"say", "s1", strings.Repeat("x", 4097)}, "4097 bytes, at most 4096"},
		{[]string{"say", "s1", "Hello.", "--agent", ""}, "--agent is given but empty"},
		{[]string{"say", "s1\x1b[2J", "Hello."}, "no ID has"},
		{[]string{"pause"}, "pause needs ID"},
		{[]string{"resume", "s1", "s2"}, "takes ID, got 2 arguments"},
		{[]string{"finish", ""}, "the id is empty"},
		{[]string{"retry", "s1", "agent_a"}, "takes ID, got 2 arguments"},
		{[]string{"retry", "s1", "--agnt", "agent_a"}, "did you mean --agent?"},
		{[]string{"list", "x"}, "takes no arguments, got 1 argument"},
		{[]string{"transcript", "s1", "agent_a"}, "transcript needs STEP"},
		{[]string{"transcript", "s1", "agent_a", "first"}, `"first" is not a number from 1; give it as 3, as 003, or as last`},
		{[]string{"transcript", "s:1", "agent_a", "3"}, "session id"},
		{[]string{"transcript", "s/1/2", "agent_a", "3"}, "is not a run id"},
		{[]string{"transcript", "--address", "x:1", "s1", "agent_a", "3"}, "--bucket"},
		{[]string{"pull", "a"}, "pull needs DIR"},
		{[]string{"pull", "../a", "out"}, "is not a slug"},
		{[]string{"pull", "a", "."}, "not empty"},
		{[]string{"pull", "a", "full.txt"}, "full.txt"},
		{[]string{"pull", "--address", "x:1", "a", "out"}, "--bucket"},
		{[]string{"dev", "--address", "x:1"}, "conclave worker"},
		{[]string{"worker", "--address", "x:1"}, "--bucket"},
		{[]string{"worker", "--max-concurrent-steps", "-1"}, "at least 1"},
		{[]string{"run", "--max-steps", "q"}, "unknown flag"},
		{[]string{"run", "--offline", "--config", "", "q"}, "--config is given but empty"},
		{[]string{"run", "--offline", "--session-id", "", "q"}, "--session-id is given but empty"},
		{[]string{"run", "--offline", "--task-queue=", "q"}, "--task-queue is given but empty"},
		{[]string{"start", "--offline", "--eval-criteria", "", "q"}, "--eval-criteria is given but empty"},
		{[]string{"start", "--team", " ", "q"}, "--team is given but empty"},
		{[]string{"run", "--offline", "caf\xe9"}, "not UTF-8"},
		{[]string{"run", "--offline", "--session-id", strings.Repeat("x", 5000), "q"}, strings.Repeat("x", 77) + "…"},
		{[]string{"status", "caf\u00e9"}, `"café" has characters that no ID has`},
		{[]string{"watch", "s1\x1b[2J"}, `"s1\x1b[2J" has characters`},
		{[]string{"result", strings.Repeat("x", 1001)}, "at most 1000"},
		{[]string{"list", "--address", "localhost"}, "HOST:PORT"},
		{[]string{"list", "--address", "https://temporal.example.com:7233"}, "has a scheme; give it as HOST:PORT"},
		{[]string{"list", "--address", "localhost:http"}, "not a number"},
	} {
		code, stdout, stderr := s.Run(tt.line...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", tt.line, stderr)
		require.Empty(t, stdout, "%v", tt.line)
		require.Contains(t, stderr, tt.says, "%v", tt.line)
		require.NotContains(t, stderr, "Usage:", "%v", tt.line)
		require.NotContains(t, stderr, "goroutine", "%v", tt.line)
		require.Less(t, len(stderr), 1000, "%v", tt.line)
	}
	s.StartedNothing()
}

func TestUsageErrors_inOneLine(t *testing.T) {
	s := newShell(t)
	s.File("full.txt", "")
	for _, tt := range []struct {
		line []string
		says string
	}{
		{[]string{"help", "nosuch"}, `unknown command "nosuch" for "conclave"; see`},
		{[]string{"logs", "s1"}, "did you mean `conclave transcript`?"},
		{[]string{"show", "s1"}, "did you mean `conclave status`?"},
		{[]string{"man"}, "man needs DIR"},
		{[]string{"run", "--offline", "-"}, "the query is empty"},
		{[]string{"start", "--offline", "--query-file", "full.txt"}, "the query is empty"},
		{[]string{"step", "--session-dir", "d", "--query-file", "full.txt"}, "the query is empty"},
		{[]string{"pipeline", "run", "p.yaml", "--query-file", "full.txt"}, "the request is empty"},
		{[]string{"dev", "--port", "70000"}, "--port is 70000; give a port from 1 to 65535"},
		{[]string{"dev", "--port", "7233", "--ui-port", "7233"}, "--port and --ui-port are both 7233"},
		{[]string{"dev", "--worker-config", "nowhere.yaml"}, "read the worker configuration: open nowhere.yaml"},
	} {
		code, stdout, stderr := s.Run(tt.line...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", tt.line, stderr)
		require.Empty(t, stdout, "%v", tt.line)
		require.Contains(t, stderr, tt.says, "%v", tt.line)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "%v", tt.line)
	}
	s.StartedNothing()
}

func TestMissingKey_namesThreeRemedies(t *testing.T) {
	s := newShell(t)
	for _, command := range []string{"run", "start"} {
		code, stdout, stderr := s.Run(command, "Why?")
		require.Equal(t, cli.ExitUsage, code)
		require.Empty(t, stdout)
		for _, way := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL=http://127.0.0.1:11434/v1", "--offline"} {
			require.Contains(t, stderr, way)
		}
	}
	code, _, stderr := s.Run("worker")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "OPENAI_API_KEY")
	s.StartedNothing()
}

func TestMissingKey_named(t *testing.T) {
	s := newShell(t)
	t.Setenv("OPENAI_API_KEY", "sk-not-this-one")
	s.File("team.yaml", `
agents:
  - id: agent_a
    backend: {type: openai, model: m, base_url: "http://127.0.0.1:1/v1", api_key_env: VLLM_API_KEY}
  - id: agent_b
    backend: {type: openai, model: m}
`)
	code, _, stderr := s.Run("run", "--config", "team.yaml", "Why?")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "VLLM_API_KEY is not set; it holds the API key of agent_a")
	require.NotContains(t, stderr, "agent_b")
	require.NotContains(t, stderr, "sk-not-this-one")
	s.StartedNothing()
}

func TestConnect_unreachableAddress(t *testing.T) {
	s := newShell(t)
	for _, line := range [][]string{
		{"run", "--offline", "--address", "127.0.0.1:1", "q"},
		{"status", "--address", "127.0.0.1:1", "s1"},
		{"list", "--json", "--address", "127.0.0.1:1"},
		{"pause", "--address", "127.0.0.1:1", "s1"},
	} {
		code, stdout, stderr := s.Run(line...)
		require.Equal(t, cli.ExitUsage, code, "%v", line)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "connect to Temporal at 127.0.0.1:1")
		require.Contains(t, stderr, "check --address")
		require.NotContains(t, stderr, "rpc error")
	}
	s.StartedNothing()
}

func TestConnect_unreachableBucket(t *testing.T) {
	s := newShell(t)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	code, _, stderr := s.Run("pull", "--bucket", "sessions", "s1", "out")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "s3://sessions/")
	require.NoDirExists(t, filepath.Join(s.Home, "out"))
}

func TestHelp_hasExamples(t *testing.T) {
	s := newShell(t)
	var check func(commands []*cobra.Command)
	check = func(commands []*cobra.Command) {
		for _, c := range commands {
			if c.Hidden || c.Name() == "completion" || c.Name() == "help" {
				continue
			}
			path := c.CommandPath()
			code, stdout, stderr := s.Run(append(strings.Fields(path)[1:], "--help")...)
			require.Equal(t, cli.ExitOK, code, path)
			require.Empty(t, stderr, path)
			require.Contains(t, stdout, "Examples:\n  ", path)
			require.Contains(t, stdout, path+" ", path)
			check(c.Commands())
		}
	}
	check(rootCommand(&cli.CLI{}).Commands())
	code, stdout, _ := s.Run()
	require.Equal(t, cli.ExitOK, code)
	require.NotContains(t, stdout, "__stack")
	code, stdout, _ = s.Run("completion", "bash")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "conclave")
}

func TestVersion(t *testing.T) {
	s := newShell(t)
	code, stdout, _ := s.Run("version")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "Temporal SDK")
	code, stdout, _ = s.Run("version", "--json")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, `"temporal_server":`)

	var out bytes.Buffer
	for _, flag := range []string{"--version", "-v"} {
		out.Reset()
		require.Equal(t, cli.ExitOK, runLine(t.Context(), []string{flag}, nil, &out, &out))
		require.Equal(t, readVersions().String(), out.String())
	}
}

// Every entry of commonFlags is the path of a command and has names of common flags.
func TestCommonFlags(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	for path, names := range commonFlags {
		out.Reset()
		require.Equal(t, cli.ExitOK, runLine(t.Context(), append(strings.Fields(path), "--help"), nil, &out, &out), path)
		for _, name := range strings.Fields(names) {
			require.Contains(t, out.String(), "--"+name, path)
		}
		require.NotContains(t, out.String(), "unknown command", path)
	}
	out.Reset()
	require.Equal(t, cli.ExitOK, runLine(t.Context(), []string{"config", "init", "--help"}, nil, &out, &out))
	require.NotContains(t, out.String(), "--bucket")
}

func TestMan(t *testing.T) {
	s := newShell(t)
	var out bytes.Buffer
	require.Equal(t, cli.ExitOK, runLine(t.Context(), []string{"man", "pages/man1"}, nil, &out, &out), out.String())
	pages, err := filepath.Glob(filepath.Join(s.Home, "pages/man1/*.1"))
	require.NoError(t, err)
	require.Contains(t, out.String(), fmt.Sprintf("%d manual pages written to pages/man1", len(pages)))
	page, err := os.ReadFile("pages/man1/conclave-pipeline-validate.1")
	require.NoError(t, err)
	require.Contains(t, string(page), `\fB--graph\fP`)
	require.NotContains(t, string(page), "--bucket")
	require.NoFileExists(t, "pages/man1/conclave-__stack.1")
	s.StartedNothing()
}

// Every command stands in one group of the root's help, in the order of the group.
func TestHelp_groups(t *testing.T) {
	t.Parallel()
	root := rootCommand(&cli.CLI{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	groupCommands(root)
	titles := map[string]string{}
	for _, g := range groups {
		for name := range strings.FieldsSeq(g.names) {
			require.Empty(t, titles[name], "%s is in two groups", name)
			titles[name] = g.title
		}
	}
	for _, c := range root.Commands() {
		if c.Hidden {
			continue
		}
		title, known := titles[c.Name()]
		require.True(t, known, "%s is in no group", c.Name())
		require.Equal(t, title, c.GroupID, c.Name())
		delete(titles, c.Name())
	}
	require.Empty(t, titles, "groups name commands that do not exist")
}
