package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// client is a caller with one tool. Its results arrive between launches.
type client struct {
	launch  string
	results map[string]string
}

func (c client) caller() loop.Caller {
	return loop.Caller{
		Tools: []llm.Tool{{Name: "client__look"}},
		ID:    func(n int) string { return fmt.Sprintf("c_%s_%d", c.launch, n) },
		Result: func(_ context.Context, id string) (string, bool, error) {
			content, ok := c.results[id]
			return content, ok, nil
		},
	}
}

// launch runs a launch of a step that continues from journaled entries.
func launch(t *testing.T, c client, journaled []loop.Entry, replies ...llm.Reply) *run {
	t.Helper()
	r := &run{tools: &bench{}, journal: &memory{failAt: -1}, model: &script{replies: replies}}
	rules := pipeline{}
	for _, e := range slices.Concat([]loop.Entry{opening}, restoredFrom(t, journaled)) {
		r.conv.Add(e)
		require.NoError(t, rules.Learn(t.Context(), e))
	}
	r.action, r.err = loop.Loop{Model: r.model, Tools: r.tools, Caller: c.caller(), Journal: r.journal.Append}.Run(t.Context(), &r.conv, rules)
	return r
}

func awaitedIn(t *testing.T, err error) []string {
	t.Helper()
	ended, ok := errors.AsType[*loop.EndedError](err)
	require.True(t, ok, err)
	require.Equal(t, loop.EndAwaiting, ended.Why)
	var ids []string
	for _, c := range ended.Calls {
		ids = append(ids, c.ID)
	}
	return ids
}

// After a reply with calls of both kinds, the step runs its own tools once, waits for the caller
// over as many launches as necessary, and continues without another model call.
func TestRun_waitsForTheCaller(t *testing.T) {
	t.Parallel()
	mixed := says("", call("a", "client__look", `{"at":1}`), call("b", "read_file", "{}"), call("c", "client__look", `{"at":2}`))
	first := launch(t, client{launch: "l1"}, nil, mixed)
	require.Equal(t, []string{"c_l1_1", "c_l1_2"}, awaitedIn(t, first.err))
	require.Equal(t, []string{"read_file"}, first.tools.ran)
	require.Equal(t, []loop.EntryKind{loop.Reply, loop.Awaited}, first.kinds())
	require.Equal(t, "client__look", first.model.requests[0].Tools[0].Name, "sorted among the ordinary tools")

	journal := append(slices.Clone(first.journal.entries), loop.Entry{Kind: loop.Resumed})
	again := launch(t, client{launch: "l2"}, journal)
	require.Equal(t, []string{"c_l1_1", "c_l1_2"}, awaitedIn(t, again.err), "the calls keep their IDs")
	require.Empty(t, again.journal.entries)
	partly := launch(t, client{launch: "l3", results: map[string]string{"c_l1_1": "one"}}, journal)
	require.Equal(t, []string{"c_l1_2"}, awaitedIn(t, partly.err))

	last := launch(t, client{launch: "l4", results: map[string]string{"c_l1_1": "one", "c_l1_2": "two"}}, journal, says("Done."))
	require.NoError(t, last.err)
	require.Equal(t, map[string]string{"a": "one", "b": "read_file has run", "c": "two"}, last.results())
	require.Empty(t, last.tools.ran, "a tool that ran before the wait is not run again")
	require.Len(t, last.model.requests, 1)
	requireAnswered(t, last.conv.Messages)
	require.Equal(t, 2, last.conv.Replies, "waiting does not reset the bound of model calls")
}

// The number of calls to the caller's tools in one reply is bounded.
func TestRun_boundsCallsOfTheCaller(t *testing.T) {
	t.Parallel()
	var many []llm.ToolCall
	for i := range 40 {
		many = append(many, call(fmt.Sprintf("call%d", i), "client__look", "{}"))
	}
	r := launch(t, client{launch: "l1"}, nil, says("", many...))
	require.Len(t, awaitedIn(t, r.err), 32)
	require.Len(t, r.journal.entries[1].Held, 8)
	require.Contains(t, r.journal.entries[1].Held[0].Text, "call it again")
}
