package agent

import (
	"context"

	"conclave/engine/artifact"
	"conclave/engine/step"
)

// ReadMessages reads the messages after the number after, up to the number last.
// The error is a *step.UnwrittenError while one is not stored.
func ReadMessages(ctx context.Context, store artifact.Store, layout artifact.Layout, after, last int) ([]Message, error) {
	var numbers []int
	for n := after + 1; n <= last; n++ {
		numbers = append(numbers, n)
	}
	stored, err := step.ReadMessages(ctx, store, layout, numbers)
	var messages []Message
	for _, m := range stored {
		messages = append(messages, Message{Number: m.Number, Text: m.Text})
	}
	return messages, err
}
