package member_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/member"
	"conclave/engine/step"
)

// Seed 001: in decomposition mode agents own subtasks and use stop for
// per-agent completion instead of vote.
func TestStopSaysHowThePartStands(t *testing.T) {
	t.Parallel()
	s := newScene(t, coordination.Updates{}, call("stop", map[string]string{"status": "blocked", "summary": "No access to the data."}))
	s.step.Launch.Offered = []coordination.Action{coordination.NewAnswer, coordination.Stop}
	s.step.Settings.Subtasks = map[string]string{"agent_a": "Gather the data.", "agent_b": "Draw the chart."}
	require.NoError(t, s.play())
	require.Contains(t, s.heard(1), "Gather the data.")
	require.Contains(t, s.heard(1), "Draw the chart.")

	var stopped member.Stopped
	s.read("agents/agent_a/002/stop.json", &stopped)
	require.Equal(t, member.Stopped{
		AgentID: "agent_a", Summary: "No access to the data.", Status: coordination.Blocked,
		SeenSteps: map[string]int{"agent_a": 1, "agent_b": 1}, Timestamp: time.Date(2026, 3, 20, 22, 32, 3, 0, time.UTC),
	}, stopped)
	var last artifact.LastAction
	s.read("agents/agent_a/last_action.json", &last)
	require.Equal(t, "stop", last.Action)
	require.Equal(t, 2, last.StepNumber)
	require.Nil(t, last.AnswerText)
	require.Nil(t, last.VoteReason)

	o, err := member.ReadOutcome(s.result.Commit)
	require.NoError(t, err)
	require.Equal(t, coordination.Stop, o.Action)
	require.Equal(t, coordination.Blocked, o.Status)
	require.Equal(t, "No access to the data.", o.Summary)
}

// Seed 001: the winner presents the final answer; seed 001's anonymity holds for
// presenters, too.
func TestPresenterMakesTheFinalAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t, coordination.Updates{}, write("final.md", "all of it"), answer("Two, and what One adds."))
	l := &s.step.Launch
	l.Purpose, l.Offered = coordination.Present, []coordination.Action{coordination.NewAnswer}
	l.Verdict = &coordination.Verdict{Strategy: coordination.Synthesize, Label: "agent2.1", Votes: 2, Voters: 2, Reasons: []string{"It is proved."}}
	require.NoError(t, s.play())
	require.Contains(t, s.heard(1), "It is proved.")
	require.NotContains(t, s.heard(1), "agent_b")

	var got artifact.Answer
	s.read("agents/agent_a/002/answer.json", &got)
	require.Equal(t, "agent1.final", got.Label)
	require.Equal(t, "Two, and what One adds.", got.Answer)
	require.Equal(t, 1, s.result.Files)
	var last artifact.LastAction
	s.read("agents/agent_a/last_action.json", &last)
	require.Equal(t, "new_answer", last.Action)
	require.Equal(t, 2, last.StepNumber)
}

// evaluating is agent_a judging agent_b's answer with its files.
func evaluating(t *testing.T, replies ...llm.Message) *scene {
	t.Helper()
	s := newScene(t, coordination.Updates{}, replies...)
	s.step.Launch.Purpose = coordination.Evaluate
	s.step.Launch.Shown = nil
	s.step.Launch.Offered = []coordination.Action{coordination.Submit, coordination.RestartTeam}
	s.step.Launch.Final = &coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}
	return s
}

// Seed 001: post-evaluation ends with submit or restart_orchestration. It is no
// action of a team member: nothing but the commit and the transcript tells of it.
func TestEvaluationLeavesTheLastActionAlone(t *testing.T) {
	t.Parallel()
	again := call("restart_orchestration", map[string]string{"reason": "It has no proof.", "instructions": "Prove it."})
	for name, tt := range map[string]struct {
		reply llm.Message
		want  member.Outcome
	}{
		"submit":  {call("submit", map[string]string{}), member.Outcome{Action: coordination.Submit}},
		"restart": {again, member.Outcome{Action: coordination.RestartTeam, Reason: "It has no proof."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := evaluating(t, call("read_file", map[string]string{"path": "peers/agent2/first.txt"}), tt.reply)
			require.NoError(t, s.play())
			require.Contains(t, s.heard(1), "Two.")
			require.NotContains(t, s.heard(2), "not found")
			o, err := member.ReadOutcome(s.result.Commit)
			require.NoError(t, err)
			o.Seen = nil
			require.Equal(t, tt.want, o)

			var files []string
			for key, err := range s.store.List(t.Context(), "agents/agent_a/002/") {
				require.NoError(t, err)
				files = append(files, key)
			}
			require.Equal(t, []string{"agents/agent_a/002/action.json", "agents/agent_a/002/step.json", "agents/agent_a/002/transcript.jsonl"}, files)
			var last artifact.LastAction
			s.read("agents/agent_a/last_action.json", &last)
			require.Equal(t, 1, last.StepNumber)
		})
	}
}

func TestGivenUpEvaluationLeavesTheLastActionAlone(t *testing.T) {
	t.Parallel()
	text := llm.Message{Role: llm.Assistant, Content: "Hm."}
	s := evaluating(t, text, text, text)
	err := s.play()
	var rejected *loop.RejectedError
	require.ErrorAs(t, err, &rejected)
	require.NoError(t, step.Abandon(t.Context(), s.ports(s.model), s.spec, s.result, artifact.Error{Type: "NoAction"}))
	var last artifact.LastAction
	s.read("agents/agent_a/last_action.json", &last)
	require.Equal(t, "new_answer", last.Action)
}

// Seed 001: on a restart the reason, the instructions and the earlier answer
// are carried into the next attempt.
func TestTheNextAttemptKnowsThePreviousOne(t *testing.T) {
	t.Parallel()
	s := evaluating(t, call("restart_orchestration", map[string]string{"reason": "It has no proof.", "instructions": "Prove it in one page."}))
	require.NoError(t, s.play())

	l := first("agent_b", 2)
	l.After, l.Answers = 1, 1
	l.Previous = &coordination.Attempt{
		Number: 1, Answer: coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}, Agent: "agent_a", Step: 2,
	}
	s.model = &script{replies: []llm.Message{call("read_file", map[string]string{"path": "peers/agent2/first.txt"}), answer("Proved.")}}
	s.step = s.member(l, "run-e")
	require.NoError(t, s.play())
	for _, told := range []string{"It has no proof.", "Prove it in one page.", "Two."} {
		require.Contains(t, s.heard(1), told)
	}
	require.Empty(t, s.result.Commit.SeenSteps, "an answer of an earlier attempt is not one of this")
	var a artifact.Answer
	s.read("agents/agent_b/002/answer.json", &a)
	require.Equal(t, "agent2.2", a.Label, "labels count on")
}
