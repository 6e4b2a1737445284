package loop_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// The limits of a step according to the package documentation.
const (
	maxRejections = 3
	maxModelCalls = 200
)

const twoMoons = `{"content": "Phobos and Deimos."}`

func TestRun_member(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), &team{news: []int{0}},
		says("I'd say two."),
		says("", call("a", "read_file", "{}"), call("b", "vote", "{}")),
		says("", call("c", "read_file", "{}")),
		says("", call("d", "vote", `{"agent_id": "agent1"}`)),
	)
	require.NoError(t, r.err)
	require.Equal(t, "vote", r.action.Kind)
	require.JSONEq(t, `{"with": "{\"agent_id\": \"agent1\"}", "drafts": 0, "shown": 1}`, string(r.action.Payload))
	require.Equal(t, []string{"read_file"}, r.tools.ran, "the tools of a refused reply are not run")
	require.Equal(t, []loop.EntryKind{
		loop.Updated, loop.Reply, loop.Rejection, loop.Reply, loop.Rejection, loop.Reply, loop.Results, loop.Reply, loop.Results,
	}, r.kinds())
	require.Equal(t, noToolCalls, r.journal.entries[2].Reason)
	require.Equal(t, llm.User, r.journal.entries[2].Messages[0].Role, "text is answered by a user message")
	require.Len(t, r.journal.entries[4].Messages, 2, "tool calls are answered by their results alone")
	require.Equal(t, invalid, r.journal.entries[4].Reason)
	require.Equal(t, "Counted.", r.results()["d"])
	requireAnswered(t, r.conv.Messages)
}

func TestRun_pipeline(t *testing.T) {
	t.Parallel()
	t.Run("a control action lets the ordinary tools of its reply run", func(t *testing.T) {
		t.Parallel()
		r := play(t, t.Context(), pipeline{},
			says("", call("a", "write_file", ""), call("b", "jump_to_step", "lint"), call("c", "read_file", "")))
		require.NoError(t, r.err)
		require.Equal(t, loop.Action{Kind: "jump_to_step", Payload: raw("lint")}, r.action)
		require.Equal(t, []string{"write_file", "read_file"}, r.tools.ran)
		require.Equal(t, map[string]string{"a": "write_file has run", "b": "On the way.", "c": "read_file has run"}, r.results())
		requireAnswered(t, r.conv.Messages)
	})
	t.Run("of two control actions neither is taken", func(t *testing.T) {
		t.Parallel()
		r := play(t, t.Context(), pipeline{},
			says("", call("a", "call_step", "lint"), call("b", "write_file", ""), call("c", "jump_to_step", "export")),
			says("All done."))
		require.NoError(t, r.err)
		require.Equal(t, loop.Action{Kind: "text", Payload: raw("All done.")}, r.action)
		require.Equal(t, []string{"write_file"}, r.tools.ran)
		require.Equal(t, r.results()["a"], r.results()["c"])
		require.Zero(t, r.conv.Rejections)
	})
	t.Run("text can be an action", func(t *testing.T) {
		t.Parallel()
		r := play(t, t.Context(), pipeline{}, says("All done."))
		require.NoError(t, r.err)
		require.Equal(t, loop.Action{Kind: "text", Payload: raw("All done.")}, r.action)
		require.Equal(t, []loop.EntryKind{loop.Reply, loop.Results}, r.kinds(), "also an action that needs no answer is on record")
		require.Equal(t, r.action, *r.journal.entries[1].Action)
	})
}

func TestRun_scenario(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), scenario{},
		says("It works."),
		says("", call("a", "write_file", ""), call("b", "report_result", "great")),
		says("", call("c", "write_file", ""), call("d", "report_result", "pass")))
	require.NoError(t, r.err)
	require.Equal(t, loop.Action{Kind: "report", Payload: raw("pass")}, r.action)
	require.Equal(t, []string{"write_file", "write_file"}, r.tools.ran, "these rules leave ordinary tools alone even when they reject")
	require.Equal(t, 2, r.conv.Rejections)
	require.Equal(t, "Finish by calling report_result.", r.model.requests[1].Messages[3].Content)
	requireAnswered(t, r.conv.Messages)
}

func TestRun_offersRulesTools(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), pipeline{}, says("", call("a", "read_file", "")), says("Done."))
	for _, req := range r.model.requests {
		var names []string
		for _, tool := range req.Tools {
			names = append(names, tool.Name)
		}
		require.Equal(t, []string{"read_file", "write_file", "jump_to_step", "call_step"}, names, "the tools of the rules change and come last")
	}
}

func TestRun_modelThatCallsNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		replies []llm.Reply
		silent  bool
	}{
		"no reply has a call": {[]llm.Reply{says("Two."), says("Two moons."), says("Two!")}, true},
		"one has a wrong one": {[]llm.Reply{says("Two."), says("", call("a", "web_search", "{}")), says("Two!")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := play(t, t.Context(), &team{}, tt.replies...)
			var rejected *loop.NoActionError
			require.ErrorAs(t, r.err, &rejected)
			require.Equal(t, tt.silent, rejected.Silent)
		})
	}
}

