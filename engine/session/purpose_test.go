package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session"
	"conclave/engine/step"
)

// Seed 001: in decomposition mode agents own subtasks and use stop instead of vote when they have
// finished.
func TestStep_stop(t *testing.T) {
	t.Parallel()
	s := newScene(t, coordination.Updates{}, call("stop", map[string]string{"status": "blocked", "summary": "No access to the data."}))
	s.step.Launch.Offered = []coordination.Action{coordination.NewAnswer, coordination.Stop}
	divide(&s.step, "Gather the data.", "Draw the chart.")
	require.NoError(t, s.play())
	require.Contains(t, s.sent(1), "Gather the data.")
	require.Contains(t, s.sent(1), "Draw the chart.")

	stopped, err := s.store.Get(t.Context(), "agents/agent_a/002/stop.json")
	require.NoError(t, err)
	require.JSONEq(t, `{
		"agent_id": "agent_a", "summary": "No access to the data.", "status": "blocked",
		"seen_steps": {"agent_a": 1, "agent_b": 1}, "timestamp": "2026-03-20T22:32:03Z"
	}`, string(stopped))
	var last artifact.LastAction
	s.read("agents/agent_a/last_action.json", &last)
	require.Equal(t, "stop", last.Action)
	require.Equal(t, 2, last.StepNumber)
	require.Nil(t, last.AnswerText)
	require.Nil(t, last.VoteReason)

	o, err := session.ReadOutcome(s.result.Commit)
	require.NoError(t, err)
	require.Equal(t, coordination.Stop, o.Action)
	require.Equal(t, coordination.Blocked, o.Status)
	require.Equal(t, "No access to the data.", o.Summary)
}

// Seed 001: the winner presents the final answer. Anonymity also applies to presenters.
func TestStep_presenter(t *testing.T) {
	t.Parallel()
	s := newScene(t, coordination.Updates{}, write("final.md", "all of it"), answer("Two, and what One adds."))
	l := &s.step.Launch
	l.Purpose, l.Offered = coordination.Present, []coordination.Action{coordination.NewAnswer}
	l.Brief = &coordination.Brief{Strategy: "synthesize", Label: "agent2.1", Votes: 2, Voters: 2, Reasons: []string{"It is proved."}}
	require.NoError(t, s.play())
	require.Contains(t, s.sent(1), "It is proved.")
	require.NotContains(t, s.sent(1), "agent_b")

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

// evaluating returns a scene in which agent_a judges agent_b's answer and its files.
func evaluating(t *testing.T, replies ...llm.Message) *scene {
	t.Helper()
	s := newScene(t, coordination.Updates{}, replies...)
	s.step.Launch.Purpose = coordination.Evaluate
	s.step.Launch.Shown = nil
	s.step.Launch.Offered = []coordination.Action{coordination.Submit, coordination.RestartTeam}
	s.step.Launch.Final = &coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}
	return s
}

