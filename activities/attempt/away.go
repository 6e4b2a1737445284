package attempt

import (
	"context"
	"time"

	"conclave/engine/coordination"
)

// ModelSignal is the signal with which a running step sends a ModelReport to its workflow.
const ModelSignal = "model_report"

// reportPause is the time until a report that the server did not accept is sent again.
const reportPause = 5 * time.Second

// ModelReport tells a workflow that the model of a running step is in an outage or is back. Steps
// send it because a workflow cannot see the heartbeats of its activities, and asking for them
// every minute would cost each long step some ten events a minute; a step whose model replies sends
// nothing.
type ModelReport struct {
	Launch coordination.LaunchID `json:"launch"`
	Out    *coordination.Doing   `json:"out,omitempty"` // nil if the model is back

	// Silent is how long the present call has been without a byte, in seconds; 0 if calls fail.
	Silent float64 `json:"silent,omitempty"`
}

// ReportOutages makes the step of a launch report an outage of its model that has lasted for the
// time after, or a call without a byte for as long as rule 103 of coordination says. longest is the
// longest call of the session so far, in seconds.
func (a *Attempt) ReportOutages(launch coordination.LaunchID, after time.Duration, longest float64) {
	a.heart.update(func(d *details) {
		a.heart.launch, a.heart.awayAfter = launch, after
		d.LongestCall = max(d.LongestCall, longest)
	})
}

// watchModel reports every change of the model until the step's context ends.
func (a *Attempt) watchModel(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.heart.turned:
		case <-timer.C:
		}
		if left := a.reportModel(ctx); left > 0 {
			timer.Reset(left)
		}
	}
}

// reportModel sends a report if one is due. It returns the time until one may be due, or 0 if that
// depends on the model.
func (a *Attempt) reportModel(ctx context.Context) time.Duration {
	if a.process.Signal == nil {
		return 0
	}
	a.reporting.Lock()
	defer a.reporting.Unlock()
	report, left, due := a.heart.modelReport()
	if !due {
		return left
	}
	ctx, stop := context.WithTimeout(ctx, recordTimeout)
	defer stop()
	if err := a.process.Signal(ctx, a.workflow.ID, a.workflow.RunID, ModelSignal, report); err != nil {
		return reportPause
	}
	a.heart.update(func(d *details) { d.Told = report.Out != nil })
	return 0
}

// modelReport returns the report that is due, or the time until one may be due.
func (h *heart) modelReport() (r ModelReport, left time.Duration, due bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.details
	r.Launch = h.launch
	switch {
	case h.awayAfter == 0:
		return r, 0, false
	case d.Told || d.Replying: // a failed call does not mean that the model is back
		return r, 0, d.Told && d.Replying
	}
	limit, silent := h.awayAfter, false
	switch {
	case d.Failing != nil:
		r.Out = d.Failing
	case d.Outage != nil && d.Outage.Tries > 0: // this launch has failed, too
		r.Out = &coordination.Doing{Since: d.Outage.Since, What: d.Outage.What}
	case d.Doing != nil && d.Doing.Kind == coordination.CallsModel:
		r.Out = &coordination.Doing{Since: d.Doing.Since, What: "nothing of a reply to " + d.Doing.What}
		limit, silent = max(limit, time.Duration(coordination.SilentCalls*d.LongestCall*float64(time.Second))), true
	default:
		return r, 0, false
	}
	lasted := time.Since(r.Out.Since)
	if silent {
		r.Silent = lasted.Seconds()
	}
	return r, max(0, limit-lasted), lasted >= limit
}

// Replying records that the model's server has begun to reply to the present call of the step of
// ctx. Outside a step Replying does nothing.
func Replying(ctx context.Context) {
	if h, ok := ctx.Value(heartKey{}).(*heart); ok {
		h.update(func(d *details) { d.Replying, d.Failing = true, nil })
	}
}

// timeCall keeps the duration of the present call, in whole seconds, if it is the longest.
func (h *heart) timeCall() {
	h.update(func(d *details) {
		if d.Doing != nil && d.Doing.Kind == coordination.CallsModel {
			d.LongestCall = max(d.LongestCall, time.Since(d.Doing.Since).Truncate(time.Second).Seconds())
		}
	})
}
