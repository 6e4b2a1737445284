package drive

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/text"
)

// Board builds the Markdown that the Web UI shows as the current details of a workflow.
type Board struct{ strings.Builder }

// Print appends formatted text.
func (b *Board) Print(format string, args ...any) {
	fmt.Fprintf(b, format, args...) //workflowcheck:ignore // a buffer is deterministic
}

// Headline appends a line with the status, further detail and the usage.
func (b *Board) Headline(status, detail string, u llm.Usage) {
	b.Print("**%s** · %s · %d tokens, %d calls", status, detail, u.InputTokens+u.OutputTokens, u.ModelCalls)
	if u.TotalUSD != nil {
		b.Print(", $%.4f", *u.TotalUSD)
	}
	b.WriteString("\n\n")
}

// Quote appends a text from the input as a block quote.
func (b *Board) Quote(s string) {
	b.Print("> %s\n\n", text.Markdown(text.Truncate(s, 2000)))
}

// Ignored appends the last signal that could not be decoded, if any.
func (b *Board) Ignored(signal string) {
	if signal != "" {
		b.Print("**Ignored:** the signal %s\n\n", text.Markdown(signal))
	}
}

// Files appends the directory of the file at url, unless url is empty.
func (b *Board) Files(url string) {
	if url != "" {
		b.Print("\nFiles: `%s`\n", url[:strings.LastIndex(url, "/")+1])
	}
}

// Memo sets the memo of a workflow. Each upsert adds an event to the history, so one upsert
// contains all fields that changed and no others.
type Memo struct {
	// Bell is the doorbell. It is set as MemoDoorbell once it has been rung.
	Bell coordination.Ring

	fields map[string]any // the memo's fields as last set
	epoch  int            // the bell's epoch when it was last set
}

// bounds has the lengths, in bytes, to which long fields are truncated.
var bounds = map[string]int{MemoQuery: 200, MemoParked: 500}

// Set upserts the fields whose values differ from the last ones, and the bell if it was rung.
// Values must be comparable.
func (m *Memo) Set(ctx workflow.Context, fields map[string]any) {
	if m.fields == nil {
		m.fields = map[string]any{}
	}
	changed := map[string]any{}
	//workflowcheck:ignore // the order makes no difference
	for key, value := range fields {
		if s, ok := value.(string); ok && bounds[key] > 0 {
			value = text.Truncate(s, bounds[key])
		}
		if m.fields[key] != value {
			m.fields[key], changed[key] = value, value
		}
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
