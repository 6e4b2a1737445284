package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"conclave/activities/pipeline"
	"conclave/activities/scenario"
	"conclave/activities/session"
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

func (m tracedModel) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	ctx, span := m.tracer.tracer.Start(ctx, "chat "+m.name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(m.provider), semconv.GenAIRequestModel(m.name)))
	defer span.End()
	reply, err := m.Model.Generate(ctx, req)
	markFailed(ctx, span, err)
	span.SetAttributes(usageAttributes(reply.Usage)...)
	if m.tracer.content && span.IsRecording() {
		span.SetAttributes(semconv.GenAIInputMessagesKey.String(m.tracer.messagesText(req.Messages)))
		if err == nil {
			span.SetAttributes(semconv.GenAIOutputMessagesKey.String(m.tracer.messagesText([]llm.Message{reply.Message})))
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
	openTools
	tracer *Tracer
}

func (o tracedTools) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	ctx, span := o.tracer.tracer.Start(ctx, "execute_tool "+call.Name, trace.WithAttributes(
		semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(call.Name), semconv.GenAIToolCallID(call.ID), semconv.GenAIToolType("function")))
	defer span.End()
	out, err := o.openTools.Run(ctx, call)
	markFailed(ctx, span, err)
	if out.ExitCode != nil {
		span.SetAttributes(attribute.Int("process.exit.code", *out.ExitCode))
	}
	if err == nil && out.Failed {
		span.SetStatus(codes.Error, "failed")
	}
	if o.tracer.content && span.IsRecording() {
		span.SetAttributes(semconv.GenAIToolCallArgumentsKey.String(o.tracer.removeSecrets(call.Arguments)), semconv.GenAIToolCallResultKey.String(o.tracer.removeSecrets(out.Text)))
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

func (t *Tracer) messagesText(messages []llm.Message) string {
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
	return t.removeSecrets(string(data))
}

func (t *Tracer) removeSecrets(text string) string {
	if t.redact == nil {
		return text
	}
	return string(t.redact([]byte(text)))
}

// closeTimeout bounds the export of the last spans.
const closeTimeout = 3 * time.Second

// Tracer creates the spans of a worker. The methods of a nil Tracer do nothing.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  sdktrace.Sampler
	redact   func([]byte) []byte
	log      *slog.Logger
	content  bool // export the text of prompts, replies and tool calls
}

// TracerOptions describes the process whose spans are exported.
type TracerOptions struct {
	Version, Instance string

	// Redact removes secrets from content; it may be nil.
	Redact func([]byte) []byte

	// Log receives failures to export. The default is slog.Default.
	Log *slog.Logger

	// Getenv reads the environment. The default is os.Getenv.
	Getenv func(string) string

	exporter sdktrace.SpanExporter // used by tests
}

// OpenTracer returns the tracer configured by the environment, or nil.
func OpenTracer(ctx context.Context, o TracerOptions) (*Tracer, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	exporter, err := o.newExporter(ctx)
	if err != nil || exporter == nil {
		return nil, err
	}
	sampler, err := samplerOf(o.Getenv)
	if err != nil {
		return nil, err
	}
	described, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceName("conclave"), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.Instance)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read the resource of traces: %w; check OTEL_RESOURCE_ATTRIBUTES", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Warn("spans could not be exported", "error", err) }))
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described), sdktrace.WithSampler(sampler), sdktrace.WithIDGenerator(ids{}))
	return &Tracer{
		provider: p, tracer: p.Tracer("conclave", trace.WithSchemaURL(semconv.SchemaURL), trace.WithInstrumentationVersion(o.Version)), sampler: sampler,
		redact: o.Redact, log: o.Log, content: strings.EqualFold(o.Getenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"), "true"),
	}, nil
}

func (o TracerOptions) newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if strings.EqualFold(o.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	address := cmp.Or(o.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), o.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	switch name := o.Getenv("OTEL_TRACES_EXPORTER"); {
	case name == "none", name == "" && address == "":
		return nil, nil
	case name != "" && name != "otlp":
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; it takes otlp or none", name)
	case o.exporter != nil:
		return o.exporter, nil
	}
	switch protocol := cmp.Or(o.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), o.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); protocol {
	case "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; it takes http/protobuf or grpc", protocol)
	}
}

// Close exports the remaining spans.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans could not be exported", "error", err)
	}
}

// Interceptor returns an interceptor that creates the spans of steps and of ended sessions and runs.
func (t *Tracer) Interceptor() interceptor.WorkerInterceptor { return &tracedActivities{tracer: t} }

type tracedActivities struct {
	interceptor.WorkerInterceptorBase
	tracer *Tracer
}

func (a *tracedActivities) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &tracedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, a.tracer}
}

type tracedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	tracer *Tracer
}

