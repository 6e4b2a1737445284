package loop

import (
	"context"
	"fmt"
	"slices"

	"conclave/engine/llm"
)

// Caller has the tools that the session's caller runs. To wait for their results, a step ends
// its activity; a later launch continues it.
type Caller struct {
	Tools []llm.Tool

	// ID returns the ID of the n-th call of this launch, from 1.
	ID func(n int) string

	// Result returns the result of a call; ok is false while the call is open.
	Result func(ctx context.Context, id string) (content string, ok bool, err error)
}

// Limits of the calls in one reply.
const (
	maxCallerCalls     = 32
	maxCallerArguments = 256 << 10 // bytes of one call
)

func (c Caller) has(name string) bool {
	return slices.ContainsFunc(c.Tools, func(t llm.Tool) bool { return t.Name == name })
}

// AwaitedCall is a call of a caller's tool.
type AwaitedCall struct {
	Call      string `json:"call"` // its ID in the conversation
	ID        string `json:"id"`   // the ID by which the caller knows it
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Held is the output of a call that ran before the step began to wait for the caller.
type Held struct {
	Call string `json:"call"`
	Output
}

// awaited adds the results of the caller's tools to the outputs. If some are missing, it
// records the outputs so far and returns an EndedError with the calls that have none.
func (r running) awaited(ctx context.Context, calls []llm.ToolCall, outputs map[string]Output) error {
	asked := r.conv.awaits
	if asked == nil {
		asked = r.newCalls(calls, outputs)
	}
	if len(asked) == 0 {
		return nil
	}
	var open []AwaitedCall
	for _, call := range asked {
		content, ok := "", false
		if r.conv.awaits != nil {
			var err error
			if content, ok, err = r.Caller.Result(ctx, call.ID); err != nil {
				return fmt.Errorf("reading the caller's result of %s: %w", call.ID, err)
			}
		}
		if ok {
			outputs[call.Call] = Output{Text: content}
		} else {
			open = append(open, call)
		}
	}
	if len(open) == 0 {
		return nil
	}
	if r.conv.awaits == nil {
		e := Entry{Kind: Awaited, Awaits: asked}
		for _, call := range calls {
			if output, ok := outputs[call.ID]; ok {
				e.Held = append(e.Held, Held{call.ID, output})
			}
		}
		if err := r.record(ctx, e); err != nil {
			return err
		}
	}
	return &EndedError{Why: EndAwaiting, Calls: open}
}

// newCalls returns the calls of the caller's tools that have no output, with their IDs. Calls
// beyond the limits get an output that says so.
func (r running) newCalls(calls []llm.ToolCall, outputs map[string]Output) []AwaitedCall {
	var asked []AwaitedCall
	for _, call := range calls {
		if _, done := outputs[call.ID]; done || !r.Caller.has(call.Name) {
			continue
		}
		switch {
		case len(call.Arguments) > maxCallerArguments:
			outputs[call.ID] = Output{Text: fmt.Sprintf("not called: the arguments have %d bytes, at most %d are accepted", len(call.Arguments), maxCallerArguments), Failed: true}
		case len(asked) == maxCallerCalls:
			outputs[call.ID] = Output{Text: fmt.Sprintf("not called: a reply may have %d calls of these tools; call it again in the next reply", maxCallerCalls), Failed: true}
		default:
			*r.called++
			asked = append(asked, AwaitedCall{Call: call.ID, ID: r.Caller.ID(*r.called), Name: call.Name, Arguments: call.Arguments})
		}
	}
	return asked
}
