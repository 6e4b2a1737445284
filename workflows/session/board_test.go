package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows"
)

// A held session shows the reason and the commands that release it.
func TestScoreboard(t *testing.T) {
	t.Parallel()
	why := "retry, finish or cancel: agent_b failed, AuthFailed: the key | was refused"
	state := acts.State{SessionID: "s1", Status: workflows.Running, Query: "Who <b>?", View: coordination.View{
		Phase: coordination.PhaseCoordinating, Round: 2, Attempt: 2, Messages: 3, Paused: true, Parked: &why,
		Votes: map[string]int{"agent_a": 1},
		Agents: []coordination.AgentView{
			{ID: "agent_a", Number: 1, Status: "answered", Running: true, LatestLabel: "agent1.2", Step: 2},
			{ID: "agent_b", Number: 2, Status: "voted", Vote: &coordination.VoteView{Choice: coordination.Choice{TargetLabel: "agent1.1"}, Stale: true}, Step: 3},
			{ID: "agent_c", Number: 3, Status: "stopped", Stop: &coordination.StopView{Status: coordination.Complete, Summary: "Done.", Stale: true}},
			{ID: "agent_d", Number: 4, Status: "failed", Error: &coordination.Failure{Type: "NoAction", Message: "gave up"}},
			{
				ID: "agent_e", Number: 5, Status: "failed", Error: &coordination.Failure{Type: "Outage", Message: "no response"},
				Doing: &coordination.Doing{Kind: coordination.ModelAway, Until: time.Date(2026, 11, 22, 8, 27, 10, 0, time.UTC)},
			},
			{ID: "agent_f", Number: 6, Status: "failed", Error: &coordination.Failure{Type: "NoAction", Message: "gave up"}},
		},
	}}
	board := boardMarkdown(state, acts.Prepared{URL: "s3://bucket/sessions/s1/session.json", Offline: true})
	require.Equal(t, `**answering and voting** · round 2 · attempt 2 · 0 tokens, 0 calls

Fresh votes: 1 for agent_a · 3 human messages

**Parked:** retry, finish or cancel: agent\_b failed, AuthFailed: the key \| was refused

`+"`conclave retry s1` · `conclave finish s1` · `conclave cancel s1`"+`

**Paused:** nothing runs, and the session's time stands still

`+"`conclave resume s1` · `conclave finish s1` · `conclave cancel s1`"+`

Offline: the built-in deterministic model plays the team.

> Who \<b\>?

| agent | state | answer | vote | step | tokens |
|---|---|---|---|---|---|
| agent_a (agent1) | at work | agent1.2 | – | 2 | 0 |
| agent_b (agent2) | voted | – | ~~agent1.1~~ stale | 3 | 0 |
| agent_c (agent3) | stopped | – | ~~complete~~ stale | 0 | 0 |
| agent_d (agent4) | failed | – | – | 0 | 0 |
| agent_e (agent5) | waiting for its model's server until 08:27:10 UTC | – | – | 0 | 0 |
| agent_f (agent6) | failed | – | – | 0 | 0 |

`+"`conclave status s1`"+` and the pending activities show what the running steps do.

- agent_c is complete: Done.
- agent_d, agent_f failed: NoAction: gave up
- agent_e failed: Outage: no response

Files: `+"`s3://bucket/sessions/s1/`"+`
`, board)

	state.Status, state.Winner, state.Phase = "consensus", "agent_a", coordination.PhaseDone
	state.DecidedBy, state.Cut = coordination.ByQuorum, []string{"agent_b"}
	board = boardMarkdown(state, acts.Prepared{})
	require.Contains(t, board, "**consensus: agent_a**")
	require.Contains(t, board, "| agent_b (agent2) | cut off by the quorum |")
	require.NotContains(t, board, "conclave retry", "nothing is held when it is over")
}

// The event list shows the purpose of a step.
func TestLaunchSummary(t *testing.T) {
	t.Parallel()
	shown := make([]coordination.Shown, 10)
	for i := range shown {
		shown[i].Label = "agent1.1"
	}
	for want, l := range map[string]coordination.Launch{
		"a (agent1) · round 1 · first answer":                      {},
		"a (agent1) · round 1 · sees agent1.1":                     {Shown: shown[:1]},
		"a (agent1) · round 1 · resumed · sees agent1.1":           {Shown: shown[:1], ResumeFrom: "tok"},
		"a (agent1) · round 1 · presents the final answer":         {Shown: shown, Purpose: coordination.Present},
		"a (agent1) · round 1 · resumed · judges the final answer": {Purpose: coordination.Evaluate, ResumeFrom: "tok"},
		"a (agent1) · round 1 · sees " +
			"agent1.1 agent1.1 agent1.1 agent1.1 agent1.1 agent1.1 agent1.1 agent1.1 and 2 more": {Shown: shown},
	} {
		l.Agent, l.Number, l.Round = "a", 1, 1
		require.Equal(t, want, launchSummary(l))
	}
}
