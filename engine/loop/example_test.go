package loop_test

import (
	"context"
	"encoding/json"
	"fmt"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// parrot is a model that lists the files and then submits an answer.
type parrot struct{ calls int }

func (p *parrot) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	p.calls++
	call := llm.ToolCall{ID: "1", Name: "list_files", Arguments: "{}"}
	if p.calls > 1 {
		last := req.Messages[len(req.Messages)-1].Content
		call = llm.ToolCall{ID: "2", Name: "submit", Arguments: fmt.Sprintf(`{"text": %q}`, "I found "+last)}
	}
	return llm.Reply{Message: llm.Message{ToolCalls: []llm.ToolCall{call}}, Usage: llm.Usage{ModelCalls: 1}}, nil
}

// shelf has one ordinary tool.
type shelf struct{}

func (shelf) Tools() []llm.Tool { return []llm.Tool{{Name: "list_files"}} }

func (shelf) Run(context.Context, llm.ToolCall) (loop.Output, error) {
	return loop.Output{Text: "draft.md"}, nil
}

// submission are rules that end the step with the first call of submit.
type submission struct{}

func (submission) Offer() []llm.Tool { return []llm.Tool{{Name: "submit"}} }

func (submission) Judge(reply llm.Message) loop.Ruling {
	for _, call := range reply.ToolCalls {
		if call.Name == "submit" {
			return loop.Ruling{
				Action:  &loop.Action{Kind: "submit", Payload: json.RawMessage(call.Arguments)},
				Results: map[string]string{call.ID: "Submitted."},
			}
		}
	}
	return loop.Ruling{}
}

func (submission) Updates(context.Context) (loop.Update, error) { return loop.Update{}, nil }

func (submission) Confirm(context.Context, loop.Action) (loop.Update, error) {
	return loop.Update{}, nil
}

func (submission) Learn(context.Context, loop.Entry) error { return nil }

// printed is a journal on standard output.
type printed struct{}

func (printed) Append(_ context.Context, e loop.Entry) error {
	fmt.Print(e.Kind)
	for _, m := range e.Messages {
		for _, call := range m.ToolCalls {
			fmt.Printf(" %s(%s)", call.Name, call.Arguments)
		}
		if m.Content != "" {
			fmt.Printf(" %q", m.Content)
		}
	}
	fmt.Println()
	return nil
}

func ExampleLoop_Run() {
	conv := &loop.Conversation{}
	conv.Append(true, llm.Message{Role: llm.User, Content: "Which files are there?"})
	l := loop.Loop{Model: &parrot{}, Tools: shelf{}, Journal: printed{}.Append}
	action, err := l.Run(context.Background(), conv, submission{})
	fmt.Println(action.Kind, string(action.Payload), err)
	// Output:
	// reply list_files({})
	// results "draft.md"
	// reply submit({"text": "I found draft.md"})
	// results "Submitted."
	// submit {"text": "I found draft.md"} <nil>
}
