package session

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	"conclave/engine/coordination"
)

// silence is a call without a byte that does not count as an outage yet.
type silence struct {
	report attempt.ModelReport
	over   workflow.Future // when it does, unless a longer call has ended by then
	stop   workflow.CancelFunc
}

// selectReports adds the reports of running steps about their models to the selector.
func (s *session) selectReports(selector workflow.Selector) {
	selector.AddReceive(s.reports, func(c workflow.ReceiveChannel, _ bool) {
		var r attempt.ModelReport
		if c.ReceiveAsync(&r) {
			s.reported(r)
		}
	})
	for _, r := range s.running {
		if silent := r.silence; silent != nil {
			selector.AddFuture(silent.over, func(f workflow.Future) {
				if f.Get(s.ctx, nil) == nil {
					s.reported(silent.report)
				}
			})
		}
	}
}

// reported passes a report to the core, as soon as a silent call has lasted for long enough.
func (s *session) reported(r attempt.ModelReport) {
	i := s.indexOf(r.Launch)
	if i < 0 {
		return
	}
	s.running[i].endSilence()
	now := workflow.Now(s.ctx)
	if left := coordination.SilentCalls*s.core.LongestCall - r.Silent; r.Out != nil && r.Silent > 0 && left > 0 {
		wait := time.Duration(left * float64(time.Second))
		ctx, stop := workflow.WithCancel(s.ctx)
		r.Silent += left
		s.running[i].silence = &silence{report: r, stop: stop, over: workflow.NewTimerWithOptions(ctx, wait, workflow.TimerOptions{
			Summary: "until a silent call of " + s.running[i].launch.Agent + " counts as an outage",
		})}
		return
	}
	if r.Out != nil && r.Silent > 0 { // the clocks of workers differ
		r.Out.Since = now.Add(-time.Duration(r.Silent * float64(time.Second)))
	}
	s.core.Step(coordination.ModelReport{Launch: r.Launch, Out: r.Out})
}

// endSilence ends the wait for a silent call.
func (r *running) endSilence() {
	if r.silence != nil {
		r.silence.stop()
		r.silence = nil
	}
}
