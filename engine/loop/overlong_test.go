package loop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// endless breaks its replies off at the limit of the request, as an adapter does.
type endless struct {
	script
	limits []int
}

func (e *endless) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	e.limits = append(e.limits, req.MaxReply)
	if len(req.Tools) == 0 { // it is asked for a summary
		e.replies = append([]llm.Reply{says(strings.Repeat("Notes. ", 20_000))}, e.replies...)
	}
	reply, err := e.script.Generate(ctx, req)
	if text := &reply.Message.Content; err == nil && len(*text) > req.MaxReply {
		*text = (*text)[:req.MaxReply]
		err = &llm.Error{Kind: llm.BadReply, Cut: true, Overlong: true, Detail: "it is too long"}
	}
	return reply, err
}

// overlong plays a step of a team with a window.
func overlong(t *testing.T, tokens int, rules loop.Rules, replies ...llm.Reply) (*run, *endless) {
	t.Helper()
	r := &run{tools: &bench{}, journal: &memory{failAt: -1}, rules: &watched{Rules: rules, t: t}}
	r.conv.Add(opening)
	require.NoError(t, r.rules.Learn(t.Context(), opening))
	m := &endless{script: script{replies: replies}}
	r.action, r.err = loop.Loop{Model: m, Tools: r.tools, Journal: r.journal.Append, Window: tokens}.Run(t.Context(), &r.conv, r.rules)
	return r, m
}

// A reply of many megabytes is not sent back: the model is told, and the call is paid for and
// counts as a rejection.
func TestRun_overlongReply(t *testing.T) {
	t.Parallel()
	flood := says(strings.Repeat("flood ", 2<<20))
	r, m := overlong(t, 0, &team{}, flood, says("", call("a", "new_answer", twoMoons)))
	require.NoError(t, r.err)
	require.Equal(t, []int{1 << 20, 1 << 20}, m.limits, "the window is unknown")
	require.Equal(t, []loop.EntryKind{loop.Wasted, loop.Rejection, loop.Reply, loop.Results}, r.kinds())
	require.Equal(t, loop.ReplyTooLong, r.journal.entries[1].Reason)
	require.Equal(t, llm.Message{Role: llm.User, Content: "Your last reply was broken off and discarded: it is too long. Nothing was submitted and no tool was run. " +
		"Reply again, far shorter; put a long content into several calls."}, m.requests[1].Messages[2])
	require.NotContains(t, asJSON(t, m.requests[1]), "flood")
	require.NotContains(t, asJSON(t, r.journal.entries), "flood")
	require.Equal(t, llm.Usage{InputTokens: 14, OutputTokens: 6, ModelCalls: 2, Rejections: 1}, r.conv.Usage)
	requireAnswered(t, r.conv.Messages)

	r, _ = overlong(t, 0, &team{}, flood, flood, flood, flood)
	var rejected *loop.NoActionError
	require.ErrorAs(t, r.err, &rejected)
	require.Equal(t, loop.ReplyTooLong, rejected.Reason)
	require.Equal(t, 3, rejected.Attempts)
}

// The limit follows the window, also one that a refusal revealed.
func TestRun_limitOfAReply(t *testing.T) {
	t.Parallel()
	for tokens, limit := range map[int]int{200_000: 1_600_000, 16_384: 131_072, 512: 64 << 10, 1 << 62: 8 << 20} {
		_, m := overlong(t, tokens, pipeline{}, says("Done."))
		require.Equal(t, []int{limit}, m.limits)
	}
}

// A summary that is too long is cut, like one that is too long for the server.
func TestRun_overlongSummary(t *testing.T) {
	t.Parallel()
	turn := says("", call("", "write_file", strings.Repeat("w", 6000)))
	r, m := overlong(t, 6000, pipeline{}, turn, turn, turn, says("Done."))
	require.NoError(t, r.err)
	require.Contains(t, r.kinds(), loop.Compacted)
	last := m.requests[len(m.requests)-1].Messages
	require.Contains(t, asJSON(t, last), "Notes. Notes.")
	require.Less(t, len(asJSON(t, last)), 30_000)
}
