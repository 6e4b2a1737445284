package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

func tells(n int) llm.Message { return llm.Message{Role: llm.User, Content: newsOf(n)} }

// Seed 003, case 1: an agent in the middle of a tool call gets the update at a safe
// point, after the tool's result; case 2: rapid updates are batched into one.
func TestUpdates_safePoints(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), &team{news: []int{0, 4, 6, 6}},
		says("", call("a", "read_file", "{}"), call("b", "write_file", "{}")),
		says("", call("c", "read_file", "{}")),
		says("Two."),
		says("", call("d", "new_answer", twoMoons)))
	require.NoError(t, r.err)
	require.Equal(t, []loop.EntryKind{
		loop.Updated, loop.Reply, loop.Results,
		loop.Reply, loop.Results,
		loop.Updated, loop.Reply, loop.Rejection,
		loop.Updated, loop.Reply, loop.Results,
	}, r.kinds())
	requireAnswered(t, r.conv.Messages)
	for i, last := range map[int]int{0: 1, 2: 2, 3: 4} {
		messages := r.model.requests[i].Messages
		require.Equal(t, tells(last), messages[len(messages)-1], "the model sees it at once")
	}
	require.JSONEq(t, `{"shown": 2}`, string(r.journal.entries[8].Note), "the note is in the entry of its ruling")
	require.Equal(t, []llm.Message{tells(3), tells(4)}, r.journal.entries[8].Messages)
}

// The offered tools may change with the entries learned.
func TestOffer_changes(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), &team{news: []int{2}},
		says("", call("a", "vote", `{"agent_id": "agent1"}`)),
		says("", call("b", "vote", `{"agent_id": "agent1"}`)))
	require.NoError(t, r.err)
	require.Equal(t, notOffered, r.conv.Rejected, "the first vote was for nobody")
	require.Len(t, r.model.requests[0].Tools, 4)
	require.Len(t, r.model.requests[1].Tools, 5)
}

// The rules get the note of a ruling back in the entry for its outcome.
func TestJudge_note(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), &team{},
		says("", call("a", "draft", "{}")),
		says("", call("b", "draft", "{}"), call("c", "read_file", "{}")),
		says("", call("d", "draft", "{}")),
		says("", call("e", "new_answer", twoMoons)))
	require.NoError(t, r.err)
	require.Equal(t, "Draft 2.", r.results()["b"])
	require.Equal(t, "Refused: "+notOffered, r.results()["d"], "a third draft is one too many")
	require.JSONEq(t, `{"drafts": 1}`, string(r.journal.entries[3].Note))
	require.Contains(t, string(r.action.Payload), `"drafts":2`)
}

// Seed 003, case 3: an agent that is about to answer gets the update before it submits,
// and can revise its decision.
func TestConfirm_withdrawsAction(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), &team{news: []int{1, 1}},
		says("", call("a", "write_file", "{}"), call("b", "draft", "{}"), call("c", "new_answer", twoMoons), call("d", "read_file", "{}")),
		says("", call("e", "vote", `{"agent_id": "agent2"}`)))
	require.NoError(t, r.err)
	require.Equal(t, "vote", r.action.Kind)
	require.Equal(t, []loop.EntryKind{loop.Reply, loop.Updated, loop.Reply, loop.Results}, r.kinds())
	turned := r.journal.entries[1]
	require.Equal(t, []llm.Message{
		call("a", "write_file", "").Result("write_file has run"),
		call("b", "draft", "").Result("Not counted: there is news."),
		call("c", "new_answer", "").Result("Not counted: there is news."),
		call("d", "read_file", "").Result("read_file has run"),
		tells(1), tells(2),
	}, turned.Messages, "results first, in order, then the news")
	require.Nil(t, turned.Action)
	require.Empty(t, turned.Reason)
	require.JSONEq(t, `{"shown": 2}`, string(turned.Note), "of the judgement nothing stays")
	require.Contains(t, string(r.action.Payload), `"drafts":0`)
	require.Zero(t, r.conv.Rejections, "it is no rejection")
	require.Equal(t, []string{"write_file", "read_file"}, r.tools.ran)
	require.Len(t, r.rules.asked, 2, "the second action is asked about, too")
	requireAnswered(t, r.conv.Messages)
}

