package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
)

// A table shows the preparations, and an agent's last evaluation.
func TestTable_quality(t *testing.T) {
	t.Parallel()
	s := secondRound()
	s.State.Preparations = []acts.Drafted{
		{Preparation: acts.Criteria, Items: []string{"a", "b", "c"}},
		{Preparation: acts.Personas, Items: []string{"x"}, Fallback: "the reply has\x1b[31m no JSON object"},
	}
	s.State.Agents[2].Running, s.State.Agents[2].Purpose = true, coordination.Evaluation
	s.State.Agents[0].Evaluation = &coordination.Critique{
		Verdict: coordination.Iterate, Ceiling: coordination.CeilingApproaching,
		Scores: []coordination.RoundScore{{ID: "E1", Score: 7}, {ID: "E2", Score: 8}},
	}
	table := strings.Join(SnapshotTable(s), "\n")
	require.Contains(t, table, "3 criteria by a model · built-in personas: the reply has")
	require.NotContains(t, table, "\x1b")
	require.Contains(t, table, "iterate, scored 7.5 of 10, ceiling approaching")
	require.Contains(t, table, "being evaluated")

	s.State.Agents[0].LatestLabel, s.State.Agents[0].Evaluation.Label = "agent1.2", "agent1.1"
	require.Contains(t, strings.Join(SnapshotTable(s), "\n"), "agent1.2 · agent1.1 evaluated: iterate, scored 7.5 of 10")
	s.State.Agents[0].LatestLabel = "agent1.1"
	require.NotContains(t, strings.Join(SnapshotTable(s), "\n"), " evaluated: ")
	require.NotContains(t, strings.Join(SnapshotTable(secondRound()), "\n"), "by a model")
}
