package loop_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// A lost step continues from the last entry of its journal.
func TestResume_acceptedReply(t *testing.T) {
	t.Parallel()
	script := []llm.Reply{says("", call("a", "write_file", "{}"), call("b", "new_answer", twoMoons))}
	whole := play(t, t.Context(), &team{}, script...)
	require.NoError(t, whole.err)
	again := resume(t, t.Context(), &team{}, whole.journal.entries[:1], script, -1)
	require.NoError(t, again.err)
	require.Equal(t, whole.action, again.action)
	require.Empty(t, again.model.requests, "the reply is there")
	require.Equal(t, []string{"write_file"}, again.tools.ran, "its tools are run again")
	require.Len(t, again.rules.asked, 1, "and the action is confirmed before it counts")
	require.Equal(t, asJSON(t, whole.journal.entries[1:]), asJSON(t, again.journal.entries))
}

// News that arrived in the meantime causes an unconfirmed action to be refused.
func TestResume_acceptedReplyWithNews(t *testing.T) {
	t.Parallel()
	script := []llm.Reply{says("", call("a", "new_answer", twoMoons)), says("", call("b", "vote", `{"agent_id": "agent1"}`))}
	whole := play(t, t.Context(), &team{}, script...)
	again := resume(t, t.Context(), &team{news: []int{1}}, whole.journal.entries[:1], script, -1)
	require.NoError(t, again.err)
	require.Equal(t, "vote", again.action.Kind)
	require.Equal(t, []loop.EntryKind{loop.Updated, loop.Reply, loop.Results}, again.kinds())
}

// A confirmed action counts, whatever news there is and whatever the rules have learned since.
func TestResume_confirmedAction(t *testing.T) {
	t.Parallel()
	script := []llm.Reply{says("", call("z", "draft", "{}")), says("", call("a", "draft", "{}"), call("b", "new_answer", twoMoons))}
	whole := play(t, t.Context(), &team{}, script...)
	require.NoError(t, whole.err)
	again := resume(t, t.Context(), &team{news: []int{0, 1, 2, 3}}, whole.journal.entries, script, -1)
	require.NoError(t, again.err)
	require.Equal(t, whole.action, again.action)
	require.Empty(t, again.model.requests)
	require.Empty(t, again.tools.ran)
	require.Empty(t, again.journal.entries)
	require.Empty(t, again.rules.asked, "there is no second Confirm")
	require.Zero(t, again.rules.judged)
}

func TestResume_withdrawnAction(t *testing.T) {
	t.Parallel()
	script := []llm.Reply{says("", call("a", "write_file", "{}"), call("b", "new_answer", twoMoons)), says("", call("c", "vote", `{"agent_id": "agent1"}`))}
	whole := play(t, t.Context(), &team{news: []int{1}}, script...)
	require.NoError(t, whole.err)
	require.Equal(t, loop.Updated, whole.journal.entries[1].Kind)
	again := resume(t, t.Context(), &team{news: []int{1}}, whole.journal.entries[:2], script, -1)
	require.NoError(t, again.err)
	require.Equal(t, whole.action, again.action)
	require.Len(t, again.model.requests, 1)
	require.Equal(t, whole.model.requests[1], again.model.requests[0], "the model is asked the same")
	require.Empty(t, again.tools.ran)
}

// Limits include earlier attempts.
func TestResume_bounds(t *testing.T) {
	t.Parallel()
	script := []llm.Reply{says("One."), says("Two."), says("Three."), says("", call("a", "new_answer", twoMoons))}
	whole := play(t, t.Context(), &team{}, script...)
	again := resume(t, t.Context(), &team{}, whole.journal.entries, script, -1)
	require.Equal(t, &loop.NoActionError{Attempts: maxRejections, Reason: noToolCalls, Silent: true}, again.err)
	require.Empty(t, again.model.requests)
}
