package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"conclave/engine/llm"
)

// Bounds of one step.
const (
	// MaxRejections is how many rejected replies end a step (seed 001: an
	// agent has three attempts at a valid workflow action).
	MaxRejections = 3

	// MaxModelCalls bounds a step whose model never tires of ordinary tools.
	MaxModelCalls = 200
)

// Loop is the machinery of a step.
type Loop struct {
	Model   Model
	Tools   Tools
	Journal Journal

	// MaxModelCalls is at most the constant of that name; 0 means the constant.
	MaxModelCalls int
}

// RejectedError says that the model used up its attempts.
type RejectedError struct {
	Attempts int
	Reason   string // code of the last rejection
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("no valid action after %d attempts (last rejection: %s)", e.Attempts, e.Reason)
}

// ModelCallsError says that the step made as many model calls as it may
// without coming to an action.
type ModelCallsError struct{ Calls int }

func (e *ModelCallsError) Error() string {
	return fmt.Sprintf("no action after %d model calls", e.Calls)
}

// Run carries conv on until the rules accept an action. On error conv holds
// everything that was journaled, usage included.
func (l Loop) Run(ctx context.Context, conv *Conversation, rules Rules) (Action, error) {
	if action, ok := l.decided(conv, rules); ok {
		return action, nil
	}
	for {
		reply, given := conv.unanswered()
		if !given {
			var err error
			if reply, err = l.ask(ctx, conv, rules); err != nil {
				return Action{}, err
			}
		}
		verdict := rules.Judge(reply)
		if err := l.answer(ctx, conv, reply, verdict); err != nil {
			return Action{}, err
		}
		if verdict.Action != nil {
			return *verdict.Action, nil
		}
		if _, silent := conv.unanswered(); silent {
			return Action{}, fmt.Errorf("the rules left a reply without tool calls unanswered: %.80q", reply.Content)
		}
	}
}

// decided finds the action of a restored conversation whose last reply was
// accepted and whose tools had run when the attempt was lost.
func (l Loop) decided(conv *Conversation, rules Rules) (Action, bool) {
	reply, ok := conv.answered()
	if !ok {
		return Action{}, false
	}
	if v := rules.Judge(reply); v.Action != nil {
		return *v.Action, true
	}
	return Action{}, false
}

// ask is the safe point and the model call that follows it.
func (l Loop) ask(ctx context.Context, conv *Conversation, rules Rules) (llm.Message, error) {
	if err := l.bounds(conv); err != nil {
		return llm.Message{}, err
	}
	news, err := rules.Updates(ctx)
	if err != nil {
		return llm.Message{}, err
	}
	if len(news) > 0 {
		if err := l.record(ctx, conv, Entry{Kind: Update, Messages: news}); err != nil {
			return llm.Message{}, err
		}
	}
	// Cancellation and fencing arrive through ctx: no call is paid for after it ends.
	if ctx.Err() != nil {
		return llm.Message{}, context.Cause(ctx)
	}
	reply, err := l.Model.Generate(ctx, llm.Request{
		Messages: conv.Messages,
		Tools:    slices.Concat(rules.Offer(), l.Tools.Tools()),
	})
	if err != nil {
		return llm.Message{}, errors.Join(err, l.waste(ctx, conv, reply.Usage))
	}
	reply.Message.Role = llm.Assistant
	reply.Message.ToolCalls = uniqueIDs(reply.Message.ToolCalls, len(conv.Messages))
	err = l.record(ctx, conv, Entry{Kind: Reply, Messages: []llm.Message{reply.Message}, Usage: &reply.Usage})
	return reply.Message, err
}

// waste counts a reply that was of no use but has to be paid for.
func (l Loop) waste(ctx context.Context, conv *Conversation, u llm.Usage) error {
	if u.ModelCalls == 0 {
		return nil
	}
	return l.record(ctx, conv, Entry{Kind: Wasted, Usage: &u})
}

// bounds says whether conv may ask once more. It looks at nothing but conv, so
// that a restored conversation ends where it would have ended.
func (l Loop) bounds(conv *Conversation) error {
	limit := MaxModelCalls
	if l.MaxModelCalls > 0 {
		limit = min(limit, l.MaxModelCalls)
	}
	switch {
	case conv.Rejections >= MaxRejections:
		return &RejectedError{Attempts: conv.Rejections, Reason: conv.Rejected}
	case conv.Replies >= limit:
		return &ModelCallsError{Calls: conv.Replies}
	}
	return nil
}

// answer gives every tool call of the reply its one result, from the verdict or
// by running the tool, and records what the model will read next.
func (l Loop) answer(ctx context.Context, conv *Conversation, reply llm.Message, v Verdict) error {
	entry := Entry{Kind: Results, Reason: v.Rejected}
	if v.Rejected != "" {
		entry.Kind = Rejection
	}
	for _, call := range reply.ToolCalls {
		told, ok := v.Told[call.ID]
		if !ok {
			var err error
			if told, err = l.run(ctx, call); err != nil {
				return err
			}
		}
		entry.Messages = append(entry.Messages, llm.ToolResult(call, told))
	}
	if len(reply.ToolCalls) == 0 && v.Say != "" {
		entry.Messages = append(entry.Messages, llm.Message{Role: llm.User, Content: v.Say})
	}
	if len(entry.Messages) == 0 {
		return nil
	}
	return l.record(ctx, conv, entry)
}

func (l Loop) run(ctx context.Context, call llm.ToolCall) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	told, err := l.Tools.Run(ctx, call)
	if err != nil {
		return "", fmt.Errorf("running tool %s: %w", call.Name, err)
	}
	return told, nil
}

// record journals an entry before it counts.
func (l Loop) record(ctx context.Context, conv *Conversation, e Entry) error {
	if err := l.Journal.Append(ctx, e); err != nil {
		return fmt.Errorf("journaling a %s: %w", e.Kind, err)
	}
	conv.Add(e)
	return nil
}

// uniqueIDs gives calls without an ID, or with one used twice, an ID of their
// own: some servers send none, and results are matched by ID. The position in
// the conversation keeps it apart from those given to earlier replies. The
// model's own slice is left alone.
func uniqueIDs(calls []llm.ToolCall, position int) []llm.ToolCall {
	calls = slices.Clone(calls)
	seen := make(map[string]bool, len(calls))
	for i := range calls {
		id := calls[i].ID
		for n := i; id == "" || seen[id]; n++ {
			id = fmt.Sprintf("call_%d_%d", position, n)
		}
		calls[i].ID, seen[id] = id, true
	}
	return calls
}
