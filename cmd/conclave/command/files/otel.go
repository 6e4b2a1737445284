package files

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
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
	spanInternal = 1
	spanClient   = 3
	statusFailed = 2
)

func textAttribute(key, value string) attribute {
	return attribute{key, map[string]any{"stringValue": value}}
}

// numberAttribute returns an attribute with an integer, which OTLP JSON writes as a string.
func numberAttribute(key string, value int64) attribute {
	return attribute{key, map[string]any{"intValue": strconv.FormatInt(value, 10)}}
}

func writeOTel(w io.Writer, r recorded) error {
	sum := sha256.Sum256([]byte("trace " + r.ID + r.Created.String()))
	t := tracer{r: r, trace: hex.EncodeToString(sum[:16])}
	t.traceSession()
	return writeJSON(w, traces{[]resourceSpans{{
		Resource:   resource{[]attribute{textAttribute("service.name", "conclave")}},
		ScopeSpans: []scopeSpans{{Scope: scope{"conclave"}, Spans: t.spans}},
	}}})
}

type tracer struct {
	r     recorded
	trace string
	spans []span
}

func (t *tracer) spanID(place string) string {
	sum := sha256.Sum256([]byte(t.trace + place))
	return hex.EncodeToString(sum[:8])
}

func (t *tracer) addSpan(place, parent, name string, kind int, start, end time.Time, attributes ...attribute) *span {
	t.spans = append(t.spans, span{
		TraceID: t.trace, SpanID: t.spanID(place), ParentID: parent, Name: name, Kind: kind, Start: unixNanos(start), End: unixNanos(end), Attributes: attributes,
	})
	return &t.spans[len(t.spans)-1]
}

