package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Rules are the rules of one segment of an agent's step: a fold of its journal,
// and a task.
type Rules struct {
	task  Task
	conv  loop.Conversation
	asked int // model calls of this segment
	heard int // number of the last human message
	late  bool
}

var _ loop.Rules = (*Rules)(nil)

// NewRules returns the rules of a segment on task, which begins with task.Opening.
func NewRules(task Task) *Rules {
	r := &Rules{task: task}
	if task.Return != nil {
		r.heard = task.Return.Heard
	}
	return r
}

// Messages is the conversation so far. Once an action was accepted, every tool
// call in it has its result: it is what a caller goes on with.
func (r *Rules) Messages() []llm.Message { return r.conv.Messages }

// Iterations is how many model calls the step has made, in all its segments.
func (r *Rules) Iterations() int { return r.task.Used + r.asked }

// Heard is the number of the last human message that the step was told.
func (r *Rules) Heard() int { return r.heard }

// Offer returns the tools by which the step can go elsewhere.
func (r *Rules) Offer() []llm.Tool {
	if len(r.task.Destinations) == 0 {
		return nil
	}
	tools := []llm.Tool{control(JumpTool, "Hand over to another step, for good: this step ends with this call.", r.task.Destinations)}
	if !r.task.Deepest {
		tools = append(tools, control(CallTool, "Have another step do its work now. Its result comes back to you, and you go on from here.", r.task.Destinations))
	}
	return tools
}

// memory is what the rules keep with an update.
type memory struct {
	Heard int  `json:"heard"`
	Late  bool `json:"late,omitempty"` // it turned an action down
}

// Updates brings what people said at a safe point.
func (r *Rules) Updates(ctx context.Context) (loop.Update, error) { return r.news(ctx, false) }

// Confirm brings what people said before an action counts, once.
func (r *Rules) Confirm(ctx context.Context, _ loop.Action) (loop.Update, error) {
	if r.late || r.Iterations() >= r.task.Most {
		return loop.Update{}, nil
	}
	return r.news(ctx, true)
}

func (r *Rules) news(ctx context.Context, late bool) (loop.Update, error) {
	if r.task.Hear == nil {
		return loop.Update{}, nil
	}
	messages, err := r.task.Hear(ctx, r.heard)
	if err != nil {
		return loop.Update{}, fmt.Errorf("hearing what people said: %w", err)
	}
	if len(messages) == 0 {
		return loop.Update{}, nil
	}
	note, err := json.Marshal(memory{Heard: messages[len(messages)-1].Number, Late: late})
	return loop.Update{Messages: []llm.Message{said(messages)}, Note: note}, err
}

// Learn implements loop.Rules.
func (r *Rules) Learn(_ context.Context, e loop.Entry) error {
	r.conv.Add(e)
	switch e.Kind {
	case loop.Reply:
		r.asked++
	case loop.Updated:
		if len(e.Note) == 0 {
			return nil
		}
		var m memory
		if err := json.Unmarshal(e.Note, &m); err != nil {
			return fmt.Errorf("reading what was told before: %w", err)
		}
		r.heard, r.late = max(r.heard, m.Heard), r.late || m.Late
	}
	return nil
}