func (a *tracedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	root := rootOf(a.tracer.sampler, info.Namespace, info.WorkflowExecution.ID, info.WorkflowExecution.RunID)
	var input any
	if len(in.Args) == 1 {
		input = in.Args[0]
	}
	if run, over := endOf(input); over {
		result, err := a.Next.ExecuteActivity(ctx, in)
		if err == nil {
			a.tracer.exportRoot(root, run)
		}
		return result, err
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, root) // root is the parent of calls outside of steps, such as drafts
	name, attributes := stepOf(input)
	if name == "" {
		return a.Next.ExecuteActivity(ctx, in)
	}
	attributes = append(attributes, semconv.GenAIOperationNameInvokeAgent, attribute.Int("conclave.attempt", int(info.Attempt)))
	ctx, span := a.tracer.tracer.Start(ctx, "invoke_agent "+name, trace.WithAttributes(attributes...))
	defer span.End()
	result, err := a.Next.ExecuteActivity(ctx, in)
	markFailed(ctx, span, err)
	span.SetAttributes(outcomeOf(result)...)
	return result, err
}

// stepOf returns the name of a step's agent, or of the step itself, and the attributes of its span.
// For other activities it returns "".
func stepOf(input any) (name string, attributes []attribute.KeyValue) {
	switch in := input.(type) {
	case session.StepInput:
		return in.Launch.Agent, []attribute.KeyValue{
			semconv.GenAIAgentID(in.Launch.Agent), semconv.GenAIAgentName(in.Launch.Agent), semconv.GenAIConversationID(in.Session),
			attribute.String("conclave.launch", string(in.Launch.ID)),
		}
	case pipeline.StepInput:
		return in.Launch.Step, []attribute.KeyValue{semconv.GenAIAgentName(in.Launch.Step), semconv.GenAIConversationID(in.Run)}
	case scenario.StepInput:
		return in.Launch.Step.ID, []attribute.KeyValue{semconv.GenAIAgentName(in.Launch.Step.ID), semconv.GenAIConversationID(in.Run)}
	}
	return "", nil
}

func outcomeOf(result any) []attribute.KeyValue {
	switch r := result.(type) {
	case session.StepResult:
		return append(usageAttributes(r.Usage), attribute.Int("conclave.step", r.Step), attribute.String("conclave.action", string(r.Action)))
	case pipeline.StepResult:
		return append(usageAttributes(r.Usage), attribute.Int("conclave.step", r.Number), attribute.String("conclave.status", string(r.Status)))
	case scenario.StepResult:
		return append(usageAttributes(r.Usage), attribute.String("conclave.status", string(r.Status)))
	}
	return nil
}

// ended is a session or run that has ended.
type ended struct {
	id, kind, status string
	began            time.Time // zero if it is unknown
	cost             llm.Usage
	failure          string // why it has no result; empty if it has one
}

// endOf returns the session or run that ends with the record in an activity's input.
func endOf(input any) (run ended, over bool) {
	switch in := input.(type) {
	case session.RecordInput:
		run = ended{id: in.Session, kind: "session", status: in.Status.Status, cost: in.Status.Cost}
		if in.Saved != nil {
			run.began = in.Saved.Prepared.CreatedAt
		}
		if e := in.Status.Error; e != nil {
			run.failure = e.Type
		}
		return run, in.Over
	case pipeline.RecordInput:
		return ended{id: in.Run, kind: "pipeline", status: in.Status.Status, cost: in.Status.Usage, began: in.Began}, in.Over
	case scenario.RecordInput:
		r := in.Result
		return ended{id: r.RunID, kind: "scenario", status: string(r.Status), cost: r.Cost, began: r.StartedAt}, r.CompletedAt != nil
	}
	return ended{}, false
}

// exportRoot exports the root span of a run. If the record is repeated, it exports the span again
// with the same ID.
func (t *Tracer) exportRoot(root trace.SpanContext, run ended) {
	now := time.Now()
	if run.began.IsZero() {
		run.began = now
	}
	_, span := t.tracer.Start(context.WithValue(context.Background(), rootKey{}, root), "invoke_workflow "+run.id, trace.WithNewRoot(),
		trace.WithTimestamp(run.began), trace.WithAttributes(append(usageAttributes(run.cost),
			semconv.GenAIOperationNameKey.String("invoke_workflow"), attribute.String("gen_ai.workflow.name", "conclave "+run.kind),
			semconv.GenAIConversationID(run.id), attribute.String("conclave.status", run.status))...))
	if run.failure != "" {
		span.SetStatus(codes.Error, run.status)
		span.SetAttributes(semconv.ErrorTypeKey.String(run.failure))
	}
	span.End(trace.WithTimestamp(now))
}

func usageAttributes(u llm.Usage) []attribute.KeyValue {
	if u.ModelCalls == 0 {
		return nil
	}
	all := []attribute.KeyValue{
		semconv.GenAIUsageInputTokens(int(u.InputTokens)), semconv.GenAIUsageOutputTokens(int(u.OutputTokens)),
		semconv.GenAIUsageCacheReadInputTokens(int(u.CachedInputTokens)),
	}
	if u.TotalUSD != nil {
		all = append(all, attribute.Float64("conclave.cost.usd", *u.TotalUSD))
	}
	return all
}

// markFailed marks the span of a failed call. It records only the type of the error, because
// messages may contain confidential text.
func markFailed(ctx context.Context, span trace.Span, err error) {
	if err == nil {
		return
	}
	kind := "other"
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		kind = application.Type()
	} else if ctx.Err() != nil || errors.Is(err, context.Canceled) { // err may be the context's cause
		kind = "cancelled"
	} else if call, ok := errors.AsType[*llm.Error](err); ok {
		kind = string(call.Kind)
	}
	span.SetStatus(codes.Error, kind)
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
}
