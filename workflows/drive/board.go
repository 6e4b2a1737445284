package drive

import (
	"fmt"
	"strings"

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