func TestRun_usage(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), &team{}, says("Two."), says("", call("a", "read_file", "{}")), says("", call("b", "new_answer", twoMoons)))
	require.NoError(t, r.err)
	require.Equal(t, llm.Usage{InputTokens: 21, OutputTokens: 9, ModelCalls: 3, Rejections: 1}, r.conv.Usage)
}

func TestRun_thirdRejection(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), &team{},
		says("Two."),
		says("", call("a", "read_file", "{}")), // progress does not win attempts back
		says("", call("b", "web_search", "{}")),
		says("", call("c", "new_answer", "{}")),
		says("", call("d", "new_answer", twoMoons)))
	var rejected *loop.NoActionError
	require.ErrorAs(t, r.err, &rejected)
	require.Equal(t, loop.NoActionError{Attempts: 3, Reason: invalid}, *rejected)
	require.EqualError(t, r.err, "no valid action after 3 attempts (last rejection: invalid_arguments)")
	require.Len(t, r.model.requests, 4, "no fourth attempt is paid for")
	require.Equal(t, loop.Rejection, r.journal.entries[len(r.journal.entries)-1].Kind, "the last rejection is on record, too")
	requireAnswered(t, r.conv.Messages)
}

func TestRun_modelCallsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ limit, want int }{
		"by default": {0, maxModelCalls},
		"by less":    {5, 5},
		"by more":    {maxModelCalls + 1, maxModelCalls + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conv, model := &loop.Conversation{}, &script{}
			conv.Add(opening)
			for range maxModelCalls + 2 {
				reply := says("", call("a", "read_file", "{}"))
				reply.Usage = llm.Usage{} // a provider that counts nothing is bounded all the same
				model.replies = append(model.replies, reply)
			}
			_, err := loop.Loop{Model: model, Tools: &bench{}, Journal: (&memory{failAt: -1}).Append, MaxModelCalls: c.limit}.
				Run(t.Context(), conv, &team{})
			var calls *loop.NoActionError
			require.ErrorAs(t, err, &calls)
			require.Equal(t, c.want, calls.Calls)
			require.Len(t, model.requests, c.want)
		})
	}
}

// The API does not accept images in a tool's result. They follow the results of all calls, because
// these must follow the reply immediately.
func TestRun_images(t *testing.T) {
	t.Parallel()
	image := llm.Image{MediaType: "image/png", Data: []byte("png")}
	conv, model := &loop.Conversation{}, &script{replies: []llm.Reply{
		says("", call("a", "read_file", "{}"), call("b", "write_file", "{}")), says("", call("c", "new_answer", twoMoons)),
	}}
	conv.Add(opening)
	_, err := loop.Loop{Model: model, Tools: &bench{shown: []llm.Image{image}}, Journal: (&memory{failAt: -1}).Append}.
		Run(t.Context(), conv, &team{})
	require.NoError(t, err)
	told := model.requests[1].Messages[len(opening.Messages)+1:]
	require.Equal(t, []llm.Message{
		{Role: llm.ToolRole, ToolCallID: "a", Content: "read_file has run"},
		{Role: llm.ToolRole, ToolCallID: "b", Content: "write_file has run"},
		{Role: llm.User, Content: "[Images from read_file, call a]", Images: []llm.Image{image}},
		{Role: llm.User, Content: "[Images from write_file, call b]", Images: []llm.Image{image}},
	}, told)
}

func TestRun_cancelled(t *testing.T) {
	t.Parallel()
	fenced := errors.New("another attempt has taken over")
	t.Run("of the model", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fenced)
		r := play(t, ctx, &team{}, says("", call("a", "new_answer", twoMoons)))
		require.ErrorIs(t, r.err, fenced)
		require.Empty(t, r.model.requests)
	})
	t.Run("of a tool", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		rules := &cancelling{Rules: &team{}, cancel: func() { cancel(fenced) }}
		r := play(t, ctx, rules, says("", call("a", "read_file", "{}"), call("b", "new_answer", twoMoons)))
		require.ErrorIs(t, r.err, fenced)
		require.Empty(t, r.tools.ran)
		require.Equal(t, []loop.EntryKind{loop.Reply}, r.kinds(), "the paid reply is kept")
	})
}

// cancelling are rules that cancel the step while a reply is judged.
type cancelling struct {
	loop.Rules
	cancel func()
}

func (c *cancelling) Judge(reply llm.Message) loop.Ruling {
	c.cancel()
	return c.Rules.Judge(reply)
}

func TestRun_brokenMachinery(t *testing.T) {
	t.Parallel()
	broken := errors.New("workspace is gone")
	conv, journal := &loop.Conversation{}, &memory{failAt: -1}
	conv.Add(opening)
	model := &script{replies: []llm.Reply{says("", call("a", "read_file", "{}"))}}
	_, err := loop.Loop{Model: model, Tools: &bench{broken: broken}, Journal: journal.Append}.Run(t.Context(), conv, &team{})
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "run tool read_file: workspace is gone")
	require.Len(t, journal.entries, 1, "a failed run is not journaled")

	r := play(t, t.Context(), &team{})
	require.ErrorIs(t, r.err, errScriptOver, "the model's error comes through as it is")
}

