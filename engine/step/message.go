package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/text"
)

// Message is messages/<NNN>.json: a human message. Launches and the doorbell contain only its number.
type Message struct {
	Number int       `json:"number"`           // number among all messages of the run, from 1
	Agent  string    `json:"agent,omitempty"`  // the recipient; empty for everybody
	Branch string    `json:"branch,omitempty"` // the branch of a pipeline's run that it is for; empty for all
	Text   string    `json:"text"`
	SaidAt time.Time `json:"said_at"`
}

// UnwrittenError reports that a message, or the result of a caller's tool, is announced but not
// stored yet: the activity that writes it may still be running. A later attempt will find it.
type UnwrittenError struct {
	Number int
	Call   string // ID; empty for a message
}

func (e *UnwrittenError) Error() string {
	if e.Call != "" {
		return fmt.Sprintf("the result of call %s is not in the store after %v: its record may still be running; the step is tried again", e.Call, unwrittenPatience)
	}
	return fmt.Sprintf("message %d is not in the store after %v: its record may still be running; the step is tried again", e.Number, unwrittenPatience)
}

// Limits of the wait for a message, which is announced when its record is scheduled.
const (
	unwrittenPatience = 10 * time.Second
	unwrittenPoll     = 200 * time.Millisecond
)

// ReadMessages reads the messages with the given numbers, in that order. It waits up to ten
// seconds for those that are not stored yet, and then returns an *UnwrittenError.
func ReadMessages(ctx context.Context, store artifact.Store, layout artifact.Layout, numbers []int) ([]Message, error) {
	deadline := time.Now().Add(unwrittenPatience)
	var messages []Message
	for _, number := range numbers {
		m, err := awaitMessage(ctx, store, layout.Message(number), deadline)
		if errors.Is(err, artifact.ErrNotFound) {
			return nil, &UnwrittenError{Number: number}
		}
		if err != nil {
			return nil, fmt.Errorf("read message %d: %w", number, err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// awaitMessage reads the message under key as soon as it exists. It fails with
// artifact.ErrNotFound at the deadline.
func awaitMessage(ctx context.Context, store artifact.Store, key string, deadline time.Time) (Message, error) {
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

// Quote joins messages into one message of the conversation.
func Quote(messages []Message) llm.Message {
	var b strings.Builder
	b.WriteString("A person who watches this run says:")
	for _, m := range messages {
		b.WriteString("\n\n" + text.Within(m.Text))
	}
	return llm.Message{Role: llm.User, Content: b.String()}
}
