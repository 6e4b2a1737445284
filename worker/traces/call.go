package traces

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// Model returns a model that creates a span for each call.
func (t *Tracer) Model(provider, name string, model loop.Model) loop.Model {
	if t == nil {
		return model
	}
	return tracedModel{model, t, provider, name}
}

type tracedModel struct {
	loop.Model
	tracer         *Tracer
	provider, name string
}

// Generate implements loop.Model.
func (m tracedModel) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	ctx, span := m.tracer.tracer.Start(ctx, "chat "+m.name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(m.provider), semconv.GenAIRequestModel(m.name)))
	defer span.End()
	reply, err := m.Model.Generate(ctx, req)
	fail(ctx, span, err)
	span.SetAttributes(usage(reply.Usage)...)
	if m.tracer.content && span.IsRecording() {
		span.SetAttributes(semconv.GenAIInputMessagesKey.String(m.tracer.text(req.Messages)))
		if err == nil {
			span.SetAttributes(semconv.GenAIOutputMessagesKey.String(m.tracer.text([]llm.Message{reply.Message})))
		}
	}
	return reply, err
}

// Tools returns tools that create a span for each call.
func (t *Tracer) Tools(opened step.Tools) step.Tools {
	if t == nil {
		return opened
	}
	return tracedTools{opened, t}
}

type tracedTools struct {
	opened step.Tools
	tracer *Tracer
}

// Tools implements loop.Tools.
func (o tracedTools) Tools() []llm.Tool { return o.opened.Tools() }

// Close implements io.Closer.
func (o tracedTools) Close() error { return o.opened.Close() }

// Run implements loop.Tools.
func (o tracedTools) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	ctx, span := o.tracer.tracer.Start(ctx, "execute_tool "+call.Name, trace.WithAttributes(
		semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(call.Name), semconv.GenAIToolCallID(call.ID), semconv.GenAIToolType("function")))
	defer span.End()
	out, err := o.opened.Run(ctx, call)
	fail(ctx, span, err)
	if out.ExitCode != nil {
		span.SetAttributes(attribute.Int("process.exit.code", *out.ExitCode))
	}
	if err == nil && out.Failed {
		span.SetStatus(codes.Error, "failed")
	}
	if o.tracer.content && span.IsRecording() {
		span.SetAttributes(semconv.GenAIToolCallArgumentsKey.String(o.tracer.clean(call.Arguments)), semconv.GenAIToolCallResultKey.String(o.tracer.clean(out.Text)))
	}
	return out, err
}

// part is a part of a message in the format of the GenAI conventions.
type part struct {
	Type      string `json:"type"`
	Content   string `json:"content,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	Response  string `json:"response,omitempty"`
}

// message is a message in the format of the GenAI conventions.
type message struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

// text returns messages as JSON with secrets removed.
func (t *Tracer) text(messages []llm.Message) string {
	all := make([]message, len(messages))
	for i, m := range messages {
		all[i].Role = string(m.Role)
		switch {
		case m.ToolCallID != "":
			all[i].Parts = append(all[i].Parts, part{Type: "tool_call_response", ID: m.ToolCallID, Response: m.Content})
		case m.Content != "":
			all[i].Parts = append(all[i].Parts, part{Type: "text", Content: m.Content})
		}
		for _, c := range m.ToolCalls {
			all[i].Parts = append(all[i].Parts, part{Type: "tool_call", ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
	}
	data, _ := json.Marshal(all) // strings always have a JSON form
	return t.clean(string(data))
}

func (t *Tracer) clean(text string) string {
	if t.redact == nil {
		return text
	}
	return string(t.redact([]byte(text)))
}
