package step

import (
	"context"
	"encoding/json"
	"fmt"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/redact"
)

// alive returns the reason why the attempt must end, or nil. It also calls Alive, because a
// stopped process or a sleeping machine may continue before ctx is cancelled.
func (p Ports) alive(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.Alive == nil {
		return nil
	}
	return p.Alive()
}

// fencedModel checks that the attempt is alive before every call.
type fencedModel struct {
	loop.Model
	alive func(context.Context) error

	// interrupted is cleared before a model call, because the tool calls of the next reply
	// are new, even if their IDs are the same.
	interrupted map[string]bool
}

// Generate implements loop.Model.
func (m fencedModel) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	if err := m.alive(ctx); err != nil {
		return llm.Reply{}, err
	}
	clear(m.interrupted)
	return m.Model.Generate(ctx, req)
}

// fencedTools check before every run that the attempt is alive and the journal written.
type fencedTools struct {
	ws      *workspace
	ports   Ports
	journal *journal

	interrupted map[string]bool // IDs of calls that may have run already
}

// outcomeUnknown is the result of a call that may have run and must not run twice.
const outcomeUnknown = "The step was interrupted while this call ran, or just before. Whether it took effect is not known: find out before you call it again."

// Tools implements loop.Tools.
func (t fencedTools) Tools() []llm.Tool { return t.ws.tools.Tools() }

// Run implements loop.Tools.
func (t fencedTools) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	if err := t.journal.settle(); err != nil {
		return loop.Output{}, err
	}
	if err := t.ports.alive(ctx); err != nil {
		return loop.Output{}, err
	}
	if t.interrupted[call.ID] && t.ports.Repeatable != nil && !t.ports.Repeatable(call.Name) {
		return loop.Output{Text: outcomeUnknown, Failed: true}, nil
	}
	fenced, stop := t.ports.fence(ctx)
	defer stop()
	out, err := t.ws.run(fenced, call)
	if fenced.Err() != nil { // a tool that the fence has ended may return a result
		return loop.Output{}, context.Cause(fenced)
	}
	out.Text = string(t.ports.redact([]byte(out.Text)))
	return out, err
}

func (p Ports) fence(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.Fence == nil {
		return ctx, func() {}
	}
	return p.Fence(ctx)
}

func (p Ports) redact(data []byte) []byte {
	if p.Redact == nil {
		return data
	}
	return p.Redact(data)
}

// redactJSON removes secrets from the string values of a document.
func (p Ports) redactJSON(document []byte) ([]byte, error) {
	if p.Redact == nil {
		return document, nil
	}
	return redact.JSON(document, p.Redact)
}

func (p Ports) redactLines(lines []Line) ([]Line, error) {
	if p.Redact == nil {
		return lines, nil
	}
	clean := make([]Line, len(lines))
	for i, l := range lines {
		data, err := json.Marshal(l)
		if err != nil {
			return nil, err
		}
		if data, err = p.redactJSON(data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &clean[i]); err != nil {
			return nil, fmt.Errorf("redacting the %s: %w", l.Kind, err)
		}
	}
	return clean, nil
}
