package export

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"

	"conclave/cmd/conclave/record"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// The parts of OTLP JSON, a request to export traces.
type (
	traces struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		ParentID   string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Status     status      `json:"status"`
	}
	status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	attribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

// The kinds of spans, and the status code of a failure.
const (
	internal = 1
	client   = 3
	failed   = 2
)

func word(key, value string) attribute {
	return attribute{key, map[string]any{"stringValue": value}}
}

// number returns an attribute with an integer, which OTLP JSON writes as a string.
func number(key string, value int64) attribute {
	return attribute{key, map[string]any{"intValue": strconv.FormatInt(value, 10)}}
}

func decimal(key string, value float64) attribute {
	return attribute{key, map[string]any{"doubleValue": value}}
}

// writeOTel writes the spans of a session.
func writeOTel(w io.Writer, r recorded) error {
	sum := sha256.Sum256([]byte("trace " + r.ID + r.Created.String()))
	t := tracer{r: r, trace: hex.EncodeToString(sum[:16])}
	t.session()
	return writeJSON(w, traces{[]resourceSpans{{
		Resource:   resource{[]attribute{word("service.name", "conclave")}},
		ScopeSpans: []scopeSpans{{Scope: scope{"conclave"}, Spans: t.spans}},
	}}})
}

type tracer struct {
	r     recorded
	trace string
	spans []span
}

// id returns the ID of a span, a hash of its place in the session.
func (t *tracer) id(place string) string {
	sum := sha256.Sum256([]byte(t.trace + place))
	return hex.EncodeToString(sum[:8])
}

