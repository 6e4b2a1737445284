//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/session/check"
	sessionflow "conclave/workflows/session"
)

// Sessions that decide sooner, with each workflow task replayed from the first event: a quorum
// cancels a step that hangs, an agent joins when two do not agree, and a judge finds equal answers.
func TestUncachedSooner(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	for _, tt := range []struct {
		name     string
		settings map[string]any
		script   map[string][]reply
		check    func(t *testing.T, r sessionflow.Result)
	}{
		{
			name:     "quorum",
			settings: map[string]any{"decide_when": "quorum", "pacing": "continuous", "quorum_grace_seconds": 1, "disable_injection": true},
			script: map[string][]reply{
				"model-a": {answer("Answer A."), vote("agent1", "Mine.")},
				"model-b": {answer("Answer B."), vote("agent1", "Shorter.")},
				"model-c": {answer("Too late.").during(func() { <-hang })},
			},
			check: func(t *testing.T, r sessionflow.Result) {
				require.Equal(t, coordination.ByQuorum, r.DecidedBy)
				require.Equal(t, []string{"agent_c"}, r.Cut)
				require.InDelta(t, 2.0/3, r.Support.Share, 1e-9)
			},
		},
		{
			name:     "staged_with_checks",
			settings: map[string]any{"team_size": map[string]any{"start": 2}, "ballot": "checks_break_ties", "on_split": "plurality"},
			script: map[string][]reply{
				"model-a": {write("add.sh", "echo 7"), answer("See add.sh."), vote("agent1", "Mine.")},
				"model-b": {
					write("add.sh", "echo $(($1 + $2))"), write(check.Dir+"/checks.yaml", "- {name: sum, command: sh add.sh 2 3, stdout: \"5\"}\n"),
					answer("See add.sh."), vote("agent2", "Mine."),
				},
				"model-c": {vote("agent1", "It is first.")},
			},
			check: func(t *testing.T, r sessionflow.Result) {
				require.Equal(t, coordination.ByVotes, r.DecidedBy)
				require.Equal(t, "agent_a", r.Winner)
				require.InDelta(t, 0.0, *r.Support.Checks, 1e-9)
			},
		},
		{
			name:     "judged",
			settings: map[string]any{"agree": "judge", "early_agreement": true},
			script: map[string][]reply{
				"model-a": {answer("On Monday, I think.")},
				"model-b": {answer("It is Monday.")},
				"model-c": {answer("The first day of the week.")},
				"judge":   {says(`{"equal": true}`), says(`{"equal": true}`)},
			},
			check: func(t *testing.T, r sessionflow.Result) {
				require.Equal(t, coordination.ByAgreement, r.DecidedBy)
				require.Equal(t, "agent_a", r.Winner)
				require.EqualValues(t, 3+2, r.Cost.ModelCalls, "the judge was asked about the second answer and the third")
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			model := newModelServer(t, tt.script)
			if tt.script["judge"] != nil {
				tt.settings["agree_judge"] = map[string]any{"backend": map[string]any{"type": "openai", "model": "judge", "base_url": model.URL + "/v1"}}
			}
			t.Cleanup(func() {
				if tt.name == "quorum" {
					close(hang)
				}
			})
			t.Cleanup(s.workTeam(model.teamWith(orchestrator(tt.settings), "agent_a", "agent_b", "agent_c")))
			result := ended(t, s.start(tt.name), "consensus")
			tt.check(t, result)
			s.replay(tt.name, tt.name)
		})
	}
}

