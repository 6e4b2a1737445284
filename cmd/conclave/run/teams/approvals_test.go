package teams

import (
	"testing"

	"conclave/cmd/conclave/cli"

	"github.com/stretchr/testify/require"
)

const askingTeam = `agents: [{id: agent_a, backend: {type: offline}, tools: {shell: true}, mcp_servers: [tracker]}]
orchestrator:
  ask_person: true
  approvals:
    - {tool: run_command, matches: '^git push', do: ask, reason: others see it}
    - {tool: run_command, matches: '^git push --force', do: deny}
    - {tool: run_command, do: allow}
    - {tool: run_command, matches: '^rm', do: deny}
    - {tool: mcp__trakcer__send, do: deny}
`

func TestApprovals(t *testing.T) {
	s := newShell(t)
	s.File("team.yaml", askingTeam)
	code, stdout, stderr := s.Run("config", "approvals", "team.yaml", "--try", "make && sh -c 'git push'")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, "ask: approvals[0] of the team (others see it), for the command git push\n", stdout)
	_, stdout, _ = s.Run("config", "approvals", "team.yaml", "--try", "$X push")
	require.Contains(t, stdout, "deny: approvals[1] of the team, for the command $X push; a word in it that names a program is not literal")
	_, stdout, _ = s.Run("config", "approvals", "team.yaml", "--tool", "mcp__tracker__send", "--json")
	require.JSONEq(t, `{"do":"ask","place":"no rule fits, and the server does not mark the tool read-only","rule":null}`, stdout)
	s.File("worker.yaml", "sandbox: {level: 'off'}\napprovals: [{tool: 'mcp__*', do: deny}]\n")
	_, stdout, _ = s.Run("config", "approvals", "worker.yaml", "--try", "ls")
	require.Contains(t, stdout, "ask: no rule fits, and commands run without a sandbox")
	for _, args := range [][]string{{}, {"--try", "x", "--tool", "y"}, {"--tool", "x", "--args", "{"}} {
		code, _, _ = s.Run(append([]string{"config", "approvals", "team.yaml"}, args...)...)
		require.Equal(t, cli.ExitUsage, code)
	}
}

// A malformed rule is refused with its place; one that can never fit is warned of.
func TestValidate_approvals(t *testing.T) {
	s := newShell(t)
	s.File("team.yaml", askingTeam)
	code, _, stderr := s.Run("config", "validate", "team.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "orchestrator.approvals[3] can never fit: orchestrator.approvals[2] decides before it")
	require.Contains(t, stderr, "orchestrator.approvals[4] can never fit: no agent has a tool mcp__trakcer__send")
	require.NotContains(t, stderr, "approvals[1] can never")
	s.File("bad.yaml", "agents: [{id: a, backend: {type: offline}}]\norchestrator:\n  approvals: [{tool: x, matches: '(', do: ask}, {do: maybe}]\n")
	code, _, stderr = s.Run("config", "validate", "bad.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "bad.yaml:3:34: orchestrator.approvals[0].matches: not a pattern of RE2")
	require.Contains(t, stderr, "orchestrator.approvals[1].do")
	s.File("worker.yaml", "approvals: [{tool: x, do: ask}, {tool: x, matches: y, do: deny}, {tool: 'a*b', do: deny}]\n")
	_, _, stderr = s.Run("config", "validate", "worker.yaml")
	require.Contains(t, stderr, "worker.yaml:1:73: approvals[2].tool: a * stands at the end alone")
}
