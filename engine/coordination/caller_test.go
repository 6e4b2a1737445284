package coordination

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// await ends an agent's latest launch with calls to the caller's tools. Calls with equal names are
// equal.
func (p *player) await(agent string, names ...string) Event {
	id := p.launchOf(agent)
	e := Awaiting{End: End{Launch: id, Step: p.nextStep(id), Usage: llm.Usage{InputTokens: 10, ModelCalls: 1}}, Token: tokenOf(id)}
	for i, name := range names {
		e.Calls = append(e.Calls, Call{ID: fmt.Sprintf("c0_%s_%d", id, i+1), Name: name, Digest: name})
	}
	return e
}

func results(ids ...string) ToolResults {
	var e ToolResults
	for _, id := range ids {
		e.Results = append(e.Results, ToolResult{ID: id, Content: "of " + id})
	}
	return e
}

func openIDs(s *State) []string {
	var ids []string
	for _, c := range s.OpenCalls() {
		ids = append(ids, c.ID)
	}
	return ids
}

// A step that waits for the caller delays the round like a running one. It continues with the
// results, and its usage is counted once.
func TestCaller_stepGoesOnWithTheResults(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a", "b"}})
	require.Empty(t, p.batch(p.await("a", "look", "read")), "agent b still runs")
	require.False(t, p.state.AwaitsCaller())
	require.Equal(t, PhaseInitialAnswers, p.state.View().Phase)

	asked := only[AskCaller](p.batch(p.answer("b")))
	require.Equal(t, []AskCaller{{Seconds: 3600}}, asked)
	require.True(t, p.state.AwaitsCaller())
	view := p.state.View()
	require.Equal(t, PhaseWaitingForTools, view.Phase)
	require.False(t, view.Agents[0].Running)
	require.Len(t, view.Calls, 2)
	require.EqualValues(t, 1, view.Cost.ModelCalls)

	first := p.latest["a"]
	require.NoError(t, p.state.Refuse(results("c0_l1_1")))
	require.Empty(t, launches(p.batch(results("c0_l1_1"))), "the other result is missing")
	require.Equal(t, []string{"c0_l1_2"}, openIDs(p.state))
	again := launches(p.batch(results("c0_l1_2")))
	require.Len(t, again, 1)
	require.Equal(t, tokenOf(first), again[0].ResumeFrom)
	require.True(t, again[0].Answered)
	require.False(t, again[0].Uncounted)
	require.False(t, p.state.Calling)
	require.Equal(t, view.Cost, p.state.View().Reported)

	require.NoError(t, p.state.Refuse(results("c0_l1_2")), "a repeated result")
	require.Empty(t, p.batch(results("c0_l1_2")))
	p.batch(p.answer("a"))
	require.Equal(t, 1, p.state.Agents[0].Steps, "the wait counts nothing")
	require.Equal(t, Consensus, decision(t, p.batch(p.vote("a", "a"), p.vote("b", "a"))).Status)
}

// A caller that repeats its results did not receive the reply to them, so the usage since then is
// still to be reported.
func TestCaller_repeatedResultsKeepTheUsage(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a"}})
	p.batch(p.await("a", "look"))
	p.batch(results("c0_l1_1"))
	reported := p.state.View().Reported
	require.EqualValues(t, 1, reported.ModelCalls)
	p.batch(p.await("a", "read"))
	require.NotEqual(t, reported, p.state.View().Cost)
	p.batch(results("c0_l1_1"))
	require.Equal(t, reported, p.state.View().Reported)
	require.True(t, p.state.AwaitsCaller(), "the second call still waits")
	p.batch(results(openIDs(p.state)...))
	require.EqualValues(t, 2, p.state.View().Reported.ModelCalls)
}

// Equal calls that are waiting at the same time are sent to the caller as one, and all get its
// result.
func TestCaller_equalCallsAreOne(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a", "b"}})
	p.batch(p.await("a", "look"), p.await("b", "read", "look"))
	require.Equal(t, []string{"c0_l1_1", "c0_l2_1"}, openIDs(p.state))
	require.Equal(t, []ToolResult{{"c0_l1_1", "of c0_l2_2"}, {"c0_l2_2", "of c0_l2_2"}}, p.state.Answered(results("c0_l2_2")))
	require.Len(t, launches(p.batch(results("c0_l1_1", "c0_l2_1"))), 2)
}

func TestCaller_refuses(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a"}})
	require.ErrorContains(t, p.state.Refuse(results("c0_l1_1")), "no call waits for a result")
	p.batch(p.await("a", "look"))
	require.ErrorContains(t, p.state.Refuse(ToolResults{}), "results is empty")
	for _, id := range []string{"c0_l1_2", "c0_l9_1", "call_1", ""} {
		require.ErrorContains(t, p.state.Refuse(results(id)), "these calls wait for a result: c0_l1_1", id)
	}
}

