package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

var errScriptOver = errors.New("the script is over")

// clock advances only when pass is called.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) passes(took time.Duration) {
	if c != nil {
		c.now = c.now.Add(took)
	}
}

// Durations of a model call and of an ordinary tool call.
const (
	thinking = 1500 * time.Millisecond
	running  = 250 * time.Millisecond
)

// script is a model that replies in order.
type script struct {
	clock    *clock
	replies  []llm.Reply
	requests []llm.Request // as they came
}

func (s *script) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	s.requests = append(s.requests, llm.Request{Messages: slices.Clone(req.Messages), Tools: req.Tools})
	s.clock.passes(thinking)
	if len(s.replies) == 0 {
		return llm.Reply{}, errScriptOver
	}
	reply := s.replies[0]
	s.replies = s.replies[1:]
	return reply, nil
}

// says returns a reply that costs one call and ten tokens.
func says(text string, calls ...llm.ToolCall) llm.Reply {
	return llm.Reply{
		Message: llm.Message{Content: text, ToolCalls: calls},
		Usage:   llm.Usage{InputTokens: 7, OutputTokens: 3, ModelCalls: 1},
	}
}

func call(id, name, arguments string) llm.ToolCall {
	return llm.ToolCall{ID: id, Name: name, Arguments: arguments}
}

// bench provides ordinary tools that record their runs.
type bench struct {
	clock  *clock
	ran    []string
	shown  []llm.Image // by every call
	broken error
}

func (*bench) Tools() []llm.Tool {
	return []llm.Tool{{Name: "read_file"}, {Name: "write_file"}}
}

func (b *bench) Run(_ context.Context, c llm.ToolCall) (loop.Output, error) {
	if b.broken != nil {
		return loop.Output{}, b.broken
	}
	b.ran = append(b.ran, c.Name)
	b.clock.passes(running)
	return loop.Output{Text: c.Name + " has run", Images: b.shown}, nil
}

// memory is a journal that fails once, at the append with the given number, counted from 0. A
// negative number means never.
type memory struct {
	entries []loop.Entry
	failAt  int
	appends int
}

var errDisk = errors.New("disk full")

func (m *memory) Append(_ context.Context, e loop.Entry) error {
	m.appends++
	if m.appends-1 == m.failAt {
		return errDisk
	}
	m.entries = append(m.entries, e)
	return nil
}

// watched records the entries learned, and requires that each reply is judged immediately after it
// is learned.
type watched struct {
	loop.Rules
	t       require.TestingT
	learned []loop.Entry
	judged  int
	asked   []loop.Action // to confirm
}

func (w *watched) Learn(ctx context.Context, e loop.Entry) error {
	w.learned = append(w.learned, e)
	return w.Rules.Learn(ctx, e)
}

func (w *watched) Judge(reply llm.Message) loop.Ruling {
	last := w.learned[len(w.learned)-1]
	require.Equal(w.t, loop.Reply, last.Kind)
	require.Equal(w.t, []llm.Message{reply}, last.Messages)
	w.judged++
	return w.Rules.Judge(reply)
}

func (w *watched) Confirm(ctx context.Context, a loop.Action) (loop.Update, error) {
	w.asked = append(w.asked, a)
	return w.Rules.Confirm(ctx, a)
}

// run is one attempt at a step and everything that it used.
type run struct {
	conv    loop.Conversation
	rules   *watched
	model   *script
	tools   *bench
	journal *memory
	action  loop.Action
	err     error
}

var opening = loop.Entry{Kind: loop.Opening, Messages: []llm.Message{
	{Role: llm.System, Content: "You are one of several."},
	{Role: llm.User, Content: "How many moons has Mars?"},
}}

// play runs a step with rules and a model that gives replies.
func play(t require.TestingT, ctx context.Context, rules loop.Rules, replies ...llm.Reply) *run {
	return resume(t, ctx, rules, nil, replies, -1)
}

// resume continues a step after journaled entries, as restored from storage, with the replies that
// follow them.
func resume(t require.TestingT, ctx context.Context, rules loop.Rules, journaled []loop.Entry, replies []llm.Reply, failAt int) *run {
	restored := restoredFrom(t, journaled)
	now := &clock{now: time.Date(2026, 3, 20, 22, 32, 3, 0, time.UTC)}
	r := &run{tools: &bench{clock: now}, journal: &memory{failAt: failAt}, rules: &watched{Rules: rules, t: t}}
	given := 0
	for _, e := range slices.Concat([]loop.Entry{opening}, restored) {
		r.conv.Add(e)
		require.NoError(t, r.rules.Learn(ctx, e))
		if e.Kind == loop.Reply {
			given++
		}
	}
	r.model = &script{clock: now, replies: replies[given:]}
	r.action, r.err = loop.Loop{Model: r.model, Tools: r.tools, Journal: r.journal.Append, Now: now.Now}.Run(ctx, &r.conv, r.rules)
	return r
}

// restoredFrom encodes and decodes entries as JSON.
func restoredFrom(t require.TestingT, journaled []loop.Entry) []loop.Entry {
	data, err := json.Marshal(journaled)
	require.NoError(t, err)
	var restored []loop.Entry
	require.NoError(t, json.Unmarshal(data, &restored))
	return restored
}

func (r *run) kinds() []loop.EntryKind {
	var kinds []loop.EntryKind
	for _, e := range r.journal.entries {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// results returns the tool results in the conversation, by call ID.
func (r *run) results() map[string]string {
	results := map[string]string{}
	for _, m := range r.conv.Messages {
		if m.Role == llm.ToolRole {
			results[m.ToolCallID] = m.Content
		}
	}
	return results
}

// requireAnswered requires that messages follow the API's rule for conversations.
func requireAnswered(t require.TestingT, messages []llm.Message) {
	require.NoError(t, answered(messages))
}

// answered returns an error if messages violate the rule: a reply is followed by the results of its
// calls, one for each, in order and with unique IDs.
func answered(messages []llm.Message) error {
	var open []llm.ToolCall
	for i, m := range messages {
		switch {
		case len(open) > 0 && m.ToolCallID != open[0].ID:
			return fmt.Errorf("message %d is not the result of call %q", i, open[0].ID)
		case len(open) > 0:
			open = open[1:]
		case m.Role == llm.ToolRole:
			return fmt.Errorf("message %d is a result without a call", i)
		}
		seen := map[string]bool{"": true}
		for _, c := range m.ToolCalls {
			if seen[c.ID] {
				return fmt.Errorf("message %d has a call with the ID %q, which is empty or used twice", i, c.ID)
			}
			seen[c.ID] = true
		}
		open = append(open, m.ToolCalls...)
	}
	if len(open) > 0 {
		return fmt.Errorf("call %q has no result", open[0].ID)
	}
	return nil
}

func asJSON(t require.TestingT, v any) string {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

func TestAnswered(t *testing.T) {
	t.Parallel()
	reply := llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{call("a", "x", ""), call("b", "x", "")}}
	twice := llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{call("a", "x", ""), call("a", "x", "")}}
	a, b := call("a", "", "").Result(""), call("b", "", "").Result("")
	require.NoError(t, answered([]llm.Message{reply, a, b, {Role: llm.User}, reply, a, b}))
	require.Error(t, answered([]llm.Message{reply, a}), "too few")
	require.Error(t, answered([]llm.Message{reply, a, b, b}), "too many")
	require.Error(t, answered([]llm.Message{reply, b, a}), "out of order")
	require.Error(t, answered([]llm.Message{reply, a, {Role: llm.User}, b}), "interrupted")
	require.Error(t, answered([]llm.Message{twice, a, a}), "one ID for two calls")
}
