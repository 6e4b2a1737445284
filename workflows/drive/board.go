package drive

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// Board builds the Markdown that the Web UI shows as a workflow's current details.
type Board struct{ strings.Builder }

// Print appends formatted text. It does not call fmt.Fprintf, whose effect on a writer
// workflowcheck counts as not deterministic.
func (b *Board) Print(format string, args ...any) {
	b.WriteString(fmt.Sprintf(format, args...)) //nolint:staticcheck // QF1012 wants the Fprintf that workflowcheck refuses
}

// Cost formats a usage.
func Cost(u llm.Usage) string {
	text := fmt.Sprintf("%d tokens, %d calls", Tokens(u), u.ModelCalls)
	if u.TotalUSD != nil {
		text += fmt.Sprintf(", $%.4f", *u.TotalUSD)
	}
	return text
}

// Tokens is the number of input and output tokens.
func Tokens(u llm.Usage) int64 { return u.InputTokens + u.OutputTokens }

// Memo sets the memo of a workflow. Each upsert is an event of the history, so one
// upsert has all fields that changed, and none is written twice.
type Memo struct {
	// Bell is the doorbell; it is set as MemoDoorbell with the first epoch.
	Bell coordination.Ring

	fields []MemoField
	epoch  int // of the bell last set
}

// MemoField is one key of a memo with a comparable value.
type MemoField struct {
	Key   string
	Value any
}

// Set upserts the fields that differ from those last set, and the bell if it was rung.
func (m *Memo) Set(ctx workflow.Context, fields ...MemoField) {
	changed := map[string]any{}
	for _, f := range fields {
		if slices.Contains(m.fields, f) {
			continue
		}
		m.fields = append(slices.DeleteFunc(m.fields, func(old MemoField) bool { return old.Key == f.Key }), f)
		changed[f.Key] = f.Value
	}
	if m.Bell.Epoch != m.epoch {
		m.epoch, changed[MemoDoorbell] = m.Bell.Epoch, m.Bell
	}
	if len(changed) == 0 {
		return
	}
	if err := workflow.UpsertMemo(ctx, changed); err != nil {
		workflow.GetLogger(ctx).Error("the memo could not be set", "error", err)
	}
}