// mute are rules that break the contract: they do not answer replies without tool calls.
type mute struct{ pipeline }

func (mute) Judge(llm.Message) loop.Ruling { return loop.Ruling{Rejected: "mute"} }

func TestRun_unansweredReply(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), mute{}, says("Two."), says("Two."))
	require.ErrorContains(t, r.err, `left a reply without tool calls unanswered: "Two."`)
	require.Len(t, r.model.requests, 1)
}

func TestRun_uniqueCallIDs(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string][]string{
		"none":                       {"", "", ""},
		"ours before we make it":     {"call_2_1", "", "call_2_2"},
		"ours after we have made it": {"", "call_2_0", "call_2_1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls []llm.ToolCall
			for _, id := range ids {
				calls = append(calls, call(id, "read_file", "{}"))
			}
			r := play(t, t.Context(), pipeline{}, says("", calls...), says("", call("", "read_file", "{}")), says("Done."))
			require.NoError(t, r.err)
			requireAnswered(t, r.conv.Messages)
			require.Len(t, r.results(), 4, "an ID that we make is unique in the step")
			for i, id := range ids {
				require.Equal(t, id, calls[i].ID, "the model's own reply is left alone")
			}
		})
	}
}

// cutting provides tools of which the second call of a step is cut short.
type cutting struct {
	bench
	cancel func()
}

func (c *cutting) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	out, err := c.bench.Run(ctx, call)
	if len(c.ran) == 2 {
		c.cancel()
		return loop.Output{}, context.Canceled
	}
	return out, err
}

// The results of a batch that is cut short are passed on, not journaled: they are those of the calls
// that have ended.
func TestRun_cutBatch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	conv, journal, now := &loop.Conversation{}, &memory{failAt: -1}, &clock{}
	conv.Add(opening)
	model := &script{clock: now, replies: []llm.Reply{says("", call("a", "read_file", "{}"), call("b", "write_file", "{}"), call("c", "read_file", "{}"))}}
	var cut []loop.Entry
	_, err := loop.Loop{
		Model: model, Tools: &cutting{bench{clock: now}, cancel}, Journal: journal.Append, Now: now.Now,
		Cut: func(e loop.Entry) { cut = append(cut, e) },
	}.Run(ctx, conv, pipeline{})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, journal.entries, 1, "the reply")
	require.Equal(t, []loop.Entry{{
		Kind: loop.Results, Messages: []llm.Message{call("a", "read_file", "{}").Result("read_file has run")}, Seconds: (2 * running).Seconds(),
	}}, cut)
}

// One call that a provider sends twice, with its ID, is one call. Calls under two IDs, or without
// any, are two, and so are different calls under one ID.
func TestRun_repeatedCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls []llm.ToolCall
		runs  int
	}{
		"the same call":                       {[]llm.ToolCall{call("x", "write_file", `{"path":"a"}`), call("x", "write_file", `{"path":"a"}`)}, 1},
		"three times":                         {[]llm.ToolCall{call("x", "write_file", ""), call("x", "write_file", ""), call("x", "write_file", "")}, 1},
		"with another call between":           {[]llm.ToolCall{call("x", "write_file", "{}"), call("y", "write_file", "{}"), call("x", "write_file", "{}")}, 2},
		"the same arguments, written anew":    {[]llm.ToolCall{call("x", "write_file", `{"path":"a","n":1}`), call("x", "write_file", "{ \"path\": \"a\",\n\"n\": 1 }")}, 1},
		"numbers that are equal when rounded": {[]llm.ToolCall{call("x", "write_file", `{"n":9007199254740993}`), call("x", "write_file", `{"n":9007199254740992}`)}, 2},
		"arguments that are no JSON":          {[]llm.ToolCall{call("x", "write_file", "a"), call("x", "write_file", "a")}, 1},
		"two IDs":                             {[]llm.ToolCall{call("x", "write_file", "{}"), call("y", "write_file", "{}")}, 2},
		"no ID":                               {[]llm.ToolCall{call("", "write_file", "{}"), call("", "write_file", "{}")}, 2},
		"other arguments":                     {[]llm.ToolCall{call("x", "write_file", `{"path":"a"}`), call("x", "write_file", `{"path":"b"}`)}, 2},
		"another tool":                        {[]llm.ToolCall{call("x", "write_file", "{}"), call("x", "read_file", "{}")}, 2},
		"other arguments, each of them twice": {[]llm.ToolCall{call("x", "write_file", "1"), call("x", "write_file", "2"), call("x", "write_file", "1"), call("x", "write_file", "2")}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := play(t, t.Context(), pipeline{}, says("", c.calls...), says("Done."))
			require.NoError(t, r.err)
			require.Len(t, r.tools.ran, c.runs)
			require.Len(t, r.results(), c.runs, "a dropped call is not answered either")
			requireAnswered(t, r.conv.Messages)
		})
	}
}
