package loop_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// rulesets draw the kinds of steps for the properties. Every attempt gets new rules.
var rulesets = map[string]func(*rapid.T) func() loop.Rules{
	"team":     teams,
	"pipeline": func(*rapid.T) func() loop.Rules { return func() loop.Rules { return pipeline{} } },
	"scenario": func(*rapid.T) func() loop.Rules { return func() loop.Rules { return scenario{} } },
}

// teams draws rules under which others answer, and which may end the step.
func teams(t *rapid.T) func() loop.Rules {
	news := rapid.SliceOfN(rapid.IntRange(0, 12), 0, 5).Draw(t, "news")
	slices.Sort(news)
	endsAt := rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 6, 9}).Draw(t, "ends at")
	return func() loop.Rules { return &team{news: news, endsAt: endsAt, ends: loop.EndRestart} }
}

// replies draws a script of valid, invalid and hostile calls, some with missing or repeated IDs.
func replies(t *rapid.T) []llm.Reply {
	calls := rapid.SampledFrom([][2]string{
		{"read_file", "{}"},
		{"read_file", "{}"},
		{"write_file", "not JSON"},
		{"web_search", "{}"},
		{"new_answer", twoMoons},
		{"new_answer", twoMoons},
		{"new_answer", "{}"},
		{"vote", `{"agent_id": "agent1"}`},
		{"draft", "{}"},
		{"jump_to_step", "lint"},
		{"call_step", "lint"},
		{"report_result", "pass"},
		{"report_result", "perhaps"},
	})
	one := rapid.Custom(func(t *rapid.T) llm.Reply {
		reply := says(rapid.SampledFrom([]string{"", "Two."}).Draw(t, "text"))
		for range rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2, 3}).Draw(t, "calls") {
			c := calls.Draw(t, "call")
			id := rapid.SampledFrom([]string{"", "a", "b", "call_2_0", "call_2_1", "call_4_1"}).Draw(t, "id")
			reply.Message.ToolCalls = append(reply.Message.ToolCalls, call(id, c[0], c[1]))
		}
		return reply
	})
	return rapid.SliceOfN(one, 0, 12).Draw(t, "replies")
}

// In every request and at the end of every step, each tool call has exactly one result, and the
// journal is complete.
func TestRun_everyCallAnsweredOnce(t *testing.T) {
	t.Parallel()
	for name, rules := range rulesets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				r := play(rt, t.Context(), rules(rt)(), replies(rt)...)
				for _, req := range r.model.requests {
					requireAnswered(rt, req.Messages)
				}
				if last := r.journal.entries; len(last) == 0 || last[len(last)-1].Kind != loop.Reply {
					requireAnswered(rt, r.conv.Messages)
				} else {
					// Only a step that ended without an action leaves a reply behind.
					var ended *loop.EndedError
					require.ErrorAs(rt, r.err, &ended)
				}
				requireFolded(rt, r)
				require.LessOrEqual(rt, r.conv.Rejections, maxRejections)
				var rejected *loop.NoActionError
				require.Equal(rt, r.conv.Rejections == maxRejections, errors.As(r.err, &rejected) && rejected.Attempts > 0)
			})
		})
	}
}

// requireFolded requires that the journal contains the conversation and the entries learned, and
// that its last entry has the action.
func requireFolded(t require.TestingT, r *run) {
	entries := slices.Concat([]loop.Entry{opening}, r.journal.entries)
	require.Equal(t, entries, r.rules.learned)
	var folded loop.Conversation
	var worked time.Duration
	for i, e := range entries {
		folded.Add(e)
		if e.Kind == loop.Reply {
			worked += thinking
		}
		require.Equal(t, r.err == nil && i == len(entries)-1, e.Action != nil)
	}
	require.Equal(t, folded, r.conv)
	require.Equal(t, r.err == nil, r.action.Kind != "")
	if r.err == nil {
		require.Equal(t, r.action, *entries[len(entries)-1].Action)
	}
	require.LessOrEqual(t, worked, r.conv.Worked)
}

