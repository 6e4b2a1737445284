package start

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"conclave/cmd/conclave/cli"

	"github.com/stretchr/testify/require"
)

// checks runs --check on a session directory.
func (s shell) checks(dir, config string) (code int, stdout, stderr string) {
	s.T.Helper()
	line := []string{"step", "--check"}
	if dir != "" {
		line = append(line, "--session-dir", dir)
	}
	if config != "" {
		line = append(line, "--config", config)
	}
	return s.Run(line...)
}

func (s shell) step(name, content string) {
	s.T.Helper()
	require.NoError(s.T, os.MkdirAll(filepath.Dir(filepath.Join(s.Home, name)), 0o755))
	s.File(name, content)
}

type checkReport struct {
	Next      []string `json:"next"`
	Consensus *struct {
		Winner      string `json:"winner"`
		WinnerLabel string `json:"winner_label"`
		Votes       int    `json:"votes"`
	} `json:"consensus"`
	Split    bool `json:"split"`
	Warnings []struct {
		Path    string `json:"path"`
		Problem string `json:"problem"`
	} `json:"warnings"`
}

func parseCheck(t *testing.T, stdout string) checkReport {
	t.Helper()
	var r checkReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &r), stdout)
	return r
}

// CONTRACT: "conclave step --check": exit 0 consensus, 2 not yet, 1 usage.
func TestCheck(t *testing.T) {
	s := newStepShell(t)
	code, stdout, stderr := s.checks("missing", "")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "there is no session directory missing; name one with --session-dir DIR")
	code, _, _ = s.checks("", "")
	require.Equal(t, cli.ExitUsage, code)
	s.File("file", "")
	code, _, _ = s.checks("file", "")
	require.Equal(t, cli.ExitUsage, code)

	require.NoError(t, os.Mkdir("d", 0o755))
	code, stdout, _ = s.checks("d", "")
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Empty(t, parseCheck(t, stdout).Next)

	s.step("d/agents/agent_a/001/answer.json", `{"answer": "A"}`)
	s.step("d/agents/agent_b/001/answer.json", "torn")
	code, stdout, stderr = s.checks("d", "")
	require.Equal(t, cli.ExitNoAnswer, code)
	r := parseCheck(t, stdout)
	require.Equal(t, []string{"agent_a", "agent_b"}, r.Next)
	require.Len(t, r.Warnings, 1)
	require.Equal(t, "agents/agent_b/001/answer.json", r.Warnings[0].Path)
	require.Contains(t, stderr, "conclave: agents/agent_b/001/answer.json: is not valid JSON")

	s.step("d/agents/agent_a/002/vote.json", `{"target": "agent_a", "seen_steps": {"agent_a": 1}}`)
	s.step("d/agents/agent_b/002/vote.json", `{"target": "agent_a", "seen_steps": {"agent_a": 1}}`)
	code, stdout, _ = s.checks("d", "")
	require.Equal(t, cli.ExitOK, code)
	r = parseCheck(t, stdout)
	require.Empty(t, r.Next)
	require.Equal(t, "agent_a", r.Consensus.Winner)
	require.Equal(t, "agent1.1", r.Consensus.WinnerLabel)
	require.Equal(t, 2, r.Consensus.Votes)
	s.StartedNothing()
}

// The agents of --config belong to the team before their first step.
func TestCheck_withTeam(t *testing.T) {
	s := newStepShell(t)
	s.step("d/agents/agent_a/001/answer.json", `{"answer": "A"}`)
	s.step("d/agents/agent_a/002/vote.json", `{"target": "agent_a", "seen_steps": {"agent_a": 1}}`)
	s.File("team.yaml", "agents:\n  - {id: agent_a, backend: {type: offline}}\n  - {id: agent_b, backend: {type: offline}}\n")
	code, _, _ := s.checks("d", "")
	require.Equal(t, cli.ExitOK, code)
	code, stdout, _ := s.checks("d", "team.yaml")
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Equal(t, []string{"agent_b"}, parseCheck(t, stdout).Next)
	code, _, stderr := s.checks("d", "none.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "none.yaml")
}

// A split vote leaves no agent to launch, so a loop over the next agents ends.
func TestCheck_splitVote(t *testing.T) {
	s := newStepShell(t)
	for _, id := range []string{"agent_a", "agent_b"} {
		s.step("d/agents/"+id+"/001/answer.json", `{"answer": "x"}`)
		s.step("d/agents/"+id+"/002/vote.json", `{"target": "`+id+`", "seen_steps": {"agent_a": 1, "agent_b": 1}}`)
	}
	code, stdout, _ := s.checks("d", "")
	require.Equal(t, cli.ExitNoAnswer, code)
	r := parseCheck(t, stdout)
	require.True(t, r.Split)
	require.Empty(t, r.Next)
	require.Nil(t, r.Consensus)
}

// Links in a foreign directory cannot lead the check out of it.
func TestCheck_staysInside(t *testing.T) {
	s := newStepShell(t)
	s.step("outside/001/answer.json", `{"answer": "secret"}`)
	require.NoError(t, os.MkdirAll("d", 0o755))
	require.NoError(t, os.Symlink(filepath.Join(s.Home, "outside"), "d/agents"))
	code, stdout, stderr := s.checks("d", "")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "agents is a symbolic link, not a directory: make it a directory that can be read, or name another session directory")
}

// A flag without effect causes a warning, but no error.
func TestUnusedFlags(t *testing.T) {
	s := newStepShell(t)
	s.step("d/agents/agent_a/001/answer.json", `{"agent_id": "agent_a", "answer": "Yes.", "timestamp": "2026-11-21T10:00:00Z"}`)
	code, stdout, stderr := s.Run("step", "--check", "--session-dir", "d", "--fresh", "--address", "127.0.0.1:1")
	require.Equal(t, cli.ExitNoAnswer, code)
	parseCheck(t, stdout)
	require.Contains(t, stderr, "--fresh has no effect on step --check")
	require.Contains(t, stderr, "--address has no effect on step\n")

	s.File("one.yaml", "agent: {backend: {type: offline}}")
	code, _, stderr = s.Run("step", "--session-dir", "e", "--config", "one.yaml", "--data-dir", "f", "Yes?")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "--data-dir has no effect on step\n")
	require.NoDirExists(t, "f")
}
