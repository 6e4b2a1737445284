package drive

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"conclave/engine/step"
)

// Memo sets the memo of a workflow. Each upsert is an event of the history, so one
// upsert has all fields that changed, and none is written twice.
type Memo struct {
	// Bell is the doorbell; it is set as MemoDoorbell with the first epoch.
	Bell step.Bell

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