// Every model call gets all news so far, once and in order. An action only counts if there is no
// further news.
func TestRun_newsNeverLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rules := teams(rt)().(*team)
		r := play(rt, t.Context(), rules, replies(rt)...)
		for n, req := range r.model.requests {
			require.Equal(rt, rules.due(2*n), toldOf(rt, req.Messages))
		}
		told := toldOf(rt, r.conv.Messages)
		require.Equal(rt, rules.shown, told)
		if r.err == nil {
			require.Equal(rt, rules.due(2*r.conv.Replies-1), told)
			require.Contains(rt, string(r.action.Payload), fmt.Sprintf(`"shown":%d`, told))
		}
	})
}

// toldOf counts the news in messages, and requires that they are in order and not repeated.
func toldOf(t require.TestingT, messages []llm.Message) int {
	told := 0
	for _, m := range messages {
		if m.Role == llm.User && strings.HasSuffix(m.Content, "has answered") {
			told++
			require.Equal(t, newsOf(told), m.Content)
		}
	}
	return told
}

// A step that is lost after any journal entry and then restored ends in the same way, without
// repeating a reply.
func TestResume_everyEntry(t *testing.T) {
	t.Parallel()
	for name, rules := range rulesets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				script, rules := replies(rt), rules(rt)
				whole := play(rt, t.Context(), rules(), script...)
				for k := range len(whole.journal.entries) + 1 {
					before := whole.journal.entries[:k]
					again := resume(rt, t.Context(), rules(), before, script, -1)
					requireSameEnd(rt, whole, before, again)
				}
			})
		})
	}
}

// A failing journal ends the attempt. The conversation contains the journaled entries, and the next
// attempt ends as if the journal had not failed.
func TestResume_journalFails(t *testing.T) {
	t.Parallel()
	for name, rules := range rulesets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				script, rules := replies(rt), rules(rt)
				whole := play(rt, t.Context(), rules(), script...)
				for k := range whole.journal.entries {
					lost := resume(rt, t.Context(), rules(), nil, script, k)
					require.ErrorIs(rt, lost.err, errDisk)
					require.ErrorContains(rt, lost.err, "journal the "+string(whole.journal.entries[k].Kind))
					require.Len(rt, lost.journal.entries, k)
					require.Equal(rt, k+1, lost.journal.appends, "nothing goes on after a failed write")
					require.Len(rt, lost.conv.Messages, len(opening.Messages)+messages(lost.journal.entries))

					again := resume(rt, t.Context(), rules(), lost.journal.entries, script, -1)
					requireSameEnd(rt, whole, lost.journal.entries, again)
				}
			})
		})
	}
}

// requireSameEnd compares a resumed step with the same step that was not interrupted.
func requireSameEnd(t require.TestingT, whole *run, before []loop.Entry, again *run) {
	require.Equal(t, whole.err, again.err)
	require.Equal(t, whole.action, again.action)
	require.Equal(t, asJSON(t, whole.conv), asJSON(t, again.conv))
	entries := slices.Concat(before, again.journal.entries)
	require.Equal(t, asJSON(t, whole.journal.entries), asJSON(t, entries))
	require.Equal(t, asJSON(t, whole.rules.learned), asJSON(t, again.rules.learned))
	paid := 0
	for _, e := range before {
		if e.Kind == loop.Reply {
			paid++
		}
	}
	require.Len(t, again.model.requests, len(whole.model.requests)-paid, "no reply is paid for twice")
	for i, req := range again.model.requests {
		require.Equal(t, asJSON(t, whole.model.requests[paid+i]), asJSON(t, req), "the same is asked")
	}
}

func messages(entries []loop.Entry) int {
	n := 0
	for _, e := range entries {
		n += len(e.Messages)
	}
	return n
}
