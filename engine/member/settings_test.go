package member_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/member"
	"conclave/engine/team"
)

func TestSettingsAreTheConfiguration(t *testing.T) {
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
	require.Equal(t, member.Settings{
		Sensitivity: "checklist_gated", Novelty: "strict",
		Subtasks:   map[string]string{"agent_a": "one", "agent_b": "two"},
		FirstRound: 10 * time.Minute, Grace: time.Minute,
		Criteria:       []team.Criterion{{Text: "It is right.", Category: "standard", VerifyBy: "Run it."}},
		ChecklistCalls: 2, ChecklistFirst: true, AnswersPerAgent: 3,
	}, member.SettingsOf(c))
}

// Seed 001: the session's criteria take precedence over inline ones.
func TestCriteriaOfTheSessionComeFirst(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		session []team.Criterion
		want    string
		not     string
	}{
		"the team's own": {nil, "Of the team.", "Of the session."},
		"the session's":  {[]team.Criterion{{Text: "Of the session."}}, "Of the session.", "Of the team."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, coordination.Updates{}, vote("agent2", "Good."))
			s.step.Settings.Criteria, s.step.Criteria = []team.Criterion{{Text: "Of the team."}}, tt.session
			require.NoError(t, s.play())
			require.Contains(t, s.heard(1), tt.want)
			require.NotContains(t, s.heard(1), tt.not)
		})
	}
}

func TestChecklistIsOfferedWhereItGates(t *testing.T) {
	t.Parallel()
	offered := func(s *scene) (names []string) {
		for _, tool := range s.model.requests[0].Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	gated := newScene(t, coordination.Updates{}, vote("agent2", "Good."))
	gated.step.Settings.Sensitivity = team.ChecklistGated
	require.NoError(t, gated.play())
	require.Contains(t, offered(gated), "submit_checklist")

	open := newScene(t, coordination.Updates{}, vote("agent2", "Good."))
	require.NoError(t, open.play())
	require.NotContains(t, offered(open), "submit_checklist")
}

// Each launch carries a spend allowance, and what failed attempts of it spent
// counts against it, too.
func TestAllowanceEndsTheStep(t *testing.T) {
	t.Parallel()
	s := newScene(t, coordination.Updates{}, look())
	s.step.Launch.Allowance = coordination.Allowance{Tokens: 150}
	require.ErrorContains(t, s.play(), "the script has 1 replies")

	s.model = &script{replies: []llm.Message{look(), look()}}
	s.step.Attempt, s.step.Spent = 2, s.result.Usage
	err := s.play()
	var ended *loop.EndedError
	require.ErrorAs(t, err, &ended)
	require.Equal(t, loop.EndAllowance, ended.Why)
	require.Len(t, s.model.requests, 1, "110 tokens were spent, then as many again")
	require.Equal(t, int64(2), s.result.Usage.ModelCalls)
}
