package segment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/pipeline"
)

// Message is messages/<NNN>.json: what a person said.
type Message struct {
	Number int       `json:"number"`
	Text   string    `json:"text"`
	SaidAt time.Time `json:"said_at"`
}

// MessageKey is the key of a human message.
func MessageKey(layout artifact.Layout, number int) string {
	return layout.File(fmt.Sprintf("messages/%03d.json", number))
}

// UnwrittenError says that a message is announced and not stored yet. It will be.
type UnwrittenError struct{ Number int }

func (e *UnwrittenError) Error() string {
	return fmt.Sprintf("human message %d is not stored yet; it is being written", e.Number)
}

// ReadMessages reads the messages after the number after, up to the number last.
func ReadMessages(ctx context.Context, store artifact.Store, layout artifact.Layout, after, last int) ([]pipeline.Message, error) {
	var messages []pipeline.Message
	for n := after + 1; n <= last; n++ {
		m, err := artifact.ReadJSON[Message](ctx, store, MessageKey(layout, n))
		switch {
		case errors.Is(err, artifact.ErrNotFound):
			return nil, &UnwrittenError{n}
		case err != nil:
			return nil, fmt.Errorf("reading human message %d: %w", n, err)
		}
		messages = append(messages, pipeline.Message{Number: n, Text: m.Text})
	}
	return messages, nil
}
