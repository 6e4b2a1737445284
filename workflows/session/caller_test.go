package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/loop"
	"conclave/engine/session"
	"conclave/workflows"
)

// awaits ends a step with a call of a caller's tool.
func awaits(id string) outcome {
	return gives(acts.StepResult{Ended: loop.EndAwaiting, Calls: []coordination.Call{{ID: id, Name: "look", Digest: id}}, Outcome: session.Outcome{}})
}

func returned(id, content string) workflows.Request {
	return workflows.Request{Results: []coordination.ToolResult{{ID: id, Content: content}}}
}

// The session waits for its caller without a running activity and without spending its time,
// records the results, and goes on from the step's token.
func TestCaller(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, map[string][]outcome{
		"agent_a": {awaits("c0_l1_1"), answers(), votesFor("agent_a", 1, 0)},
	})
	const late = sessionTime * 3 / 8 // two such waits are most of the session's time
	p.at(late, func() {
		state := p.state(t)
		require.Equal(t, coordination.PhaseWaitingForTools, state.Phase)
		require.Equal(t, "c0_l1_1", state.Calls[0].ID)
		require.Contains(t, p.details(t), "waiting for the caller's tools")
		p.isRefused(t, workflows.ToolResultsSignal, returned("c0_l7_1", "?"), "these calls wait for a result: c0_l1_1")
		p.isRefused(t, workflows.ToolResultsSignal, returned("c0_l1_1", strings.Repeat("x", 600<<10)), "at most 524288 are accepted")
		p.isRefused(t, workflows.ToolResultsSignal, workflows.Request{Text: "?"}, "results")
		p.asks(t, workflows.ToolResultsSignal, returned("c0_l1_1", "a result"), func(s acts.State) { require.Empty(t, s.Calls) })
		p.asks(t, workflows.ToolResultsSignal, returned("c0_l1_1", "again"), nil)
	})
	result := p.run(t)
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "default-test-run-id-l1", p.launched[1].ResumeFrom)
	require.EqualValues(t, 3, result.Cost.ModelCalls)
	require.EqualValues(t, 1, result.Reported.ModelCalls)
	var recorded []coordination.ToolResult
	for _, r := range p.records {
		recorded = append(recorded, r.Results...)
	}
	require.Equal(t, []coordination.ToolResult{{ID: "c0_l1_1", Content: "a result"}}, recorded, "the first result counts")
}

// A caller that never returns ends the session after its time.
func TestCaller_doesNotReturn(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{CallerSeconds: 600}, map[string][]outcome{"agent_a": {awaits("c0_l1_1")}})
	result := p.run(t)
	require.Equal(t, "failed", result.Status)
	require.Equal(t, "CallerGone", result.Error.Type)
	require.Contains(t, result.Error.Message, "timeout_settings.client_tools_timeout_seconds")
	require.NotNil(t, p.recorded().Saved, "it can be reopened")
}

// asksPerson ends a step with a question to a person.
func asksPerson(id string, kind coordination.AskKind, text string) outcome {
	return gives(acts.StepResult{Ended: loop.EndAwaiting, Calls: []coordination.Call{{
		ID: id, Name: "send", Arguments: `{"to":"ann"}`, Digest: id, Ask: &coordination.Ask{Kind: kind, Text: text, Options: []string{"this", "that"}},
	}}})
}

