package pipeline

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/engine/pipeline"
)

// clock measures the time of a run that has a time limit. It stops while the run is paused or
// parked. The zero clock is for a run without a limit.
type clock struct {
	left  time.Duration // time left at since, or when the clock was stopped
	since time.Time     // when it was last started
	up    workflow.Future
	stop  workflow.CancelFunc // nil while stopped
}

// setClock sets the clock to the seconds that are left, or to the time limit if left is nil.
func (p *run) setClock(left *float64) {
	seconds := float64(p.core.Graph.Seconds)
	if left != nil {
		seconds = *left
	}
	p.clock.left = time.Duration(seconds * float64(time.Second))
}

// windClock stops the clock if the run is paused, parked, ended, at its finally step or waits for people alone, and
// restarts it otherwise.
func (p *run) windClock() {
	c := &p.clock
	still := p.core.Held() || p.core.AwaitsPerson() || p.core.Done() || p.core.Closing != nil
	switch {
	case p.core.Graph.Seconds == 0:
	case still && c.stop != nil:
		c.left = max(0, c.left-workflow.Now(p.ctx).Sub(c.since))
		c.stop()
		c.up, c.stop = nil, nil
	case !still && c.stop == nil:
		ctx, stop := workflow.WithCancel(p.ctx)
		c.stop, c.since = stop, workflow.Now(p.ctx)
		c.up = workflow.NewTimerWithOptions(ctx, c.left, workflow.TimerOptions{Summary: "the run's time"})
	}
}

// secondsLeft returns the time that is left, or nil without a limit.
func (p *run) secondsLeft() *float64 {
	if p.core.Graph.Seconds == 0 {
		return nil
	}
	left := p.clock.left
	if p.clock.stop != nil {
		left -= workflow.Now(p.ctx).Sub(p.clock.since)
	}
	return new(max(0, left.Seconds()))
}

// selectClock adds the timer to the selector. When it fires, the core gets the event that the time is over.
func (p *run) selectClock(selector workflow.Selector) {
	if p.clock.up == nil {
		return
	}
	selector.AddFuture(p.clock.up, func(f workflow.Future) {
		if f.Get(p.ctx, nil) == nil {
			p.core.Step(pipeline.TimeUp{})
		}
		p.clock.up = nil
	})
}