// Seed 001: post-evaluation ends with submit or restart_orchestration. This is not an action of a
// team member; it stores only the commit and the transcript.
func TestStep_evaluation(t *testing.T) {
	t.Parallel()
	again := call("restart_orchestration", map[string]string{"reason": "It has no proof.", "instructions": "Prove it."})
	for name, tt := range map[string]struct {
		reply llm.Message
		want  session.Outcome
	}{
		"submit":  {call("submit", map[string]string{}), session.Outcome{Action: coordination.Submit}},
		"restart": {again, session.Outcome{Action: coordination.RestartTeam, Choice: coordination.Choice{Reason: "It has no proof."}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := evaluating(t, call("read_file", map[string]string{"path": "peers/agent2/first.txt"}), tt.reply)
			require.NoError(t, s.play())
			require.Contains(t, s.sent(1), "Two.")
			require.NotContains(t, s.sent(2), "not found")
			o, err := session.ReadOutcome(s.result.Commit)
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

func TestStep_abandonedEvaluation(t *testing.T) {
	t.Parallel()
	text := llm.Message{Role: llm.Assistant, Content: "Hm."}
	s := evaluating(t, text, text, text)
	err := s.play()
	var rejected *loop.NoActionError
	require.ErrorAs(t, err, &rejected)
	require.NoError(t, step.Abandon(t.Context(), s.ports(s.model), s.spec, s.result, artifact.Error{Type: "NoAction"}))
	var last artifact.LastAction
	s.read("agents/agent_a/last_action.json", &last)
	require.Equal(t, "new_answer", last.Action)
}

// Seed 001: after a restart the reason, the instructions and the earlier answer are shown in the
// next attempt.
func TestStep_previousAttempt(t *testing.T) {
	t.Parallel()
	s := evaluating(t, call("restart_orchestration", map[string]string{"reason": "It has no proof.", "instructions": "Prove it in one page."}))
	require.NoError(t, s.play())

	l := first("agent_b", 2)
	l.After, l.Answers = 1, 1
	l.Previous = &coordination.RejectedAnswer{
		Number: 1, Answer: coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}, Agent: "agent_a", Step: 2,
	}
	s.model = &script{replies: []llm.Message{call("read_file", map[string]string{"path": "peers/agent2/first.txt"}), answer("Proved.")}}
	s.step = s.newStep(l, "run-e")
	require.NoError(t, s.play())
	for _, told := range []string{"It has no proof.", "Prove it in one page.", "Two."} {
		require.Contains(t, s.sent(1), told)
	}
	require.Empty(t, s.result.Commit.SeenSteps, "an answer of an earlier attempt is not one of this")
	var a artifact.Answer
	s.read("agents/agent_b/002/answer.json", &a)
	require.Equal(t, "agent2.2", a.Label, "labels count on")
}

// presenting returns a scene in which agent_a presents agent_b's winning answer.
func presenting(t *testing.T, replies ...llm.Message) *scene {
	t.Helper()
	s := newScene(t, coordination.Updates{}, replies...)
	l := &s.step.Launch
	l.Purpose, l.Offered = coordination.Present, []coordination.Action{coordination.NewAnswer}
	l.Brief = &coordination.Brief{Strategy: "winner_present", Label: "agent2.1", Votes: 2, Voters: 2}
	return s
}

// DESIGN: the commit is the one write that makes an action real. It therefore determines the files
// of a presented answer: those of the winner, unless the presenter has its own.
func TestStep_presentedFiles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change  func(*session.Step)
		replies []llm.Message
		file    string
	}{
		"none of its own": {func(*session.Step) {}, nil, "first.txt"},
		"its own":         {func(*session.Step) {}, []llm.Message{write("final.md", "all of it")}, "final.md"},
		"divided work": {func(m *session.Step) {
			divide(m, "Gather.", "Draw.")
			m.Launch.Brief = &coordination.Brief{}
		}, nil, ""},
		"without votes":            {func(m *session.Step) { m.Launch.Brief.Label = "" }, nil, ""},
		"the winner has no files":  {func(m *session.Step) { m.Launch.Brief.Label = "agent1.1" }, nil, ""},
		"an answer to be voted on": {func(m *session.Step) { m.Launch.Purpose, m.Launch.Brief = coordination.Coordinate, nil }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := presenting(t, append(tt.replies, answer("Two, in short."))...)
			tt.change(&s.step)
			require.NoError(t, s.play())
			if tt.file == "" {
				require.Empty(t, s.result.Commit.Manifest)
				require.Zero(t, s.result.Files)
				return
			}
			require.Equal(t, 1, s.result.Files)
			_, err := s.store.Get(t.Context(), "agents/agent_a/002/workspace/"+tt.file)
			require.NoError(t, err)

			// The evaluation and the next attempt are shown these files.
			final := coordination.Shown{Agent: "agent_a", Number: 1, Label: "agent1.final", Step: 2}
			judge := later("agent_b", 2, 1)
			judge.Purpose, judge.Final, judge.Offered = coordination.Evaluate, &final, []coordination.Action{coordination.Submit, coordination.RestartTeam}
			_, judging, err := s.run(judge, "run-j", call("read_file", map[string]string{"path": "peers/agent1/" + tt.file}),
				call("restart_orchestration", map[string]string{"reason": "It has no proof.", "instructions": "Prove it."}))
			require.NoError(t, err)
			require.Contains(t, judging.requests[0].Messages[1].Content, "agent1.final has 1 file, in peers/agent1/.")

			next := first("agent_b", 2)
			next.After = 2
			next.Previous = &coordination.RejectedAnswer{Number: 1, Answer: final, Agent: "agent_b", Step: 2}
			_, again, err := s.run(next, "run-n", answer("Proved."))
			require.NoError(t, err)
			require.Contains(t, again.requests[0].Messages[1].Content, "The earlier answer has 1 file, in peers/agent1/")
		})
	}
}