// A question stops the session's clock, stands in the memo and the search attribute, and is answered once; the
// reply is on record before the update is answered.
func TestPerson(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{AskSeconds: 4 * sessionTime}, map[string][]outcome{
		"agent_a": {asksPerson("q0_l1_1", coordination.AskQuestion, "Which?"), asksPerson("q0_l2_1", coordination.AskApproval, "May I?"), answers(), votesFor("agent_a", 1, 0)},
	})
	p.prepared.Attributes = []string{workflows.AttributeStatus}
	allow := true
	p.at(2*sessionTime, func() {
		state := p.state(t)
		require.Equal(t, coordination.PhaseWaitingForPerson, state.Phase)
		require.Equal(t, coordination.AsksPerson, state.Agents[0].Doing.Kind)
		require.Equal(t, "s1", state.Questions[0].ID)
		require.Equal(t, workflows.Waiting, p.log.memo(workflows.MemoStatus))
		require.Contains(t, p.log.memo(workflows.MemoQuestions), `"question_id":"q0_l1_1"`)
		require.Contains(t, p.details(t), "`conclave reply s1 q0_l1_1`")
		p.isRefused(t, workflows.ReplySignal, workflows.Request{Question: "q0_l9_1", Text: "x"}, "it has: q0_l1_1")
		p.isRefused(t, workflows.ApproveSignal, workflows.Request{Question: "q0_l1_1", Allow: &allow}, "not an approval")
		p.isRefused(t, workflows.ReplySignal, workflows.Request{Question: "q0_l1_1", Allow: &allow}, "unknown key")
		p.asks(t, workflows.ReplySignal, workflows.Request{Question: "q0_l1_1", Option: 2, By: "ann"}, func(s acts.State) { require.Empty(t, s.Questions) })
		p.isRefused(t, workflows.ReplySignal, workflows.Request{Question: "q0_l1_1", Text: "this"}, `closed: "that", by ann`)
	})
	p.at(2*sessionTime+60, func() {
		p.isRefused(t, workflows.ApproveSignal, workflows.Request{Question: "q0_l2_1"}, "allow is missing")
		p.SignalWorkflow(workflows.ApproveSignal, workflows.Request{Question: "q0_l2_1", Allow: &allow, Note: "go"})
		p.SignalWorkflow(workflows.ApproveSignal, workflows.Request{Question: "q0_l2_1", Allow: new(bool)})
	})
	result := p.run(t)
	require.Equal(t, "consensus", result.Status)
	var replies []coordination.Reply
	for _, r := range p.records {
		replies = append(replies, r.Replies...)
	}
	require.Equal(t, []coordination.Reply{{Question: "q0_l1_1", Text: "that", By: "ann"}, {Question: "q0_l2_1", Allow: &allow, Text: "go", By: "a person"}}, replies)
	require.Equal(t, "default-test-run-id-l2", p.launched[2].ResumeFrom)
	require.Empty(t, p.log.memo(workflows.MemoQuestions))
	require.Contains(t, p.log.timers, "until a person has replied")
}

// Nobody replies: the session parks and stays open, or goes on without.
func TestPerson_nobodyReplies(t *testing.T) {
	t.Parallel()
	script := func() map[string][]outcome {
		return map[string][]outcome{"agent_a": {asksPerson("q0_l1_1", coordination.AskQuestion, "Which?"), answers(), votesFor("agent_a", 1, 0)}}
	}
	p := newPlay(coordination.Config{AskSeconds: 600}, script())
	told := p.tell(activities.Receiver{URLEnv: "ALL_URL"})
	p.at(10*sessionTime, func() {
		require.Contains(t, *p.state(t).Parked, "nobody has answered q0_l1_1 in time")
		require.Equal(t, workflows.Parked, p.log.memo(workflows.MemoStatus))
		p.asks(t, workflows.ReplySignal, workflows.Request{Question: "q0_l1_1", Text: "late"}, nil)
	})
	require.Equal(t, "consensus", p.run(t).Status)
	var types []string
	for _, d := range *told {
		types = append(types, d.Notice.Type+": "+d.Notice.Question)
	}
	require.Equal(t, []string{"asked: Which?", "parked: Who?", "decided: Who?"}, types)

	p = newPlay(coordination.Config{AskSeconds: 600, DenyLate: true}, script())
	require.Equal(t, "consensus", p.run(t).Status)
	require.Contains(t, p.log.timers, "until a person has replied")
}
