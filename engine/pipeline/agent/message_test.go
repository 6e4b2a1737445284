package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	"conclave/engine/step"
)

// say stores a human message.
func (d *desk) say(number int, text string) {
	d.t.Helper()
	key := d.layout.Message(number)
	require.NoError(d.t, artifact.PutJSON(d.t.Context(), d.store, key, step.Message{Number: number, Text: text, SaidAt: now}))
}

// A step reads each message once, whether sent before or after its start, and its commit has the
// number of the last one.
func TestMessages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.say(1, "Use tabs.")
	l := launch("main", 0)
	l.Messages = 1
	s := d.step(l, "run-l1")
	rung := 0
	s.Messages = func(context.Context) (int, error) {
		if rung++; rung == 2 {
			d.say(2, "A toad.")
		}
		return min(rung, 2), nil
	}
	r, model := d.run(s, writes("draft.md", "a frog"), calls("lint"))
	require.Contains(t, model.requests[0][2].Content, "Use tabs.")
	require.Contains(t, model.requests[1][5].Content, "A toad.")
	require.NotContains(t, model.requests[1][5].Content, "tabs", "once")
	require.Equal(t, 2, r.Commit.Heard)

	// A caller that continues reads only the new message.
	d.run(d.step(launch("lint", 1), "run-l2"), says("clean"))
	d.say(3, "No frogs.")
	back := launch("main", 2)
	back.Messages, back.Used = 3, 2
	back.Return = &pipeline.Return{Messages: d.outcome(r).Messages, Called: pipeline.Ref{Number: 2, Step: "lint"}, Status: pipeline.Completed}
	r, model = d.run(d.step(back, "run-l3"), says("Written."))
	last := model.requests[0][len(model.requests[0])-1].Content
	require.Contains(t, last, "No frogs.")
	require.NotContains(t, last, "toad")
	require.Equal(t, 3, r.Commit.Heard)
}

// A step waits for a message that was announced but is not stored yet. It ends if the number of
// messages cannot be read.
func TestMessages_areNotMissed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l := launch("main", 0)
	l.Messages = 1
	synctest.Test(t, func(t *testing.T) {
		bubble := *d
		bubble.t = t
		_, _, err := bubble.attempt(bubble.step(l, "run-l1"), says("Written."))
		unwritten, ok := errors.AsType[*step.UnwrittenError](err)
		require.True(t, ok, err)
		require.Equal(t, 1, unwritten.Number)
	})

	d.put(d.layout.Message(1), []byte("{"))
	_, _, err := d.attempt(d.step(l, "run-l1"), says("Written."))
	require.ErrorContains(t, err, "read message 1")

	s := d.step(launch("main", 0), "run-l2")
	deaf := errors.New("no line")
	s.Messages = func(context.Context) (int, error) { return 0, deaf }
	_, _, err = d.attempt(s, says("Written."))
	require.ErrorIs(t, err, deaf)
}

// A step without a model reads no messages.
func TestMessages_toolsStep(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l := launch("lint", 0)
	l.Kind, l.Messages = pipeline.Tools, 1 // and not stored
	r, _ := d.run(d.step(l, "run-l1"), says("clean"))
	require.Zero(t, r.Commit.Heard)
}