// If the caller does not return, the session fails. After it is reopened it continues where it was.
func TestCaller_doesNotReturn(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a"}, CallerSeconds: 60})
	require.Equal(t, []AskCaller{{Seconds: 60}}, only[AskCaller](p.batch(p.await("a", "look"))))
	require.Empty(t, only[Cancel](p.batch(Pause{})), "no activity runs")
	require.False(t, p.state.Calling, "the time of a paused session stands still")
	require.Len(t, only[AskCaller](p.batch(Resume{})), 1)
	commands := p.batch(CallerGone{})
	require.Empty(t, only[Cancel](commands), "no activity runs")
	d := decision(t, commands)
	require.Equal(t, FailedAll, d.Status)
	require.True(t, d.NoCaller())

	require.NoError(t, p.state.Refuse(Reopened{Run: "run"}))
	resumed := launches(p.batch(Reopened{Run: "run"}))
	require.Len(t, resumed, 1)
	require.Equal(t, tokenOf("l1"), resumed[0].ResumeFrom)
	require.False(t, resumed[0].Answered, "the step finds out that results are missing")
	require.ErrorIs(t, p.state.Refuse(results("c0_l1_1")), ErrNotWaiting, "it would be dropped")
	require.Len(t, only[AskCaller](p.batch(p.await("a", "look"))), 1)
	require.NoError(t, p.state.Refuse(results("c0_l1_1")))
	again := openIDs(p.state)
	require.NoError(t, p.state.Refuse(results(again...)))
	resumed = launches(p.batch(results(again...)))
	require.Len(t, resumed, 1)
	require.True(t, resumed[0].Answered)
	require.False(t, resumed[0].Owed)
}

// The usage of a step that waits is counted before the run is terminated.
func TestCaller_runIsTerminated(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a", "b"}})
	p.batch(p.await("a", "look"))
	p.state.goOn(Reopened{Run: "run"})
	require.Equal(t, &resumableStep{Launch: p.state.Agents[0].Rest.Launch, Token: tokenOf("l1")}, p.state.Agents[0].Rest)
	require.True(t, p.state.Agents[0].Rest.Launch.Owed)
	require.True(t, p.state.Agents[1].Rest.Uncounted)
}

// A decision by people or at the end of the time does not wait for the caller.
func TestCaller_isNotWaitedForByADecision(t *testing.T) {
	t.Parallel()
	for _, event := range []Event{Finish{}, TimeUp{}, CancelRequested{}} {
		p := start(Config{Agents: []string{"a", "b"}})
		p.batch(p.await("a", "look"), p.answer("b"))
		commands := p.batch(event)
		require.Empty(t, only[Cancel](commands))
		require.NotEqual(t, FailedAll, decision(t, commands).Status)
		require.False(t, p.state.AwaitsCaller())
	}
	p := start(Config{Agents: []string{"a"}})
	p.batch(p.await("a", "look"))
	p.batch(CallerGone{}, CallerGone{})
	p.batch(CallerGone{})
	require.True(t, p.state.Done())
}

// ask ends an agent's latest launch with a question to a person. Questions with equal texts are equal.
func (p *player) ask(agent string, kind AskKind, text string, options ...string) Event {
	id := p.launchOf(agent)
	return Awaiting{End: End{Launch: id, Step: p.nextStep(id)}, Token: tokenOf(id), Calls: []Call{{
		ID: "q0_" + string(id) + "_1", Name: "run_command", Digest: text, Ask: &Ask{Kind: kind, Text: text, Options: options},
	}}}
}

func replied(id, text string) Replied { return Replied{Question: id, Text: text} }