// reluctant are rules that refuse an action for each of their updates.
type reluctant struct {
	loop.Rules
	updates []loop.Update
	told    string
}

func (r *reluctant) Judge(reply llm.Message) loop.Ruling {
	v := r.Rules.Judge(reply)
	v.Withdrawn = r.told
	return v
}

func (r *reluctant) Confirm(context.Context, loop.Action) (loop.Update, error) {
	if len(r.updates) == 0 {
		return loop.Update{}, nil
	}
	u := r.updates[0]
	r.updates = r.updates[1:]
	return u, nil
}

func TestConfirm_withdrawsText(t *testing.T) {
	t.Parallel()
	wait := loop.Update{Messages: []llm.Message{tells(1)}}
	t.Run("the news answers it", func(t *testing.T) {
		t.Parallel()
		r := play(t, t.Context(), &reluctant{Rules: pipeline{}, updates: []loop.Update{wait}}, says("One."), says("Two."))
		require.NoError(t, r.err)
		require.Equal(t, loop.Action{Kind: "text", Payload: raw("Two.")}, r.action)
		require.Equal(t, []llm.Message{tells(1)}, r.journal.entries[1].Messages)
	})
	t.Run("after its message", func(t *testing.T) {
		t.Parallel()
		r := play(t, t.Context(), &reluctant{Rules: pipeline{}, updates: []loop.Update{wait}, told: "Not yet."}, says("One."), says("Two."))
		require.NoError(t, r.err)
		require.Equal(t, []llm.Message{{Role: llm.User, Content: "Not yet."}, tells(1)}, r.journal.entries[1].Messages)
	})
	t.Run("a note alone answers nothing", func(t *testing.T) {
		t.Parallel()
		r := play(t, t.Context(), &reluctant{Rules: pipeline{}, updates: []loop.Update{{Note: raw(1)}}}, says("One."), says("Two."))
		require.ErrorContains(t, r.err, "left a reply without tool calls unanswered")
		require.Len(t, r.model.requests, 1)
	})
	t.Run("a note alone withdraws an action with results", func(t *testing.T) {
		t.Parallel()
		r := play(t, t.Context(), &reluctant{Rules: pipeline{}, updates: []loop.Update{{Note: raw(1)}}, told: "Not yet."},
			says("", call("a", "jump_to_step", "lint")), says("Two."))
		require.NoError(t, r.err)
		require.Equal(t, "text", r.action.Kind)
		require.Equal(t, "Not yet.", r.results()["a"])
	})
}

// Rules that never confirm an action are bounded like a model that never decides.
func TestConfirm_bounded(t *testing.T) {
	t.Parallel()
	rules := &reluctant{Rules: &team{}}
	var replies []llm.Reply
	for range maxModelCalls + 2 {
		rules.updates = append(rules.updates, loop.Update{Messages: []llm.Message{tells(1)}})
		replies = append(replies, says("", call("a", "new_answer", twoMoons)))
	}
	r := play(t, t.Context(), rules, replies...)
	var calls *loop.NoActionError
	require.ErrorAs(t, r.err, &calls)
	require.Len(t, r.model.requests, maxModelCalls)
	require.Zero(t, r.conv.Rejections)
}

func TestConfirm_acceptedActionsOnly(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), &team{},
		says("Two."),
		says("", call("a", "read_file", "{}")),
		says("", call("b", "new_answer", "{}")),
		says("", call("c", "new_answer", twoMoons)))
	require.NoError(t, r.err)
	require.Equal(t, []loop.Action{r.action}, r.rules.asked)
	require.Equal(t, 4, r.rules.judged)
}

