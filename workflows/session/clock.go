package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/workflows"
)

// clock measures the session's time. It stops while the session is paused or parked, or only waits.
type clock struct {
	left   time.Duration // time left at since, or while the clock is stopped
	since  time.Time     // when it was last started
	grace  time.Duration // time before the end at which the core is warned; 0 for never
	warned bool
	over   bool

	up   workflow.Future     // the end; nil while stopped, after the end and until the warning
	near workflow.Future     // the warning; nil if none is due
	stop workflow.CancelFunc // nil while stopped

	asked   workflow.Future // the end of the caller's time; nil unless the session waits for it
	stopAsk workflow.CancelFunc

	lapse     workflow.Future // the end of the time of a question; nil without one
	lapsing   string          // that question
	stopLapse workflow.CancelFunc

	waited   workflow.Future // the end of the core's wait; nil without one
	stopWait workflow.CancelFunc

	waitFrom, waitUntil time.Time // begin and end of the core's last wait
}

// setClock sets and starts the clock. The warning comes a grace period before the end, which is at
// most a quarter of the session's time.
func (s *session) setClock(seconds int, warned bool) {
	s.clock.left, s.clock.warned = time.Duration(seconds)*time.Second, warned
	total := time.Duration(s.prepared.TimeoutSeconds) * time.Second
	s.clock.grace = min(time.Duration(s.prepared.GraceSeconds)*time.Second, total/4)
	if !s.core.Held() {
		s.runClock()
	}
}

// windClock stops the clock if the session is paused or parked, and restarts it otherwise.
func (s *session) windClock() {
	c := &s.clock
	switch held := s.core.Held() || s.core.AwaitsCaller() || s.core.AwaitsPerson(); {
	case held && c.stop != nil:
		c.left = s.timeLeft()
		c.stop()
		c.up, c.near, c.stop = nil, nil, nil
		s.ledger.due = true
	case !held && c.stop == nil:
		s.runClock()
		s.ledger.due = true
	case !held && c.near == nil && c.up == nil && !c.over: // the core has been warned
		c.left = s.timeLeft()
		c.stop()
		s.runClock()
	}
}

func (s *session) runClock() {
	c := &s.clock
	ctx, stop := workflow.WithCancel(s.ctx)
	c.stop = stop
	c.since = workflow.Now(s.ctx)
	switch {
	case c.over:
	case c.grace > 0 && !c.warned:
		c.near = workflow.NewTimerWithOptions(ctx, max(0, c.left-c.grace), workflow.TimerOptions{Summary: "until the session's time is nearly over"})
	default:
		c.up = workflow.NewTimerWithOptions(ctx, c.left, workflow.TimerOptions{Summary: "the session's time"})
	}
}

func (s *session) timeLeft() time.Duration {
	if s.clock.stop == nil {
		return s.clock.left
	}
	return max(0, s.clock.left-workflow.Now(s.ctx).Sub(s.clock.since))
}

// selectClock adds the timers to the selector. When one fires, the core gets an event: the time is
// nearly over, it is over, or a wait has ended.
func (s *session) selectClock(selector workflow.Selector) {
	add := func(timer *workflow.Future, fired *bool, event coordination.Event) {
		if *timer == nil {
			return
		}
		selector.AddFuture(*timer, func(f workflow.Future) {
			if f.Get(s.ctx, nil) == nil {
				if fired != nil {
					*fired = true
				}
				s.core.Step(event)
			}
			*timer = nil
		})
	}
	add(&s.clock.near, &s.clock.warned, coordination.TimeShort{})
	add(&s.clock.up, &s.clock.over, coordination.TimeUp{})
	add(&s.clock.waited, nil, coordination.Waited{})
	add(&s.clock.asked, nil, coordination.CallerGone{})
	add(&s.clock.lapse, nil, coordination.Lapsed{Question: s.clock.lapsing})
}

func (s *session) startWait(w coordination.Wait) {
	if s.clock.waited != nil { // the majority that it was for is lost
		s.clock.stopWait()
	}
	summary := "until agents retry after an outage"
	if w.Firsts {
		summary = "until a majority no longer waits for first answers"
	}
	ctx, stop := workflow.WithCancel(s.ctx)
	s.clock.stopWait = stop
	s.clock.waitFrom = workflow.Now(s.ctx)
	s.clock.waitUntil = s.clock.waitFrom.Add(time.Duration(w.Seconds) * time.Second)
	s.clock.waited = workflow.NewTimerWithOptions(ctx, time.Duration(w.Seconds)*time.Second, workflow.TimerOptions{
		Summary: summary,
	})
}

// endWait stops the timer of startWait if the core no longer waits.
func (s *session) endWait() {
	if s.clock.waited != nil && !s.core.Waiting {
		s.clock.stopWait()
		s.clock.waited = nil
	}
}

// windLapse lets a timer run for the question whose time is over first.
func (c *clock) windLapse(ctx workflow.Context, core *coordination.State) {
	question, at := core.NextLapse()
	if question == c.lapsing && (c.lapse != nil || question == "") {
		return
	}
	if c.lapse != nil {
		c.stopLapse()
		c.lapse = nil
	}
	if c.lapsing = question; question == "" {
		return
	}
	ctx, c.stopLapse = workflow.WithCancel(ctx)
	c.lapse = workflow.NewTimerWithOptions(ctx, max(0, at.Sub(workflow.Now(ctx))), workflow.TimerOptions{Summary: "until a person has replied"})
}

// Maximum sizes of the results in one request and of all results that are not yet on record, in
// bytes. A payload of 2 MB would block the workflow.
const (
	maxResults = 512 << 10
	maxPending = 1 << 20
)

func (l *ledger) checkResults(e coordination.ToolResults) error {
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
		return fmt.Errorf("earlier results are still being written: %w", workflows.ErrTooEarly)
	}
	return nil
}

// addResults makes a record due at once, because steps wait for the results.
func (l *ledger) addResults(results []coordination.ToolResult) {
	if len(results) > 0 {
		l.results = append(l.results, results...)
		l.due = true
	}
}

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
