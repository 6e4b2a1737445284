package session

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// world is the inbox of a step under test.
type world struct {
	available news
	texts     map[string]answer
	said      map[int]string
	looks     int
	fetched   []string // labels
}

// reach makes the world the inbox of the step.
func (w *world) reach(t *task) { t.Inbox = w }

func (w *world) news(context.Context) (news, error) {
	w.looks++
	return w.available, nil
}

func (w *world) fetch(_ context.Context, arrivals []arrival) ([]answer, error) {
	var answers []answer
	for _, a := range arrivals {
		w.fetched = append(w.fetched, a.Label)
		answers = append(answers, w.texts[a.Label])
	}
	return answers, nil
}

func (w *world) messages(_ context.Context, numbers []int) ([]message, error) {
	var messages []message
	for _, number := range numbers {
		messages = append(messages, message{Number: number, Text: w.said[number]})
	}
	return messages, nil
}

// answer adds an agent's answer with a revision. Its step is 10 × revision.
func (w *world) answer(number, revision int, text string) answer {
	a := answer{Number: number, Label: fmt.Sprintf("agent%d.%d", number, revision), Step: 10 * revision, Text: text}
	if w.texts == nil {
		w.texts = map[string]answer{}
	}
	w.texts[a.Label] = a
	arrivals := w.available.Arrivals
	w.available.Arrivals = nil
	for _, other := range arrivals {
		if other.Number != number {
			w.available.Arrivals = append(w.available.Arrivals, other)
		}
	}
	w.available.Arrivals = append(w.available.Arrivals, arrival{Number: number, Label: a.Label, Step: a.Step, Seq: len(w.available.Arrivals) + 1})
	return a
}

// say adds a human message.
func (w *world) say(number int, text string) {
	if w.said == nil {
		w.said = map[int]string{}
	}
	w.said[number] = text
	w.available.Messages = append(w.available.Messages, number)
}

// turn is one reply of the scripted model.
type turn struct {
	while func() // runs during the model call
	takes time.Duration
	usage llm.Usage
	calls []llm.ToolCall
	says  string
}

func does(calls ...llm.ToolCall) turn { return turn{calls: calls} }

// played is a step run by the real loop.
type played struct {
	rules    *rules
	action   loop.Action
	err      error
	entries  []loop.Entry
	requests []llm.Request
	ran      []string // ordinary tools
	turns    []turn
	clock    time.Time
}

// play runs a step with a scripted model. It fails with scriptError at the end of the script.
func play(t require.TestingT, ctx context.Context, task task, turns ...turn) *played {
	p := &played{rules: newRules(task), turns: turns, clock: time.Unix(0, 0)}
	opening, err := p.rules.Opening()
	require.NoError(t, err)
	conv := &loop.Conversation{}
	first := loop.Entry{Kind: loop.Opening, Messages: opening}
	p.entries = append(p.entries, first)
	conv.Add(first)
	require.NoError(t, p.rules.Learn(ctx, first))
	l := loop.Loop{Model: p, Tools: p, Journal: p.Append, Now: func() time.Time { return p.clock }}
	p.action, p.err = l.Run(ctx, conv, p.rules)
	return p
}

type scriptError struct{}

func (scriptError) Error() string { return "the script is over" }

func (p *played) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	p.requests = append(p.requests, req)
	if len(p.requests) > len(p.turns) {
		return llm.Reply{}, scriptError{}
	}
	now := p.turns[len(p.requests)-1]
	if now.while != nil {
		now.while()
	}
	p.clock = p.clock.Add(now.takes)
	usage := now.usage
	usage.ModelCalls = 1
	return llm.Reply{Message: llm.Message{Role: llm.Assistant, Content: now.says, ToolCalls: now.calls}, Usage: usage}, nil
}

func (p *played) Tools() []llm.Tool { return nil }

func (p *played) Run(_ context.Context, call llm.ToolCall) (loop.Output, error) {
	p.ran = append(p.ran, call.Name)
	return loop.Output{Text: call.Name + " has run"}, nil
}

func (p *played) Append(_ context.Context, e loop.Entry) error {
	p.entries = append(p.entries, e)
	return nil
}

// updates returns the texts of the step's updates.
func (p *played) updates() []string {
	var texts []string
	for _, e := range p.entries {
		if e.Kind == loop.Updated {
			texts = append(texts, e.Messages[len(e.Messages)-1].Content)
		}
	}
	return texts
}

// results returns the tool results of the last answered reply.
func (p *played) results() []string {
	for i := len(p.entries) - 1; i >= 0; i-- {
		var told []string
		for _, m := range p.entries[i].Messages {
			if m.Role == llm.ToolRole {
				told = append(told, m.Content)
			}
		}
		if len(told) > 0 {
			return told
		}
	}
	return nil
}

// offered returns the names of the tools in a model call.
func (p *played) offered(call int) []string {
	var names []string
	for _, tool := range p.requests[call].Tools {
		names = append(names, tool.Name)
	}
	return names
}

// restored returns new rules that have learned the journal.
func (p *played) restored(t require.TestingT, task task) *rules {
	rules := newRules(task)
	for _, e := range p.entries {
		require.NoError(t, rules.Learn(context.Background(), e))
	}
	return rules
}

// requireRestores requires that restored rules witness, offer and judge like the original ones.
func (p *played) requireRestores(t *testing.T, task task) {
	t.Helper()
	again := p.restored(t, task)
	seen, heard := p.rules.witnessedSteps()
	seenAgain, heardAgain := again.witnessedSteps()
	require.Equal(t, seen, seenAgain)
	require.Equal(t, heard, heardAgain)
	require.Equal(t, p.rules.Offer(), again.Offer())
	for _, calls := range [][]llm.ToolCall{{callAnswer("Two.")}, {vote("agent1")}, {vote("agent2")}, {call("read_file", "{}")}, {call("submit_checklist", "{}")}} {
		require.Equal(t, p.rules.Judge(reply(calls...)), again.Judge(reply(calls...)))
	}
}

// reasons returns the reasons of the entries; they are empty except for rejections.
func (p *played) reasons() []string {
	var reasons []string
	for _, e := range p.entries {
		reasons = append(reasons, e.Reason)
	}
	return reasons
}

func (p *played) kinds() []loop.EntryKind {
	var kinds []loop.EntryKind
	for _, e := range p.entries {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}
