package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/session/quality"
)

// The launch and the configuration determine the task.
func TestOpening_plan(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("team.yaml", []byte(`
agents:
  - {id: agent_a, backend: {type: offline}, subtask: one}
  - {id: agent_b, backend: {type: offline}, subtask: two}
orchestrator:
  coordination_mode: decomposition
  voting_sensitivity: checklist_gated
  answer_novelty_requirement: strict
  max_new_answers_per_agent: 3
  max_checklist_calls_per_round: 2
  checklist_first_answer: true
  coordination: {checklist_criteria_inline: [{text: It is right., verify_by: Run it.}]}
timeout_settings: {initial_round_timeout_seconds: 600, round_timeout_grace_seconds: 60}
`), config.Local)
	require.NoError(t, err)
	o := &opening{numbers: []string{"agent_a", "agent_b"}}
	o.Team, o.Launch = c, coordination.Launch{Agent: "agent_b", Round: 1}
	criteria := config.Criteria{{Text: "It is right.", Category: "standard", VerifyBy: "Run it."}}
	got := o.planTask()
	require.Equal(t, task{
		Agree: "normalized", ShowAgreement: true, TextAnswers: "auto",
		Sensitivity: "checklist_gated", Novelty: "strict", Criteria: criteria,
		Checklist: &quality.Policy{
			Criteria: criteria, Terminal: coordination.Stop, AnswerLimit: 3, CallsPerRound: 2, FirstAnswer: true,
			Decomposition: true, Subtask: "two",
		},
		ownership: ownership{Subtask: "two", Parts: []part{{Number: 1, Subtask: "one"}, {Number: 2, Subtask: "two"}}},
		limits:    limits{Soft: 10 * time.Minute, Grace: time.Minute},
	}, got)

	o.Launch.Round = 2
	require.Equal(t, limits{}, o.planTask().limits, "later rounds have no limit of their own")

	o.Team = config.Default()
	got = o.planTask()
	require.Equal(t, "lenient", got.Sensitivity)
	require.Nil(t, got.Checklist)
	require.Empty(t, got.ownership)
}
