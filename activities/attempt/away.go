package attempt

import (
	"context"
	"time"

	"conclave/engine/coordination"
)

// ModelSignal is the signal with which a running step sends a ModelReport to its workflow.
const ModelSignal = "model_report"

// ModelReport tells a workflow that the model of a running step is in an outage or is back. Steps
// report it because a workflow does not see the heartbeats of its activities: asking for them would
// cost some ten events a minute for each long step, and a step whose model replies reports nothing.
type ModelReport struct {
	Launch coordination.LaunchID `json:"launch"`
	Out    *coordination.Doing   `json:"out,omitempty"`    // nil if the model is back
	Silent float64               `json:"silent,omitempty"` // seconds for which the present call has brought no byte; 0 if calls fail
}

// ReportOutages makes the step report an outage of its model that has lasted for the time after, or a
// call without a byte for as long as rule 106 of coordination says.
func (a *Attempt) ReportOutages(l coordination.Launch, after time.Duration) {
	a.heart.update(func(d *details) {
		a.launch, a.heart.awayAfter, d.LongestCall = l.ID, after, max(d.LongestCall, l.LongestCall)
	})
}

// watchModel reports every change of the model until the step's context ends.
func (a *Attempt) watchModel(ctx context.Context) {
	for {
		due := make(<-chan time.Time)
		if left := a.reportModel(ctx); left > 0 {
			due = time.After(left)
		}
		select {
		case <-ctx.Done():
			return
		case <-a.heart.turned:
		case <-due:
		}
	}
}

// reportModel sends a report if one is due. It returns the time until one may be due, or 0 if that
// depends on the model.
func (a *Attempt) reportModel(ctx context.Context) time.Duration {
	a.reporting.Lock()
	defer a.reporting.Unlock()
	r, left := a.heart.modelReport()
	if r == nil || a.process.Signal == nil {
		return left
	}
	r.Launch = a.launch
	ctx, stop := context.WithTimeout(ctx, recordTimeout)
	defer stop()
	if a.process.Signal(ctx, a.workflow.ID, a.workflow.RunID, ModelSignal, *r) != nil {
		return recordTimeout
	}
	a.heart.update(func(d *details) { d.Told = r.Out != nil })
	return 0
}

// modelReport returns the report that is due, or the time until one may be due.
func (h *heart) modelReport() (r *ModelReport, left time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.details
	switch {
	case h.awayAfter == 0 || h.replying != d.Told: // a failed call does not mean that the model is back
		return nil, 0
	case d.Told:
		return &ModelReport{}, 0
	}
	limit, out, silent := h.awayAfter, d.Doing, false
	switch {
	case d.Outage != nil && d.Outage.Tries > 0: // a call of this launch has failed
		out = &coordination.Doing{Since: d.Outage.Since, What: d.Outage.What}
	case out == nil || out.Kind != coordination.ModelAway && out.Kind != coordination.CallsModel:
		return nil, 0
	case out.Kind == coordination.CallsModel:
		out = &coordination.Doing{Since: out.Since, What: "nothing of a reply to " + out.What}
		limit, silent = max(limit, time.Duration(coordination.SilentCalls*d.LongestCall*float64(time.Second))), true
	}
	lasted := time.Since(out.Since)
	if lasted < limit {
		return nil, limit - lasted
	}
	if r = (&ModelReport{Out: out}); silent {
		r.Silent = lasted.Seconds()
	}
	return r, 0
}

// Replying records that the model's server has begun to reply to the present call of the step of
// ctx. Outside a step Replying does nothing.
func Replying(ctx context.Context) {
	if h, ok := ctx.Value(heartKey{}).(*heart); ok {
		h.update(func(*details) { h.replying = true })
		h.resume()
	}
}
