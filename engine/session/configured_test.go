package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session"
	"conclave/engine/step"
)

// divide gives each agent of the team a subtask.
func divide(m *session.Step, subtasks ...string) {
	m.Team.Orchestrator.CoordinationMode = coordination.Decomposition
	for i, subtask := range subtasks {
		m.Team.Agents = append(m.Team.Agents, config.Agent{ID: m.Agents[i], Subtask: subtask})
	}
}

// Seed 001: the session's criteria take precedence over inline ones.
func TestStep_criteria(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		session config.Criteria
		want    string
		not     string
	}{
		"the team's own": {nil, "Of the team.", "Of the session."},
		"the session's":  {config.Criteria{{Text: "Of the session."}}, "Of the session.", "Of the team."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, coordination.Updates{}, vote("agent2", "Good."))
			s.step.Team.Orchestrator.Coordination.ChecklistCriteriaInline, s.step.Criteria = config.Criteria{{Text: "Of the team."}}, tt.session
			require.NoError(t, s.play())
			require.Contains(t, s.sent(1), tt.want)
			require.NotContains(t, s.sent(1), tt.not)
		})
	}
}

func TestStep_checklist(t *testing.T) {
	t.Parallel()
	offered := func(s *scene) (names []string) {
		for _, tool := range s.model.requests[0].Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	gated := newScene(t, coordination.Updates{}, vote("agent2", "Good."))
	gated.step.Team.Orchestrator.VotingSensitivity = session.ChecklistGated
	require.NoError(t, gated.play())
	require.Contains(t, offered(gated), "submit_checklist")

	open := newScene(t, coordination.Updates{}, vote("agent2", "Good."))
	require.NoError(t, open.play())
	require.NotContains(t, offered(open), "submit_checklist")
}

// Each launch has an allowance, which includes the costs of its failed attempts.
func TestStep_allowance(t *testing.T) {
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

// Seed 001: max_new_answers_per_agent and the checklist count the answers of the team's current
// attempt; labels count all answers.
func TestStep_checklistAnswers(t *testing.T) {
	t.Parallel()
	fair := call("submit_checklist", map[string]any{"scores": map[string]any{
		"agent1.1": map[string]int{"E1": 7}, "agent2.1": map[string]int{"E1": 7},
	}})
	verdict := func(given int) string {
		s := newScene(t, coordination.Updates{}, fair, vote("agent2", "Good."))
		o := &s.step.Team.Orchestrator
		o.VotingSensitivity, o.MaxNewAnswersPerAgent = session.ChecklistGated, new(5)
		s.step.Criteria = config.Criteria{{Text: "It is right."}}
		s.step.Launch.Answers, s.step.Launch.Given = 7, given
		require.NoError(t, s.play())
		return s.sent(2)
	}
	// The bar is lower if fewer answers are left.
	require.Contains(t, verdict(1), `\"verdict\":\"new_answer\"`)
	require.Contains(t, verdict(4), `\"verdict\":\"vote\"`)
}

// Seed 001, "timeouts: initial and subsequent rounds": a launch that is resumed or retried under a
// higher number keeps its round.
func TestStep_firstRoundTime(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		launch coordination.Launch
		want   bool // that the time of a later round is over
	}{
		"first":          {first("agent_a", 1), false},
		"first, resumed": {coordination.Launch{Round: 1, After: 2}, false},
		"later":          {coordination.Launch{Round: 2, After: 1}, true},
		"later, first":   {coordination.Launch{Round: 2, After: 0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			l := first("agent_a", 1)
			l.Round, l.After = tt.launch.Round, tt.launch.After
			m := b.newStep(l, "run-l1")
			limits := &m.Team.Timeouts
			limits.InitialRoundTimeoutSeconds, limits.SubsequentRoundTimeoutSeconds, limits.RoundTimeoutGraceSeconds = new(3600), new(1), 60
			model := &script{replies: []llm.Message{look(), answer("One.")}}
			spec, err := m.Spec(t.Context(), b.store)
			require.NoError(t, err)
			ports, now := b.ports(model), time.Unix(0, 0)
			ports.Now = func() time.Time {
				now = now.Add(time.Second)
				return now
			}
			_, err = step.Run(t.Context(), ports, spec)
			require.NoError(t, err)
			said := model.requests[1].Messages[len(model.requests[1].Messages)-1].Content
			require.Equal(t, tt.want, strings.Contains(said, "Your time for this turn is nearly used up."), said)
		})
	}
}

// Seed 001: in decomposition mode stop replaces vote. This includes a team of one, whose checklist
// does not mention others.
func TestStep_checklistAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.run(first("agent_a", 1), "run-a", answer("One."))
	require.NoError(t, err)
	l := later("agent_a", 1, 1, coordination.Shown{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1})
	l.Offered, l.Given = []coordination.Action{coordination.NewAnswer, coordination.Stop}, 1
	m := b.newStep(l, "run-b")
	m.Agents, m.Criteria = []string{"agent_a"}, config.Criteria{{Text: "It is right."}}
	m.Team.Orchestrator.VotingSensitivity = session.ChecklistGated
	divide(&m, "")
	model := &script{replies: []llm.Message{
		call("submit_checklist", map[string]any{"scores": map[string]int{"E1": 10}}),
		call("stop", map[string]string{"status": "complete", "summary": "It is right."}),
	}}
	spec, err := m.Spec(t.Context(), b.store)
	require.NoError(t, err)
	_, err = step.Run(t.Context(), b.ports(model), spec)
	require.NoError(t, err)
	require.Contains(t, model.requests[1].Messages[3].Content, `"verdict":"stop"`)
	for _, m := range model.requests[0].Messages {
		require.NotContains(t, m.Content, "others")
	}
}
