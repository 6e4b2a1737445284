package loop

import (
	"context"
	"fmt"

	"conclave/engine/llm"
)

// answer judges a reply, runs its ordinary tool calls, has an accepted action
// confirmed, and records what comes of it in one entry: an attempt that is lost
// meanwhile leaves the reply unanswered, and all of this is done again.
func (r running) answer(ctx context.Context, reply llm.Message) error {
	v := r.rules.Judge(reply)
	elapsed := r.clock()
	ran, err := r.runOrdinary(ctx, reply.ToolCalls, v.Told)
	if err != nil {
		return err
	}
	e := Entry{Kind: Results, Action: v.Action, Note: v.Note, Seconds: elapsed()}
	var news []llm.Message
	switch {
	case v.Rejected != "":
		e.Kind, e.Reason, e.Action = Rejection, v.Rejected, nil
	case v.Action != nil:
		update, err := r.rules.Confirm(ctx, *v.Action)
		if err != nil {
			return err
		}
		if !update.empty() {
			v = v.withdrawn()
			e.Kind, e.Action, e.Note, news = Updated, nil, update.Note, update.Messages
		}
	}
	e.Messages = append(v.tell(reply, ran), news...)
	if len(e.Messages) == 0 && e.Action == nil {
		return nil // the rules owe the reply an answer
	}
	return r.record(ctx, e)
}

// runOrdinary runs the calls that the rules leave to the tools, in order, and
// returns their results by call ID.
func (r running) runOrdinary(ctx context.Context, calls []llm.ToolCall, told map[string]string) (map[string]Output, error) {
	ran := make(map[string]Output)
	for _, call := range calls {
		if _, ok := told[call.ID]; ok {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		result, err := r.Tools.Run(ctx, call)
		if err != nil {
			return nil, fmt.Errorf("running tool %s: %w", call.Name, err)
		}
		ran[call.ID] = result
	}
	return ran, nil
}

// tell gives every tool call of the reply its one result, from the verdict or
// from the tool that ran, or else says what there is to say.
func (v Ruling) tell(reply llm.Message, ran map[string]Output) []llm.Message {
	var messages, shown []llm.Message
	for _, call := range reply.ToolCalls {
		told, ok := v.Told[call.ID]
		if !ok {
			told = ran[call.ID].Text
			shown = append(shown, pictures(call, ran[call.ID])...)
		}
		messages = append(messages, llm.ToolResult(call, told))
	}
	messages = append(messages, shown...)
	if len(reply.ToolCalls) == 0 && v.Say != "" {
		messages = append(messages, llm.Message{Role: llm.User, Content: v.Say})
	}
	return messages
}

// pictures is the message that shows what a tool's result cannot.
func pictures(call llm.ToolCall, o Output) []llm.Message {
	if len(o.Images) == 0 {
		return nil
	}
	return []llm.Message{{Role: llm.User, Content: fmt.Sprintf("[Images from %s, call %s]", call.Name, call.ID), Images: o.Images}}
}

// withdrawn is the verdict as it is told when its action was turned down.
func (v Ruling) withdrawn() Ruling {
	told := make(map[string]string, len(v.Told))
	for id := range v.Told {
		told[id] = v.Withdrawn
	}
	v.Told, v.Say = told, v.Withdrawn
	return v
}
