package loop_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// rulesets are the kinds of steps that the properties are checked on.
var rulesets = map[string]func() loop.Rules{
	"team":     func() loop.Rules { return member() },
	"pipeline": func() loop.Rules { return pipeline{} },
	"scenario": func() loop.Rules { return scenario{} },
}

// replies draws a script: sensible, senseless and hostile calls under missing
// and repeated IDs.
func replies(t *rapid.T) []llm.Reply {
	calls := rapid.SampledFrom([][2]string{
		{"read_file", "{}"},
		{"read_file", "{}"},
		{"write_file", "not JSON"},
		{"web_search", "{}"},
		{"new_answer", twoMoons},
		{"new_answer", `{"content": "Two."}`},
		{"vote", `{"agent_id": "agent1", "reason": "r"}`},
		{"vote", `{"agent_id": "agent7", "reason": "r"}`},
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

// TestEveryCallIsAnsweredOnce: in every request, and at the end of every step,
// each tool call has its one result, and all that happened is in the journal.
func TestEveryCallIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	for name, rules := range rulesets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				r := play(rt, t.Context(), rules(), replies(rt)...)
				for _, req := range r.model.requests {
					requireAnswered(rt, req.Messages)
				}
				requireAnswered(rt, r.conv.Messages)
				var folded loop.Conversation
				folded.Add(opening)
				for _, e := range r.journal.entries {
					folded.Add(e)
				}
				require.Equal(rt, folded, r.conv)
				require.Equal(rt, r.err == nil, r.action.Kind != "")
				require.LessOrEqual(rt, r.conv.Rejections, loop.MaxRejections)
				var rejected *loop.RejectedError
				require.Equal(rt, r.conv.Rejections == loop.MaxRejections, errors.As(r.err, &rejected))
			})
		})
	}
}

// TestResume: a step that was lost after any entry of its journal and restored
// ends as it would have, without asking for a reply that it already has.
func TestResume(t *testing.T) {
	t.Parallel()
	for name, rules := range rulesets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				script := replies(rt)
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

// TestJournalFailing: when an entry cannot be journaled, the attempt ends there,
// the conversation holds what was journaled and no more, and the next attempt
// ends as if nothing had happened.
func TestJournalFailing(t *testing.T) {
	t.Parallel()
	for name, rules := range rulesets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				script := replies(rt)
				whole := play(rt, t.Context(), rules(), script...)
				for k := range whole.journal.entries {
					lost := resume(rt, t.Context(), rules(), nil, script, k)
					require.ErrorIs(rt, lost.err, errDisk)
					require.ErrorContains(rt, lost.err, "journaling a "+string(whole.journal.entries[k].Kind))
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

// requireSameEnd compares a step that went on after the journaled entries with
// the same step in one go.
func requireSameEnd(t require.TestingT, whole *run, before []loop.Entry, again *run) {
	require.Equal(t, whole.err, again.err)
	require.Equal(t, whole.action, again.action)
	require.Equal(t, asJSON(t, whole.conv), asJSON(t, again.conv))
	entries := slices.Concat(before, again.journal.entries)
	require.Equal(t, asJSON(t, whole.journal.entries), asJSON(t, entries))
	paid := 0
	for _, e := range before {
		if e.Kind == loop.Reply {
			paid++
		}
	}
	require.Len(t, again.model.requests, len(whole.model.requests)-paid, "no reply is paid for twice")
}

func messages(entries []loop.Entry) int {
	n := 0
	for _, e := range entries {
		n += len(e.Messages)
	}
	return n
}