// DESIGN: the texts of peers in a prompt are bounded, and read_file reads the rest. This applies to
// answers in the opening and in updates, to the final answer and to that of an earlier attempt.
func TestStep_longAnswers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Two is one and one, said once more.\n", 5000)
	whole := func(file string) llm.Message {
		return call("read_file", map[string]any{"path": file, "offset": 4990})
	}
	b := newBench(t)
	_, _, err := b.run(first("agent_a", 1), "run-a", answer("One."))
	require.NoError(t, err)
	_, _, err = b.run(first("agent_b", 2), "run-b", answer(long+"The end."))
	require.NoError(t, err)
	one := coordination.Shown{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1}
	two := coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}
	const told = "The whole text is in peers/agent2.md."
	read := func(t *testing.T, l coordination.Launch, token string, last llm.Message) {
		t.Helper()
		_, model, err := b.run(l, token, whole("peers/agent2.md"), last)
		require.NoError(t, err)
		require.Contains(t, model.requests[0].Messages[1].Content, told)
		require.NotContains(t, model.requests[0].Messages[1].Content, "The end.")
		require.Contains(t, model.requests[1].Messages[3].Content, "The end.")
		require.NotContains(t, model.requests[0].Messages[1].Content, "agent1.md", "a short answer is shown whole")
	}
	read(t, later("agent_a", 1, 1, one, two), "run-c", vote("agent2", "Long."))

	judge := later("agent_a", 1, 2)
	judge.Purpose, judge.Final, judge.Offered = coordination.Evaluate, &two, []coordination.Action{coordination.Submit, coordination.RestartTeam}
	read(t, judge, "run-j", call("restart_orchestration", map[string]string{"reason": "Long.", "instructions": "Cut it."}))

	next := first("agent_a", 1)
	next.After = 3
	next.Previous = &coordination.RejectedAnswer{Number: 1, Answer: two, Agent: "agent_a", Step: 3}
	read(t, next, "run-n", answer("Short."))

	blind := b.newStep(later("agent_a", 1, 4, one, two), "run-x")
	blind.Files = false
	model := &script{replies: []llm.Message{vote("agent2", "Long.")}}
	spec, err := blind.Spec(t.Context(), b.store)
	require.NoError(t, err)
	_, err = step.Run(t.Context(), b.ports(model), spec)
	require.NoError(t, err)
	require.Contains(t, model.requests[0].Messages[1].Content, "The rest cannot be read.")
	require.NotContains(t, model.requests[0].Messages[1].Content, "peers/")
}

func TestStep_longAnswerArrives(t *testing.T) {
	t.Parallel()
	s := newScene(t, inject(), look(), call("read_file", map[string]any{"path": "peers/agent2.md", "offset": 4990}), vote("agent2", "Long."))
	s.model.during[1] = func() {
		l := later("agent_b", 2, 1, coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1})
		_, _, err := s.run(l, "run-d", answer(strings.Repeat("Two is one and one, said once more.\n", 5000)+"The end."))
		require.NoError(t, err)
		s.bell.ring(func(b *coordination.Ring) {
			b.Answers = []coordination.Shown{{Agent: "agent_b", Number: 2, Label: "agent2.2", Step: 2}}
		})
	}
	require.NoError(t, s.play())
	require.Contains(t, s.sent(2), "The whole text is in peers/agent2.md.")
	require.NotContains(t, s.sent(2), "The end.")
	require.Contains(t, s.sent(3), "The end.")
	require.Equal(t, "agent2.2", func() string { o, _ := session.ReadOutcome(s.result.Commit); return o.TargetLabel }())
}
