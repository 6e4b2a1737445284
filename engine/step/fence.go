package step

import (
	"context"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// alive reports why the attempt must not go on, if it must not. The end of ctx
// alone is not enough: a process that was stopped, or a machine that slept, goes
// on before whoever watches over the attempt has noticed.
func (p Ports) alive(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.Alive == nil {
		return nil
	}
	return p.Alive()
}

// fencedModel asks before every call.
type fencedModel struct {
	loop.Model
	alive func(context.Context) error
}

// Generate implements loop.Model.
func (m fencedModel) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	if err := m.alive(ctx); err != nil {
		return llm.Reply{}, err
	}
	return m.Model.Generate(ctx, req)
}

// fencedTools ask before every run.
type fencedTools struct {
	opened loop.Tools
	alive  func(context.Context) error
}

// Tools implements loop.Tools.
func (t fencedTools) Tools() []llm.Tool { return t.opened.Tools() }

// Run implements loop.Tools.
func (t fencedTools) Run(ctx context.Context, call llm.ToolCall) (string, error) {
	if err := t.alive(ctx); err != nil {
		return "", err
	}
	return t.opened.Run(ctx, call)
}