func kindsOf(s *State) (kinds []string) {
	for _, e := range s.Timeline() {
		if e.Question != "" {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// A step that asks waits without a launch; it goes on with the reply, which is handed out once.
func TestPerson_stepGoesOnWithTheReply(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a", "b"}})
	p.batch(p.ask("a", AskQuestion, "Which?", "this", "that"))
	require.Equal(t, PhaseInitialAnswers, p.state.View().Phase, "agent b still runs")
	require.Empty(t, only[AskCaller](p.batch(p.answer("b"))), "the caller's time does not begin")
	view := p.state.View()
	require.Equal(t, PhaseWaitingForPerson, view.Phase)
	require.False(t, view.Agents[0].Running)
	require.Equal(t, AsksPerson, view.Agents[0].Doing.Kind)
	require.Len(t, view.Questions, 1)
	require.Equal(t, "q0_l1_1", view.Questions[0].QuestionID)
	require.Empty(t, view.Calls)

	first := p.latest["a"]
	require.ErrorContains(t, p.state.Refuse(replied("q0_l9_1", "x")), "it has: q0_l1_1")
	require.ErrorContains(t, p.state.Refuse(replied("q0_l1_1", " ")), "the reply is empty")
	require.ErrorContains(t, p.state.Refuse(Replied{Question: "q0_l1_1", Option: 3}), "2 options")
	require.ErrorContains(t, p.state.Refuse(Replied{Question: "q0_l1_1", Allow: new(bool)}), "not an approval")
	require.ErrorContains(t, p.state.Refuse(results("q0_l1_1")), "has not made the call", "a result of the caller is no reply")
	resumed := theLaunch(t, p.batch(Replied{Question: "q0_l1_1", Option: 2, By: "ann"}))
	require.True(t, resumed.Answered)
	require.Equal(t, tokenOf(first), resumed.ResumeFrom)
	require.Equal(t, []Reply{{Question: "q0_l1_1", Text: "that", By: "ann"}}, p.state.TakeReplies())
	require.Empty(t, p.state.TakeReplies())
	require.ErrorContains(t, p.state.Refuse(replied("q0_l1_1", "this")), `is closed: "that", by ann`)
	require.Equal(t, []string{entryAsked, EntryReplied}, kindsOf(p.state))
}

// Equal open questions are one; approvals never are, and count towards no limit.
func TestPerson_limit(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a", "b", "c", "d"}, MaxQuestions: 1})
	p.batch(p.ask("a", AskQuestion, "Which?"), p.ask("b", AskQuestion, "Which?"), p.ask("c", AskApproval, "May I?"))
	require.Len(t, p.state.OpenQuestions(), 2)
	require.Len(t, launches(p.batch(p.ask("d", AskQuestion, "What else?"))), 1, "the question beyond the limit is answered at once")
	require.Contains(t, p.state.TakeReplies()[0].Text, "its limit (orchestrator.max_questions)")
	require.Len(t, launches(p.batch(replied("q0_l2_1", "this"))), 2, "both agents have the reply")
	require.Len(t, p.state.TakeReplies(), 2)
	require.ErrorContains(t, p.state.Refuse(replied("q0_l3_1", "yes")), "approve or deny it")
	allow := true
	require.Len(t, launches(p.batch(Replied{Question: "q0_l3_1", Allow: &allow})), 1)
	require.Equal(t, []Reply{{Question: "q0_l3_1", Allow: &allow, By: "a person"}}, p.state.TakeReplies())
	require.ErrorContains(t, p.state.Refuse(Replied{Question: "q0_l3_1", Allow: new(bool)}), "approved by a person")
}

// A question that nobody answers in time parks the session until somebody does, or is closed.
func TestPerson_time(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a", "b"}, AskSeconds: 60})
	p.batch(p.ask("a", AskQuestion, "Which?"), p.answer("b"))
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p.state.Stamp(began)
	id, at := p.state.NextLapse()
	require.Equal(t, "q0_l1_1", id)
	require.Equal(t, began.Add(time.Minute), at)
	p.batch(Lapsed{Question: id})
	require.Contains(t, *p.state.View().Parked, "nobody has answered q0_l1_1 in time, Which?")
	id, _ = p.state.NextLapse()
	require.Empty(t, id)
	require.Len(t, launches(p.batch(replied("q0_l1_1", "this"))), 1)
	require.Nil(t, p.state.View().Parked)

	p = start(Config{Agents: []string{"a", "b"}, DenyLate: true})
	p.batch(p.ask("a", AskApproval, "May I?"), p.answer("b"))
	require.Len(t, launches(p.batch(Lapsed{Question: "q0_l1_1"})), 1)
	require.Equal(t, "denied by nobody", p.state.TakeReplies()[0].String())
	p.batch(Lapsed{Question: "q0_l1_1"})
	require.Equal(t, []string{entryAsked, EntryDenied}, kindsOf(p.state), "a late end of the time changes nothing")
}

// The end of a session withdraws its questions; a session that goes on asks them again and does not count twice.
func TestPerson_end(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a", "b"}, MaxQuestions: 1})
	p.batch(p.ask("a", AskQuestion, "Which?"), p.answer("b"))
	p.batch(CancelRequested{})
	require.Equal(t, []string{entryAsked, EntryWithdrawn}, kindsOf(p.state))
	require.ErrorContains(t, p.state.Refuse(replied("q0_l1_1", "x")), "its questions are withdrawn")
	p.step(Reopened{Run: "run-2"})
	again := theLaunch(t, p.drain())
	require.True(t, again.Owed)
	p.batch(Awaiting{End: End{Launch: again.ID, Step: 2}, Token: "t", Calls: []Call{{ID: "q0_l1_1", Digest: "Which?", Ask: &Ask{Kind: AskQuestion, Text: "Which?"}}}})
	require.Empty(t, p.state.TakeReplies(), "it is the same question")
	require.NoError(t, p.state.Refuse(replied("q0_l1_1", "x")))

	p = answered(Config{Agents: []string{"a", "b", "c"}, Quorum: true})
	p.batch(p.vote("a", "a"), p.vote("b", "a"))
	p.batch(p.ask("c", AskUnknown, "It may have happened", "run it", "skip it", "look"))
	require.NotContains(t, kindsOf(p.state), EntryReplied)
}