func nanos(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

func (t *tracer) session() {
	s := t.r.Session
	end := cmp.Or(s.Ended(), s.Began())
	root := span{
		TraceID: t.trace, SpanID: t.id("session"), Name: "invoke_workflow " + s.ID, Kind: internal, Start: nanos(s.Began()), End: nanos(end),
		Attributes: append([]attribute{
			word("gen_ai.operation.name", "invoke_workflow"), word("gen_ai.workflow.name", "conclave session"), word("gen_ai.conversation.id", s.ID),
			word("conclave.status", s.State.Status), word("conclave.query", s.Query), word("conclave.winner", s.State.Winner),
		}, usage(s.State.Cost)...),
	}
	if s.State.Status == string(coordination.FailedAll) {
		root.Status.Code = failed
		if e := s.State.Error; e != nil {
			root.Status.Message = e.Message
			root.Attributes = append(root.Attributes, word("error.type", e.Type))
		}
	}
	t.spans = append(t.spans, root)
	for _, p := range s.Steps {
		t.step(p, root.SpanID, end)
	}
}

// usage returns the usage as attributes of the GenAI conventions, which have none for dollars.
func usage(u llm.Usage) []attribute {
	if u.ModelCalls == 0 {
		return nil
	}
	all := []attribute{
		number("gen_ai.usage.input_tokens", u.InputTokens), number("gen_ai.usage.output_tokens", u.OutputTokens),
		number("gen_ai.usage.cache_read.input_tokens", u.CachedInputTokens),
	}
	if u.ReasoningTokens > 0 {
		all = append(all, number("gen_ai.usage.reasoning.output_tokens", u.ReasoningTokens))
	}
	if u.TotalUSD != nil {
		all = append(all, decimal("conclave.cost.usd", *u.TotalUSD))
	}
	return all
}

// model returns the provider and the model of an agent.
func (t *tracer) model(agent string) (provider, model string) {
	for _, a := range t.r.Team.Agents {
		if a.ID == agent {
			return cmp.Or(a.Backend.Provider, a.Backend.Type), a.Backend.Model
		}
	}
	return "", ""
}

func (t *tracer) step(p *record.Step, parent string, end time.Time) {
	provider, model := t.model(p.Agent)
	place := fmt.Sprintf("%s %d", p.Agent, p.Number)
	one := span{
		TraceID: t.trace, SpanID: t.id(place), ParentID: parent, Name: "invoke_agent " + p.Agent, Kind: internal, Start: nanos(p.Started), End: nanos(ended(p, end)),
		Attributes: append([]attribute{
			word("gen_ai.operation.name", "invoke_agent"), word("gen_ai.agent.id", p.Agent), word("gen_ai.agent.name", p.Agent),
			word("gen_ai.provider.name", provider), word("gen_ai.request.model", model), word("gen_ai.conversation.id", t.r.ID),
			number("conclave.step", int64(p.Number)), word("conclave.action", p.Action), word("conclave.label", label(p)),
		}, usage(p.Usage)...),
	}
	if p.Error != nil {
		one.Status = status{failed, p.Error.Message}
		one.Attributes = append(one.Attributes, word("error.type", p.Error.Type))
	}
	t.spans = append(t.spans, one)
	var called []llm.ToolCall
	for i, l := range t.r.transcripts[p].Lines {
		begun := l.Time.Add(-time.Duration(l.Seconds * float64(time.Second)))
		switch l.Kind {
		case loop.Reply, loop.Wasted, loop.Compacted:
			t.chat(l, fmt.Sprintf("%s chat %d", place, i), one.SpanID, provider, model, begun)
			called = calls(l)
		case loop.Results, loop.Rejection:
			t.tools(l, called, fmt.Sprintf("%s tools %d", place, i), one.SpanID, begun)
			called = nil
		}
	}
}

// label returns the label of a step's answer or of the answer that it votes for.
func label(p *record.Step) string {
	switch {
	case p.Answer != nil:
		return p.Answer.Label
	case p.Vote != nil:
		return p.Vote.TargetLabel
	}
	return ""
}

// ended returns the end of a step. A running step ends with the session's last event.
func ended(p *record.Step, last time.Time) time.Time {
	if !p.Ended.IsZero() {
		return p.Ended
	}
	if last.Before(p.Started) {
		return p.Started
	}
	return last
}

func calls(l step.Line) []llm.ToolCall {
	var all []llm.ToolCall
	for _, m := range l.Messages {
		all = append(all, m.ToolCalls...)
	}
	return all
}

func (t *tracer) chat(l step.Line, place, parent, provider, model string, begun time.Time) {
	one := span{
		TraceID: t.trace, SpanID: t.id(place), ParentID: parent, Name: "chat " + model, Kind: client, Start: nanos(begun), End: nanos(l.Time),
		Attributes: []attribute{word("gen_ai.operation.name", "chat"), word("gen_ai.provider.name", provider), word("gen_ai.request.model", model)},
	}
	if l.Usage != nil {
		one.Attributes = append(one.Attributes, usage(*l.Usage)...)
	}
	if l.Kind == loop.Wasted {
		one.Status.Code = failed
	}
	t.spans = append(t.spans, one)
}

// tools adds a span for each tool call of a reply. The spans divide the duration of all calls
// equally.
func (t *tracer) tools(l step.Line, called []llm.ToolCall, place, parent string, begun time.Time) {
	unsuccessful := map[string]bool{}
	for _, o := range l.Outcomes {
		unsuccessful[o.Call] = o.Failed || o.ExitCode != nil && *o.ExitCode != 0
	}
	share := l.Time.Sub(begun) / time.Duration(max(1, len(called)))
	for i, call := range called {
		from := begun.Add(time.Duration(i) * share)
		one := span{
			TraceID: t.trace, SpanID: t.id(fmt.Sprintf("%s %d", place, i)), ParentID: parent, Name: "execute_tool " + call.Name, Kind: internal,
			Start: nanos(from), End: nanos(from.Add(share)),
			Attributes: []attribute{
				word("gen_ai.operation.name", "execute_tool"), word("gen_ai.tool.name", call.Name), word("gen_ai.tool.call.id", call.ID), word("gen_ai.tool.type", "function"),
			},
		}
		if unsuccessful[call.ID] || l.Kind == loop.Rejection {
			one.Status = status{failed, l.Reason}
		}
		t.spans = append(t.spans, one)
	}
}
