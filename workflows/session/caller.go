package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// Maximum sizes of the results in one request and of all results that are not yet on record, in
// bytes. A payload of 2 MB would block the workflow.
const (
	maxResults = 512 << 10
	maxPending = 1 << 20
)

// accepts returns an error for results that are too large to be recorded.
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

// answer adds results to be recorded at once, because steps wait for them.
func (l *ledger) answer(results []coordination.ToolResult) {
	if len(results) > 0 {
		l.results = append(l.results, results...)
		l.due = true
	}
}

// askCaller starts the timer for the caller's reply.
func (s *session) askCaller(c coordination.AskCaller) {
	ctx, stop := workflow.WithCancel(s.ctx)
	s.clock.stopAsk = stop
	s.clock.asked = workflow.NewTimerWithOptions(ctx, time.Duration(c.Seconds)*time.Second, workflow.TimerOptions{
		Summary: "until the caller returns the results of its tools",
	})
}

// endAsking stops the timer of askCaller if the core no longer waits for the caller.
func (s *session) endAsking() {
	if s.clock.asked != nil && !s.core.Calling {
		s.clock.stopAsk()
		s.clock.asked = nil
	}
}