// Updates and Confirm may end the step.
func TestRun_endsItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at   int
		ends string
		want []loop.EntryKind
	}{
		"before the first call": {0, loop.EndAllowance, nil},
		"at a safe point":       {2, loop.EndRestart, []loop.EntryKind{loop.Reply, loop.Results}},
		"instead of its action": {3, loop.EndRestart, []loop.EntryKind{loop.Reply, loop.Results, loop.Reply}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ends := &loop.EndedError{Why: c.ends}
			r := play(t, t.Context(), &failing{Rules: &team{}, at: c.at, err: ends},
				says("", call("a", "read_file", "{}")), says("", call("b", "new_answer", twoMoons)))
			require.Same(t, ends, r.err, "the error comes as it is")
			require.Equal(t, c.want, r.kinds())
			require.Zero(t, r.action)
			require.EqualError(t, r.err, "the step ended itself without an action: "+c.ends)
		})
	}
}

// failing are rules that fail at one of a team's moments.
type failing struct {
	loop.Rules
	at  int
	err error

	replies int
}

func (f *failing) Learn(ctx context.Context, e loop.Entry) error {
	if e.Kind == loop.Reply {
		f.replies++
	}
	return f.Rules.Learn(ctx, e)
}

func (f *failing) Updates(ctx context.Context) (loop.Update, error) {
	if 2*f.replies == f.at {
		return loop.Update{}, f.err
	}
	return f.Rules.Updates(ctx)
}

func (f *failing) Confirm(ctx context.Context, a loop.Action) (loop.Update, error) {
	if 2*f.replies-1 == f.at {
		return loop.Update{}, f.err
	}
	return f.Rules.Confirm(ctx, a)
}

func TestUpdates_fails(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), &failing{Rules: &team{}, err: errDisk}, says("Two."))
	require.ErrorIs(t, r.err, errDisk)
	require.Empty(t, r.model.requests)
}

// forgetful are rules that cannot learn.
type forgetful struct {
	loop.Rules
	kind loop.EntryKind
}

func (f forgetful) Learn(ctx context.Context, e loop.Entry) error {
	if e.Kind == f.kind {
		return errDisk
	}
	return f.Rules.Learn(ctx, e)
}

func TestLearn_fails(t *testing.T) {
	t.Parallel()
	for _, kind := range []loop.EntryKind{loop.Updated, loop.Reply, loop.Results} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := play(t, t.Context(), forgetful{Rules: &team{news: []int{0}}, kind: kind}, says("", call("a", "new_answer", twoMoons)))
			require.ErrorIs(t, r.err, errDisk)
			require.ErrorContains(t, r.err, "learn the "+string(kind))
			require.Equal(t, kind, r.journal.entries[len(r.journal.entries)-1].Kind, "it was journaled, and nothing after it")
			require.Zero(t, r.action)
		})
	}
}

// The seconds of an entry include the model and the tools, but not the rules and the wait for a
// turn.
func TestRun_seconds(t *testing.T) {
	t.Parallel()
	late := says("", call("e", "new_answer", twoMoons))
	late.Waited = 1431 * time.Millisecond
	r := play(t, t.Context(), &team{news: []int{0, 3}},
		says("", call("a", "read_file", "{}"), call("b", "write_file", "{}")),
		says("", call("c", "write_file", "{}"), call("d", "new_answer", twoMoons)),
		says("Two."), late)
	require.NoError(t, r.err)
	var seconds []float64
	for _, e := range r.journal.entries {
		seconds = append(seconds, e.Seconds)
	}
	require.Equal(t, []float64{0, 1.5, 0.5, 1.5, 0.25, 1.5, 0, 0.069, 0}, seconds)
	require.Equal(t, 5319*time.Millisecond, r.conv.Worked)

	conv := &loop.Conversation{}
	conv.Add(opening)
	_, err := loop.Loop{Model: &script{replies: []llm.Reply{says("Two.")}}, Tools: &bench{}, Journal: (&memory{failAt: -1}).Append}.
		Run(t.Context(), conv, pipeline{})
	require.NoError(t, err)
	require.Zero(t, conv.Worked, "without a clock nothing is measured")
}

