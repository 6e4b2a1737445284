package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/team"
)

// Message is messages/<NNN>.json: what a person said. Launches and the doorbell
// carry only its number.
type Message struct {
	Number int       `json:"number"`          // from 1, over all messages of the session
	Agent  string    `json:"agent,omitempty"` // whom it is for; empty for everybody
	Text   string    `json:"text"`
	SaidAt time.Time `json:"said_at"`
}

// MessageKey is where the message with the given number lies.
func MessageKey(layout artifact.Layout, number int) string {
	return layout.File(fmt.Sprintf("messages/%03d.json", number))
}

// UnwrittenError says that a message a step is to hear is not in the store yet:
// the record that writes it may be under way still. A later attempt finds it.
type UnwrittenError struct{ Number int }

func (e *UnwrittenError) Error() string {
	return fmt.Sprintf("message %d is not in the store after %v: it is written with the ledger; the step is tried again", e.Number, unwrittenPatience)
}

// A message is announced in the moment in which its record is scheduled.
const (
	unwrittenPatience = 10 * time.Second
	unwrittenPoll     = 200 * time.Millisecond
)

// hear reads the texts of messages, in the order of their numbers given. It
// waits a while for those that are not written yet; then the error is an
// *UnwrittenError.
func hear(ctx context.Context, store artifact.Store, layout artifact.Layout, numbers []int) ([]team.Message, error) {
	deadline := time.Now().Add(unwrittenPatience)
	var heard []team.Message
	for _, number := range numbers {
		m, err := await(ctx, store, MessageKey(layout, number), deadline)
		if errors.Is(err, artifact.ErrNotFound) {
			return nil, &UnwrittenError{Number: number}
		}
		if err != nil {
			return nil, fmt.Errorf("reading message %d: %w", number, err)
		}
		heard = append(heard, team.Message{Number: number, Text: m.Text})
	}
	return heard, nil
}

// await reads the message under key as soon as it is there, and gives up with
// artifact.ErrNotFound at the deadline.
func await(ctx context.Context, store artifact.Store, key string, deadline time.Time) (Message, error) {
	for {
		m, err := artifact.ReadJSON[Message](ctx, store, key)
		if !errors.Is(err, artifact.ErrNotFound) || !time.Now().Before(deadline) {
			return m, err
		}
		select {
		case <-ctx.Done():
			return Message{}, context.Cause(ctx)
		case <-time.After(unwrittenPoll):
		}
	}
}
