package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// Bounds of the results in one request and of those that are not yet on record, in bytes. A
// payload of 2 MB hangs the workflow.
const (
	maxResults = 512 << 10
	maxPending = 1 << 20
)

// accepts refuses results that are too large to be recorded.
func (l *ledger) accepts(e coordination.ToolResults) error {
	size, pending := 0, 0
	for _, r := range e.Results {
		size += len(r.Content)
	}
	for _, r := range l.results {
		pending += len(r.Content)
	}
	switch {
	case size > maxResults:
		return fmt.Errorf("the results have %d bytes, at most %d are accepted in one request", size, maxResults)
	case size+pending > maxPending:
		return fmt.Errorf("earlier results are still being written: %w", drive.ErrTooEarly)
	}
	return nil
}

// answer enters results, which steps wait for.
func (l *ledger) answer(results []coordination.ToolResult) {
	if len(results) > 0 {
		l.results = append(l.results, results...)
		l.due = true
	}
}

// askCaller starts the timer of the caller's time.
func (s *session) askCaller(c coordination.AskCaller) {
	ctx, stop := workflow.WithCancel(s.ctx)
	s.clock.stopAsk = stop
	s.clock.asked = workflow.NewTimerWithOptions(ctx, time.Duration(c.Seconds)*time.Second, workflow.TimerOptions{
		Summary: "until the caller returns the results of its tools",
	})
}

// endAsking stops the timer if the core no longer waits for the caller.
func (s *session) endAsking() {
	if s.clock.asked != nil && !s.core.Calling {
		s.clock.stopAsk()
		s.clock.asked = nil
	}
}