// The user's hidden check decides against the votes. Voters are shown the agents' checks, not
// the user's.
func TestChecks(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {
			write("add.sh", "echo $(($1 + $2))"), write(check.Dir+"/checks.yaml", "- {name: sum of two, command: sh add.sh 2 3, stdout: \"5\"}\n"),
			answer("See add.sh."), vote("agent2", "It is short."),
		},
		"model-b": {write("add.sh", "echo 7"), answer("Done."), vote("agent2", "Mine.")},
	})
	c := newCLI(t)
	team := c.file("team.yaml", model.teamWith(orchestrator(map[string]any{"ballot": "checks_decide", "disable_injection": true}), pair...))
	require.NoError(t, os.Mkdir(filepath.Join(c.home, "hidden"), 0o700))
	c.file("hidden/checks.yaml", "- {name: secret sum, command: sh add.sh 20 22, stdout: \"42\"}\n- {name: misspelt, command: sh ad.sh}\n")
	out := c.conclave("run", "--automation", "--config", team, "--checks", "hidden", "Add.")
	require.Equal(t, 0, out.code, out.stderr)
	result := out.result(t, "plurality")
	require.Equal(t, "agent_a", result.Winner)
	require.Equal(t, coordination.ByChecks, result.DecidedBy)
	require.Equal(t, map[string]int{"agent_b": 2}, result.Votes)
	require.Contains(t, model.request("model-b", 3), "agent1.1: check 1 passed")
	require.Contains(t, model.request("model-b", 3), "agent2.1: check 1 failed")
	require.NotContains(t, model.prompts(), "secret sum")
	require.Contains(t, out.stderr, "the check misspelt fails on every answer and was left out")
	require.InDelta(t, 1, *result.Support.Checks, 1e-9)

	plain := c.file("plain.yaml", model.teamWith(orchestrator(nil), pair...))
	refused := c.conclave("run", "--config", plain, "--checks", "hidden", "Add.")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "set orchestrator.ballot to checks_shown")

	c.file("hidden/checks.yaml", "- {name: nothing}\n")
	refused = c.conclave("run", "--config", team, "--checks", "hidden", "Add.")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "--checks hidden: read checks.yaml: entry 1 has no command")
	require.Equal(t, 1, strings.Count(c.conclave("list", "--json").stdout, `"session_id"`), "nothing was started")
}

// If a winner has too little support, the exit code is 2, and its answer is printed nevertheless. The
// session goes on with a message, until its decision stands.
func TestUndecided(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A."), vote("agent1", "Mine."), vote("agent1", "Still mine."), vote("agent2", "For forty, B.")},
		"model-b": {answer("Answer B."), vote("agent2", "Mine."), vote("agent2", "Still mine."), vote("agent2", "For forty, mine.")},
	})
	c := newCLI(t)
	team := c.file("team.yaml", model.teamWith(orchestrator(map[string]any{"act_when": map[string]any{"min_support": 0.6}, "on_split": "plurality"}), pair...))
	out := c.conclave("run", "--config", team, "--session-id", "doubt", "Who?")
	require.Equal(t, 2, out.code, out.stderr)
	require.Equal(t, "Answer A.", out.stdout[:len("Answer A.")])
	require.Contains(t, out.stderr, "undecided: this is the best answer, but only 50 % of the active agents support it; `conclave say doubt TEXT`")

	require.Contains(t, c.conclave("retry", "doubt").stderr, "session doubt had ended (undecided) and continues")
	out = c.conclave("watch", "doubt")
	require.Equal(t, 2, out.code, out.stderr)
	require.Contains(t, c.conclave("say", "doubt", "It is for a team of forty.").stderr, "session doubt had ended (undecided) and continues")
	out = c.conclave("watch", "doubt")
	require.Equal(t, 0, out.code, out.stderr)
	require.Equal(t, "Answer B.", out.stdout[:len("Answer B.")])
	require.Contains(t, model.request("model-b", 4), "It is for a team of forty.")
	require.Equal(t, 4, model.calls("model-a"), "nothing is paid twice")
	refused := c.conclave("say", "doubt", "And now?")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "it has ended already (consensus for agent")
}

// If every agent fails, the exit code is 2, and the best text is printed.
func TestEveryAgentFails(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A."), fails(401)}, "model-b": {answer("Answer B."), fails(401)},
	})
	c := newCLI(t)
	out := c.conclave("run", "--config", c.file("team.yaml", model.team(pair...)), "--session-id", "lost", "Who?")
	require.Equal(t, 2, out.code, out.stderr)
	require.Regexp(t, `^Answer [AB]\.`, out.stdout)
	require.Contains(t, out.stderr, "nobody has decided for this: every agent failed")
	require.Contains(t, out.stderr, "session lost failed: agent_a: AuthFailed")
	out = c.conclave("result", "lost", "--json")
	require.Equal(t, 2, out.code)
	require.Contains(t, out.stdout, `"status": "failed"`)
	require.Contains(t, out.stdout, `"presented_by": null`)
	require.Equal(t, 1, c.conclave("apply", "lost", "--to", t.TempDir()).code, "nobody has decided for its files")
}
