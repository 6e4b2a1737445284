package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shell is a home directory with nothing in it, in which command lines run.
type shell struct {
	t    *testing.T
	home string
}

// newShell takes away whatever the environment of the test would tell conclave.
func newShell(t *testing.T) shell {
	t.Helper()
	home := t.TempDir()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "TEMPORAL_") || strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "OPENAI_") || strings.HasPrefix(name, "XDG_") {
			unset(t, name)
		}
	}
	t.Setenv("HOME", home)
	t.Chdir(home)
	return shell{t: t, home: home}
}

// unset removes a variable until the test ends.
func unset(t *testing.T, name string) {
	t.Helper()
	t.Setenv(name, "") // which puts the old value back afterwards
	require.NoError(t, os.Unsetenv(name))
}

// does runs one command line.
func (s shell) does(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	code = run(s.t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// file writes a file into the home.
func (s shell) file(name, content string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.home, name), []byte(content), 0o600))
}

// startedNothing fails if a data directory was made.
func (s shell) startedNothing() {
	s.t.Helper()
	require.NoDirExists(s.t, filepath.Join(s.home, ".local"))
}

func TestWrongUsageStartsNothing(t *testing.T) {
	s := newShell(t)
	s.file("full.txt", "")
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
		{[]string{"rnu", "q"}, "Did you mean this?\n\trun"},
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
		{[]string{"result", "a", "b"}, "takes 1 argument(s), got 2"},
		{[]string{"say", "s1"}, "say needs TEXT"},
		{[]string{"say", "s1", " \n"}, "the text is empty"},
		{[]string{"say", "s1", "two", "words"}, "put the TEXT in quotes"},
		{[]string{"say", "s1", "caf\xe9"}, "the TEXT is not UTF-8"},
		{[]string{"say", "s1", strings.Repeat("x", 4097)}, "4097 bytes, at most 4096"},
		{[]string{"say", "s1", "Hello.", "--agent", ""}, "--agent is given but empty"},
		{[]string{"say", "s1\x1b[2J", "Hello."}, "in no ID"},
		{[]string{"pause"}, "pause needs ID"},
		{[]string{"resume", "s1", "s2"}, "takes 1 argument(s), got 2"},
		{[]string{"finish", ""}, "the id is empty"},
		{[]string{"retry", "s1", "agent_a"}, "takes 1 argument(s), got 2"},
		{[]string{"retry", "s1", "--agnt", "agent_a"}, "did you mean --agent?"},
		{[]string{"list", "x"}, "takes 0 argument(s)"},
		{[]string{"transcript", "s1", "agent_a"}, "transcript needs STEP"},
		{[]string{"transcript", "s1", "agent_a", "first"}, `"first" is no number from 1; give it as 3, as 003, or as last`},
		{[]string{"transcript", "s/1", "agent_a", "3"}, "session id"},
		{[]string{"transcript", "--address", "x:1", "s1", "agent_a", "3"}, "--bucket"},
		{[]string{"pull", "a"}, "pull needs DIR"},
		{[]string{"pull", "../a", "out"}, "session id"},
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
		{[]string{"status", "caf\u00e9"}, `"café" has characters that are in no ID`},
		{[]string{"watch", "s1\x1b[2J"}, `"s1\x1b[2J" has characters`},
		{[]string{"result", strings.Repeat("x", 1001)}, "at most 1000"},
		{[]string{"list", "--address", "localhost"}, "HOST:PORT"},
		{[]string{"list", "--address", "https://temporal.example.com:7233"}, "has a scheme; give it as HOST:PORT"},
		{[]string{"list", "--address", "localhost:http"}, "no number"},
	} {
		code, stdout, stderr := s.does(tt.line...)
		require.Equal(t, exitUsage, code, "%v: %s", tt.line, stderr)
		require.Empty(t, stdout, "%v", tt.line)
		require.Contains(t, stderr, tt.says, "%v", tt.line)
		require.NotContains(t, stderr, "Usage:", "%v", tt.line)
		require.NotContains(t, stderr, "goroutine", "%v", tt.line)
		require.Less(t, len(stderr), 1000, "%v", tt.line)
	}
	s.startedNothing()
}

func TestWithoutAKeyThereAreThreeWaysOut(t *testing.T) {
	s := newShell(t)
	for _, command := range []string{"run", "start"} {
		code, stdout, stderr := s.does(command, "Why?")
		require.Equal(t, exitUsage, code)
		require.Empty(t, stdout)
		for _, way := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL=http://127.0.0.1:11434/v1", "--offline"} {
			require.Contains(t, stderr, way)
		}
	}
	code, _, stderr := s.does("worker")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "OPENAI_API_KEY")
	s.startedNothing()
}

func TestANamedKeyThatIsNotSet(t *testing.T) {
	s := newShell(t)
	t.Setenv("OPENAI_API_KEY", "sk-not-this-one")
	s.file("team.yaml", `
agents:
  - id: agent_a
    backend: {type: openai, model: m, base_url: "http://127.0.0.1:1/v1", api_key_env: VLLM_API_KEY}
  - id: agent_b
    backend: {type: openai, model: m}
`)
	code, _, stderr := s.does("run", "--config", "team.yaml", "Why?")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "VLLM_API_KEY is not set; it holds the API key of agent_a")
	require.NotContains(t, stderr, "agent_b")
	require.NotContains(t, stderr, "sk-not-this-one")
	s.startedNothing()
}

func TestUnreachableAddress(t *testing.T) {
	s := newShell(t)
	for _, line := range [][]string{
		{"run", "--offline", "--address", "127.0.0.1:1", "q"},
		{"status", "--address", "127.0.0.1:1", "s1"},
		{"list", "--json", "--address", "127.0.0.1:1"},
		{"pause", "--address", "127.0.0.1:1", "s1"},
	} {
		code, stdout, stderr := s.does(line...)
		require.Equal(t, exitUsage, code, "%v", line)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "connect to Temporal at 127.0.0.1:1")
		require.Contains(t, stderr, "check --address")
		require.NotContains(t, stderr, "rpc error")
	}
	s.startedNothing()
}

func TestUnreachableBucket(t *testing.T) {
	s := newShell(t)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	code, _, stderr := s.does("pull", "--bucket", "sessions", "s1", "out")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "s3://sessions/")
	require.NoDirExists(t, filepath.Join(s.home, "out"))
}

func TestHelpHasExamples(t *testing.T) {
	s := newShell(t)
	for _, c := range (&cli{}).root().Commands() {
		if c.Hidden || c.Name() == "completion" || c.Name() == "help" {
			continue
		}
		code, stdout, stderr := s.does(c.Name(), "--help")
		require.Equal(t, exitDone, code)
		require.Empty(t, stderr)
		require.Contains(t, stdout, "Examples:\n  ", c.Name())
		require.Contains(t, stdout, "conclave "+c.Name())
	}
	code, stdout, _ := s.does()
	require.Equal(t, exitDone, code)
	require.NotContains(t, stdout, "__stack")
	code, stdout, _ = s.does("completion", "bash")
	require.Equal(t, exitDone, code)
	require.Contains(t, stdout, "conclave")
}

func TestVersion(t *testing.T) {
	s := newShell(t)
	code, stdout, _ := s.does("version")
	require.Equal(t, exitDone, code)
	require.Contains(t, stdout, "Temporal SDK")
	code, stdout, _ = s.does("version", "--json")
	require.Equal(t, exitDone, code)
	require.Contains(t, stdout, `"temporal_server":`)
}
