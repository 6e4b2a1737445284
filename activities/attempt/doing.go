package attempt

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/overlay"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/text"
)

// heartKey is the context key of a step's heart.
type heartKey struct{}

// Waiting makes the heartbeats of ctx's step report a wait until over is called. Consecutive waits
// of the same kind are reported as one. Outside a step Waiting does nothing.
func Waiting(ctx context.Context, w coordination.Doing) (over func()) {
	h, ok := ctx.Value(heartKey{}).(*heart)
	if !ok {
		return func() {}
	}
	if before := h.currentDetails().Doing; before != nil && before.Kind == w.Kind {
		w.Since = before.Since
	} else if w.Since.IsZero() {
		w.Since = time.Now()
	}
	h.updateDetails(func(d *details) { d.Doing, h.replying = &w, h.replying && w.Kind != coordination.ModelAway })
	return h.endWait
}

// endWait ends a wait and restores the call that it interrupted. An outage lasts until the server replies.
func (h *heart) endWait() {
	h.updateDetails(func(d *details) {
		switch {
		case d.Doing == nil || !d.Doing.Waits() || d.Doing.Kind == coordination.ModelAway && !h.replying:
		case h.call == nil:
			d.Doing = nil
		default:
			h.replying = h.replying && d.Doing.Kind == coordination.ModelAway
			d.Doing = &coordination.Doing{Kind: h.call.Kind, Since: time.Now(), What: h.call.What}
		}
	})
}

func (h *heart) beginCall(kind coordination.DoingKind, what string) (over func()) {
	report := func(call *coordination.Doing) {
		h.updateDetails(func(d *details) {
			d.Doing, d.Said, h.call = call, "", call
			h.replying = h.replying && (call == nil || kind != coordination.CallsModel)
		})
	}
	report(&coordination.Doing{Kind: kind, Since: time.Now(), What: what})
	return func() { report(nil) }
}

func (a *Attempt) modelCall() string {
	what := fmt.Sprintf("model call %d", a.heart.currentDetails().Usage.ModelCalls+1)
	if a.lastTool != "" {
		what += ", after " + a.lastTool
	}
	return what
}

// watchedTools reports its tool calls in the heartbeats.
type watchedTools struct {
	opened  step.Tools
	attempt *Attempt
}

// agentTools are the tools that the process has for an agent.
type agentTools struct {
	attempt *Attempt
	agent   config.Agent
}

func (t agentTools) OpenTools(ctx context.Context, workspace string) (step.Tools, error) {
	a := t.attempt
	return a.process.OpenTools(ctx, t.agent, workspace, activities.Sharing{
		Run: a.Spec.Layout.Root(), All: a.ShareServers, Agent: a.Agent, Base: a.Spec.Layout.Base(),
	})
}

func (t agentTools) Repeatable(tool string) bool { return t.attempt.process.Repeatable(tool) }

func (t agentTools) Overlays(ctx context.Context) *overlay.Mounts {
	return t.attempt.process.Overlays(ctx, t.agent)
}

// watchedToolbox opens watchedTools.
type watchedToolbox struct {
	step.Toolbox
	attempt *Attempt
}

func (t watchedToolbox) OpenTools(ctx context.Context, workspace string) (step.Tools, error) {
	defer t.attempt.heart.beginCall(coordination.RunsTool, "opening its tools")()
	opened, err := t.Toolbox.OpenTools(ctx, workspace)
	if err != nil {
		return nil, err
	}
	return watchedTools{opened, t.attempt}, nil
}

func (t watchedTools) Tools() []llm.Tool { return t.opened.Tools() }

func (t watchedTools) Close() error { return t.opened.Close() }

func (t watchedTools) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	a := t.attempt
	a.lastTool = describeCall(call, a.process.Redact)
	defer a.heart.beginCall(coordination.RunsTool, a.lastTool)()
	return t.opened.Run(ctx, call)
}

// maxCall bounds the description of a tool call, in bytes.
const maxCall = 100

// describeCall returns a tool's name with the command or path of the call. Other arguments may be
// confidential.
func describeCall(call llm.ToolCall, redact func([]byte) []byte) string {
	var arguments struct{ Command, Path string }
	_ = json.Unmarshal([]byte(call.Arguments), &arguments) // the tool reports an error
	object := []byte(cmp.Or(arguments.Command, arguments.Path))
	if redact != nil {
		object = redact(object)
	}
	return text.Truncate(text.OneLine(text.Terminal(call.Name+" "+string(object))), maxCall)
}

// Report is the part of a step's heartbeat details that is shown to people.
type Report struct {
	Doing    *coordination.Doing // nil between calls and waits
	Said     string              // the end of an unfinished reply
	Progress bool                // the attempt that sent the details has made progress
	Away     time.Time           // beginning of an outage of the model's server; zero for none
	Usage    llm.Usage           // usage of the step so far
}

// Reported decodes heartbeat details. It returns an empty Report for details of another format.
func Reported(heartbeat *commonpb.Payloads) Report {
	var d details
	if heartbeat == nil || converter.GetDefaultDataConverter().FromPayloads(heartbeat, &d) != nil {
		return Report{}
	}
	r := Report{Doing: d.Doing, Said: d.Said, Progress: d.Fruitless == 0, Usage: d.Usage}
	if d.Outage != nil {
		r.Away = d.Outage.Since
	}
	return r
}

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
	a.heart.updateDetails(func(d *details) {
		a.launch, a.heart.awayAfter, d.LongestCall = l.ID, after, max(d.LongestCall, l.LongestCall)
	})
}

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
	a.heart.reporting <- struct{}{}
	defer func() { <-a.heart.reporting }()
	r, left := a.heart.modelReport()
	if r == nil {
		return left
	}
	r.Launch = a.launch
	ctx, stop := context.WithTimeout(ctx, recordTimeout)
	defer stop()
	if a.process.Signal(ctx, a.workflow.ID, a.workflow.RunID, ModelSignal, *r) != nil {
		return recordTimeout
	}
	a.heart.updateDetails(func(d *details) { d.Told = r.Out != nil })
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
		h.updateDetails(func(*details) { h.replying = true })
		h.endWait()
	}
}
