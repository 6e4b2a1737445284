package session

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	"conclave/engine/coordination"
)

// selectReports adds the reports of running steps about their models to the selector, and the ends of
// the waits for silent calls.
func (s *session) selectReports(selector workflow.Selector) {
	selector.AddReceive(s.reports, func(c workflow.ReceiveChannel, _ bool) {
		var r attempt.ModelReport
		if c.ReceiveAsync(&r) {
			s.reported(r)
		}
	})
	for _, r := range s.running {
		if r.silence != nil {
			selector.AddFuture(r.silence, func(f workflow.Future) {
				if f.Get(s.ctx, nil) == nil {
					s.reported(r.silent)
				}
			})
		}
	}
}

// reported passes a report to the core; that of a silent call once it has lasted long enough.
func (s *session) reported(r attempt.ModelReport) {
	i := s.indexOf(r.Launch)
	if i < 0 {
		return
	}
	run := &s.running[i]
	run.silence = nil
	if left := coordination.SilentCalls*s.core.LongestCall - r.Silent; r.Out != nil && r.Silent > 0 && left > 0 {
		r.Silent += left
		run.silent = r
		run.silence = workflow.NewTimerWithOptions(s.ctx, time.Duration(left*float64(time.Second)), workflow.TimerOptions{
			Summary: "until a silent call counts as an outage",
		})
		return
	}
	s.core.Step(coordination.ModelReport{Launch: r.Launch, Out: r.Out})
}
