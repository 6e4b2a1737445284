package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/step"
)

// memory is the journaled note of an update.
type memory struct {
	Heard    int  `json:"heard,omitempty"`
	Late     bool `json:"late,omitempty"`     // messages withdrew a report
	Evidence bool `json:"evidence,omitempty"` // the lack of evidence withdrew a report
}

// Updates implements loop.Rules. It returns people's messages, and ends a step that has spent
// its allowance.
func (r *rules) Updates(ctx context.Context) (loop.Update, error) {
	if limit := r.step.Launch.Limits.CostUSD; limit > 0 && r.usage.AtLeastUSD() >= limit {
		return loop.Update{}, &loop.EndedError{Why: loop.EndAllowance}
	}
	return r.news(ctx, false)
}

// Confirm implements loop.Rules. It withdraws a report at most once because of new messages,
// and at most once because of missing evidence.
func (r *rules) Confirm(ctx context.Context, a loop.Action) (loop.Update, error) {
	if !r.delayed {
		if update, err := r.news(ctx, true); err != nil || len(update.Messages) > 0 {
			return update, err
		}
	}
	return r.missingEvidence(ctx, a)
}

func (r *rules) news(ctx context.Context, late bool) (loop.Update, error) {
	if r.step.News == nil {
		return loop.Update{}, nil
	}
	messages, err := r.step.News(ctx, r.heard)
	if err != nil {
		return loop.Update{}, fmt.Errorf("reading the messages of people: %w", err)
	}
	if len(messages) == 0 {
		return loop.Update{}, nil
	}
	return update(step.Quote(messages), memory{Heard: messages[len(messages)-1].Number, Late: late})
}

// missingEvidence asks the agent, once, for required evidence that it has not recorded.
func (r *rules) missingEvidence(ctx context.Context, a loop.Action) (loop.Update, error) {
	var reported report
	if err := json.Unmarshal(a.Payload, &reported); err != nil {
		return loop.Update{}, fmt.Errorf("reading a report: %w", err)
	}
	if r.step.Pieces == nil || r.reminded || reported.Status != scenario.Pass {
		return loop.Update{}, nil
	}
	kept, err := r.step.Pieces(ctx)
	if err != nil || kept > 0 {
		return loop.Update{}, err
	}
	return update(llm.Message{
		Role:    llm.User,
		Content: "This step passes only with evidence, and none is recorded. Record what shows the outcome with " + scenario.EvidenceTool + ", then report again.",
	}, memory{Evidence: true})
}

func update(message llm.Message, m memory) (loop.Update, error) {
	note, err := json.Marshal(m)
	return loop.Update{Messages: []llm.Message{message}, Note: note}, err
}

// Learn implements loop.Rules.
func (r *rules) Learn(_ context.Context, e loop.Entry) error {
	if e.Usage != nil {
		r.usage = r.usage.Add(*e.Usage)
	}
	switch e.Kind {
	case loop.Resumed:
		r.usage = llm.Usage{} // Launch.Limits are already reduced by the usage of earlier launches
	case loop.BegunAgain:
		r.used = 0
	case loop.Reply:
		for _, m := range e.Messages {
			for _, call := range m.ToolCalls {
				if call.Name != scenario.EvidenceTool && call.Name != reportTool && r.knows(call.Name) {
					r.used++
				}
			}
		}
	case loop.Updated:
		if len(e.Note) == 0 {
			return nil
		}
		var m memory
		if err := json.Unmarshal(e.Note, &m); err != nil {
			return fmt.Errorf("reading the note of an update: %w", err)
		}
		r.heard = max(r.heard, m.Heard)
		r.delayed, r.reminded = r.delayed || m.Late, r.reminded || m.Evidence
	}
	return nil
}
