package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/session"
)

// votesSurely votes for agent_a's first answer with a confidence.
func votesSurely(confidence float64) outcome {
	return gives(acts.StepResult{Outcome: session.Outcome{
		Action: coordination.Vote, Choice: coordination.Choice{Target: "agent_a", TargetLabel: "agent1.1", Confidence: &confidence},
	}})
}

// A quorum cancels the step that still runs, whose usage counts, and presents after its end.
func TestQuorum(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{Quorum: true, Strategy: "winner_present"}, map[string][]outcome{
		"agent_a": {answers(), votesSurely(0.5), answers()},
		"agent_b": {answers(), votesSurely(1)},
		"agent_c": {answers(), hangs()},
	})
	result := p.run(t)
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, coordination.ByQuorum, result.DecidedBy)
	require.Equal(t, []string{"agent_c"}, result.Cut)
	require.InDelta(t, 2.0/3, result.Support.Share, 1e-9)
	require.InDelta(t, 0.75, *result.Support.Confidence, 1e-9)
	require.Contains(t, p.steps(), "agent_a present")
	require.Len(t, p.reckoned, 1, "the usage of the cut step")
	require.Equal(t, "agent1.final", p.presented[0].Decision.Final.Label)
}

// A majority waits for a first answer under way, and no longer than the grace.
func TestQuorum_grace(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{Quorum: true, QuorumGrace: 40, Pacing: "continuous"}, map[string][]outcome{
		"agent_a": {answers(), votesSurely(1)},
		"agent_b": {answers(), votesSurely(1)},
		"agent_c": {hangs()},
	})
	p.at(20, func() {
		state := p.state(t)
		require.Empty(t, state.Winner)
		require.Equal(t, map[string]int{"agent_a": 2}, state.Votes)
	})
	result := p.run(t)
	require.Equal(t, []string{"agent_c"}, result.Cut)
	require.Equal(t, []string{"agent_a", "agent_b"}, result.Voters)
}

// A session whose winner has too little support keeps its best answer and says so.
func TestUndecided(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{MinSupport: 0.7, Strategy: "winner_present"}, map[string][]outcome{
		"agent_a": {answers(), votesSurely(1)},
		"agent_b": {answers(), votesSurely(1)},
		"agent_c": {answers(), votesFor("agent_c", 3, 0)},
	})
	result := p.run(t)
	require.Equal(t, "undecided", result.Status)
	require.Equal(t, "agent1.1", result.WinnerLabel)
	require.Equal(t, "The answer.", result.Answer)
	require.Equal(t, coordination.ByVotes, result.DecidedBy)
	require.Nil(t, p.presented[0].Decision.Final)
}

// Agents of a staged team that are not needed are never launched.
func TestStagedTeam(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{Start: 2}, map[string][]outcome{
		"agent_a": {answers(), votesFor("agent_a", 1, 0)},
		"agent_b": {answers(), votesFor("agent_b", 2, 0)},
		"agent_c": {votesFor("agent_b", 2, 0)},
		"agent_d": {},
	})
	result := p.run(t)
	require.Equal(t, "agent_b", result.Winner)
	require.True(t, p.state(t).Agents[3].Absent)
	require.Equal(t, 3, result.Agents)
	require.NotContains(t, p.steps(), "agent_d ")
}