// spoiled is a model whose replies are paid for but unusable.
type spoiled struct {
	clock *clock
	err   error
}

func (s spoiled) Generate(context.Context, llm.Request) (llm.Reply, error) {
	s.clock.passes(thinking)
	return llm.Reply{Usage: llm.Usage{InputTokens: 7, ModelCalls: 1}}, s.err
}

func TestWastedReplies(t *testing.T) {
	t.Parallel()
	broken := errors.New("the reply makes no sense")
	now, journal := &clock{}, &memory{failAt: -1}
	conv, rules := &loop.Conversation{}, &watched{Rules: &team{}, t: t}
	conv.Add(opening)
	_, err := loop.Loop{Model: spoiled{now, broken}, Tools: &bench{}, Journal: journal.Append, Now: now.Now}.Run(t.Context(), conv, rules)
	require.ErrorIs(t, err, broken)
	require.Equal(t, []loop.Entry{{Kind: loop.Wasted, Usage: &llm.Usage{InputTokens: 7, ModelCalls: 1}, Seconds: 1.5}}, journal.entries)
	require.Equal(t, journal.entries, rules.learned)
	require.Equal(t, thinking, conv.Worked)
}

// hasty are rules that accept an action but then reject it.
type hasty struct{ pipeline }

func (hasty) Judge(reply llm.Message) loop.Ruling {
	v := pipeline{}.Judge(reply)
	if reply.Content == "One." {
		v.Rejected, v.Say = "hasty", "Think."
	}
	return v
}

func TestARejectedReplyIsNoAction(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), hasty{}, says("One."), says("Two."))
	require.NoError(t, r.err)
	require.Equal(t, loop.Action{Kind: "text", Payload: raw("Two.")}, r.action)
	require.Equal(t, 1, r.conv.Rejections)
	require.Len(t, r.rules.asked, 1)
}

// overruling are rules whose Confirm overrules the acceptance of an action.
type overruling struct {
	team
	by []loop.Ruling
}

func (o *overruling) Confirm(context.Context, loop.Action) (loop.Update, error) {
	next := o.by[0]
	o.by = o.by[1:]
	return loop.Update{Ruling: &next}, nil
}

// Confirm may reject an accepted action, which then counts as a rejected reply, or replace it by
// another action.
func TestConfirm_overrules(t *testing.T) {
	t.Parallel()
	vote := loop.Action{Kind: "vote", Payload: json.RawMessage(`{"agent_id":"agent1"}`)}
	rules := &overruling{by: []loop.Ruling{
		{Rejected: "answer_duplicate", Say: "It is there already.", Note: json.RawMessage(`{"drafts":1}`)},
		{Action: &vote, Say: "It counts as a vote."},
	}}
	r := play(t, t.Context(), rules,
		says("", call("a", "write_file", "{}"), call("b", "new_answer", twoMoons)),
		says("", call("c", "new_answer", twoMoons)))
	require.NoError(t, r.err)
	require.Equal(t, vote, r.action)
	require.Equal(t, []loop.EntryKind{loop.Reply, loop.Rejection, loop.Reply, loop.Results}, r.kinds())
	require.Equal(t, map[string]string{"a": "write_file has run", "b": "It is there already.", "c": "It counts as a vote."}, r.results())
	require.JSONEq(t, `{"drafts": 1}`, string(r.journal.entries[1].Note))
	require.Equal(t, 1, r.conv.Rejections)
	require.Equal(t, "answer_duplicate", r.conv.Rejected)
}