func unixNanos(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

func (t *tracer) traceSession() {
	s := t.r.Session
	end := cmp.Or(s.Ended(), s.Began())
	root := t.addSpan("session", "", "invoke_workflow "+s.ID, spanInternal, s.Began(), end, append([]attribute{
		textAttribute("gen_ai.operation.name", "invoke_workflow"), textAttribute("gen_ai.workflow.name", "conclave "+t.r.kind.Name), textAttribute("gen_ai.conversation.id", s.ID),
		textAttribute("conclave.status", s.State.Status), textAttribute("conclave.query", s.Query), textAttribute("conclave.winner", s.State.Winner),
	}, usageAttributes(s.State.Cost)...)...)
	if s.State.Status == string(coordination.FailedAll) {
		root.Status.Code = statusFailed
		if e := s.State.Error; e != nil {
			root.Status.Message = e.Message
			root.Attributes = append(root.Attributes, textAttribute("error.type", e.Type))
		}
	}
	for _, p := range s.Steps {
		t.traceStep(p, t.spanID("session"), end)
	}
}

// usageAttributes returns the usage as attributes of the GenAI conventions, which have none for dollars.
func usageAttributes(u llm.Usage) []attribute {
	if u.ModelCalls == 0 {
		return nil
	}
	all := []attribute{
		numberAttribute("gen_ai.usage.input_tokens", u.InputTokens), numberAttribute("gen_ai.usage.output_tokens", u.OutputTokens),
		numberAttribute("gen_ai.usage.cache_read.input_tokens", u.CachedInputTokens),
	}
	if u.ReasoningTokens > 0 {
		all = append(all, numberAttribute("gen_ai.usage.reasoning.output_tokens", u.ReasoningTokens))
	}
	if u.TotalUSD != nil {
		all = append(all, attribute{"conclave.cost.usd", map[string]any{"doubleValue": *u.TotalUSD}})
	}
	return all
}

func (t *tracer) modelOf(agent string) (provider, model string) {
	for _, a := range t.r.Team.Agents {
		if a.ID == agent {
			return cmp.Or(a.Backend.Provider, a.Backend.Type), a.Backend.Model
		}
	}
	return "", ""
}

func (t *tracer) traceStep(p *record.Step, parent string, end time.Time) {
	provider, model := t.modelOf(p.Agent)
	place := fmt.Sprintf("%s %d", p.Agent, p.Number)
	one := t.addSpan(place, parent, "invoke_agent "+p.Agent, spanInternal, p.Started, endTime(p, end), append([]attribute{
		textAttribute("gen_ai.operation.name", "invoke_agent"), textAttribute("gen_ai.agent.id", p.Agent), textAttribute("gen_ai.agent.name", p.Agent),
		textAttribute("gen_ai.provider.name", provider), textAttribute("gen_ai.request.model", model), textAttribute("gen_ai.conversation.id", t.r.ID),
		numberAttribute("conclave.step", int64(p.Number)), textAttribute("conclave.action", p.Action), textAttribute("conclave.label", labelOf(p)),
	}, usageAttributes(p.Usage)...)...)
	if p.Error != nil {
		one.Status = status{statusFailed, p.Error.Message}
		one.Attributes = append(one.Attributes, textAttribute("error.type", p.Error.Type))
	}
	var called []llm.ToolCall
	for i, l := range t.r.transcripts[p].Lines {
		begun := l.Time.Add(-time.Duration(l.Seconds * float64(time.Second)))
		switch l.Kind {
		case loop.Reply, loop.Wasted, loop.Compacted:
			t.traceChat(l, fmt.Sprintf("%s chat %d", place, i), t.spanID(place), provider, model, begun)
			called = toolCalls(l)
		case loop.Results, loop.Rejection:
			t.traceTools(l, called, fmt.Sprintf("%s tools %d", place, i), t.spanID(place), begun)
			called = nil
		}
	}
}

func labelOf(p *record.Step) string {
	switch {
	case p.Answer != nil:
		return p.Answer.Label
	case p.Vote != nil:
		return p.Vote.TargetLabel
	}
	return ""
}

// endTime returns the end of a step. A running step ends with the session's last event.
func endTime(p *record.Step, last time.Time) time.Time {
	if !p.Ended.IsZero() {
		return p.Ended
	}
	if last.Before(p.Started) {
		return p.Started
	}
	return last
}

func toolCalls(l step.Line) []llm.ToolCall {
	var all []llm.ToolCall
	for _, m := range l.Messages {
		all = append(all, m.ToolCalls...)
	}
	return all
}

func (t *tracer) traceChat(l step.Line, place, parent, provider, model string, begun time.Time) {
	one := t.addSpan(place, parent, "chat "+model, spanClient, begun, l.Time,
		textAttribute("gen_ai.operation.name", "chat"), textAttribute("gen_ai.provider.name", provider), textAttribute("gen_ai.request.model", model))
	if l.Usage != nil {
		one.Attributes = append(one.Attributes, usageAttributes(*l.Usage)...)
	}
	if l.Kind == loop.Wasted {
		one.Status.Code = statusFailed
	}
}

// traceTools adds a span for each tool call of a reply. The spans divide the duration of all calls equally.
func (t *tracer) traceTools(l step.Line, called []llm.ToolCall, place, parent string, begun time.Time) {
	unsuccessful := record.FailedCalls(l.Entry)
	share := l.Time.Sub(begun) / time.Duration(max(1, len(called)))
	for i, call := range called {
		from := begun.Add(time.Duration(i) * share)
		one := t.addSpan(fmt.Sprintf("%s %d", place, i), parent, "execute_tool "+call.Name, spanInternal, from, from.Add(share),
			textAttribute("gen_ai.operation.name", "execute_tool"), textAttribute("gen_ai.tool.name", call.Name), textAttribute("gen_ai.tool.call.id", call.ID), textAttribute("gen_ai.tool.type", "function"))
		if unsuccessful[call.ID] || l.Kind == loop.Rejection {
			one.Status = status{statusFailed, l.Reason}
		}
	}
}

// The lines of the plain format.
type (
	sessionLine struct {
		Type    string     `json:"type"` // session, pipeline or scenario
		Session string     `json:"session_id"`
		Query   string     `json:"query"`
		Status  string     `json:"status"`
		Winner  string     `json:"winner"`
		Label   string     `json:"winner_label"`
		Cost    llm.Usage  `json:"cost"`
		Created time.Time  `json:"created_at"`
		Ended   *time.Time `json:"ended_at"`
	}
	eventLine struct {
		Type string `json:"type"` // always event
		coordination.Entry
	}
	stepLine struct {
		Type    string          `json:"type"` // always step
		Agent   string          `json:"agent"`
		Step    int             `json:"step"`
		Action  string          `json:"action"`
		Counted bool            `json:"accepted"`
		Label   string          `json:"label"` // label of the answer, or of the vote's target
		Text    string          `json:"text"`  // the answer, or the reason
		Stale   bool            `json:"stale"`
		Started time.Time       `json:"started_at"`
		Ended   *time.Time      `json:"ended_at"`
		Cost    llm.Usage       `json:"cost"`
		Error   *artifact.Error `json:"error"`
	}
	entryLine struct {
		Type  string    `json:"type"` // always entry
		Agent string    `json:"agent"`
		Step  int       `json:"step"`
		Time  time.Time `json:"time"`
		loop.Entry
	}
)

// writeLines writes a session as JSON lines: the session, its events, and each step
// followed by the entries of its transcript.
func writeLines(w io.Writer, r recorded) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	first := sessionLine{
		Type: r.kind.Name, Session: r.ID, Query: r.Query, Status: r.State.Status, Winner: r.State.Winner, Cost: r.State.Cost, Created: r.Began(),
	}
	if f := r.Final(); f != nil && f.Answer != nil {
		first.Label = f.Answer.Label
	}
	if !r.Running() {
		first.Ended = timeOrNil(r.Ended())
	}
	if err := encoder.Encode(first); err != nil {
		return err
	}
	for _, e := range r.Events {
		if err := encoder.Encode(eventLine{"event", e}); err != nil {
			return err
		}
	}
	for _, p := range r.Steps {
		one := stepLine{
			Type: "step", Agent: p.Agent, Step: p.Number, Action: p.Action, Counted: p.Accepted, Label: labelOf(p), Started: p.Started,
			Ended: timeOrNil(p.Ended), Cost: p.Usage, Error: p.Error,
		}
		switch {
		case p.Answer != nil:
			one.Text = p.Answer.Text
		case p.Vote != nil:
			one.Text, one.Stale = p.Vote.Reason, p.Vote.Stale != nil
		case p.Stop != nil:
			one.Text = p.Stop.Summary
		}
		if err := encoder.Encode(one); err != nil {
			return err
		}
		for _, l := range r.transcripts[p].Lines {
			if err := encoder.Encode(entryLine{"entry", p.Agent, p.Number, l.Time, l.Entry}); err != nil {
				return err
			}
		}
	}
	return nil
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// The files that a pull generates from the copied ones.
const (
	pageFile   = "index.html"
	answerFile = "ANSWER.md"
)

// writePage writes the page of the copied run and, unless it is a scenario's, its answer.
func (c *copier) writePage(ctx context.Context) error {
	run := record.InDirectory(c.target, c.root)
	html, err := page.Standalone(ctx, run, time.Now())
	if errors.Is(err, record.ErrNone) {
		return nil // nothing but damaged files
	}
	if err != nil {
		return err
	}
	if _, err := c.target.PutStream(ctx, pageFile, bytes.NewReader(html)); err != nil {
		return err
	}
	c.result.Page = c.target.URL(pageFile)
	var answer string
	switch run.Kind {
	case record.Sessions:
		s, err := run.Reader().Read(ctx)
		if err != nil {
			return err
		}
		answer = page.AnswerText(s)
	case record.Pipelines:
		p, err := record.ReadPipeline(ctx, run.Store, run.Layout)
		if err != nil {
			return err
		}
		answer = page.PipelineText(p)
	default:
		return nil
	}
	_, err = c.target.PutStream(ctx, answerFile, strings.NewReader(answer))
	return err
}
