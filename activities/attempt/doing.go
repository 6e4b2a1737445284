package attempt

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"conclave/engine/coordination"
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
	if before := h.current().Doing; before != nil && before.Kind == w.Kind {
		w.Since = before.Since
	} else if w.Since.IsZero() {
		w.Since = time.Now()
	}
	h.update(func(d *details) { d.Doing, h.replying = &w, h.replying && w.Kind != coordination.ModelAway })
	return h.resume
}

// resume ends a wait and restores the call that it interrupted. An outage lasts until the server replies.
func (h *heart) resume() {
	h.update(func(d *details) {
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

// begin makes the heartbeats report a call to a model or a tool until over is called.
func (h *heart) begin(kind coordination.DoingKind, what string) (over func()) {
	report := func(call *coordination.Doing) {
		h.update(func(d *details) {
			d.Doing, d.Said, h.call = call, "", call
			h.replying = h.replying && (call == nil || kind != coordination.CallsModel)
		})
	}
	report(&coordination.Doing{Kind: kind, Since: time.Now(), What: what})
	return func() { report(nil) }
}

func (a *Attempt) modelCall() string {
	what := fmt.Sprintf("model call %d", a.heart.current().Usage.ModelCalls+1)
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

func (a *Attempt) watchTools() {
	open := a.Ports.Tools
	a.Ports.Tools = func(ctx context.Context, workspace string) (step.Tools, error) {
		defer a.heart.begin(coordination.RunsTool, "opening its tools")()
		opened, err := open(ctx, workspace)
		if err != nil {
			return nil, err
		}
		return watchedTools{opened, a}, nil
	}
}

// Tools implements loop.Tools.
func (t watchedTools) Tools() []llm.Tool { return t.opened.Tools() }

// Close implements io.Closer.
func (t watchedTools) Close() error { return t.opened.Close() }

// Run implements loop.Tools.
func (t watchedTools) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	a := t.attempt
	a.lastTool = describeCall(call, a.process.Redact)
	defer a.heart.begin(coordination.RunsTool, a.lastTool)()
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
