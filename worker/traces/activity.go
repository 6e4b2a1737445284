package traces

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"conclave/activities/pipeline"
	"conclave/activities/scenario"
	"conclave/activities/session"
	"conclave/engine/llm"
)

// Interceptor returns an interceptor that creates the spans of steps and of ended sessions and
// runs.
func (t *Tracer) Interceptor() interceptor.WorkerInterceptor { return &activities{tracer: t} }

type activities struct {
	interceptor.WorkerInterceptorBase
	tracer *Tracer
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (a *activities) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	traced := &tracedActivity{tracer: a.tracer}
	traced.Next = next
	return traced
}

type tracedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	tracer *Tracer
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
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
			a.tracer.finish(root, run)
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
	fail(ctx, span, err)
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

// outcomeOf returns the attributes for the result of a step.
func outcomeOf(result any) []attribute.KeyValue {
	switch r := result.(type) {
	case session.StepResult:
		return append(usage(r.Usage), attribute.Int("conclave.step", r.Step), attribute.String("conclave.action", string(r.Action)))
	case pipeline.StepResult:
		return append(usage(r.Usage), attribute.Int("conclave.step", r.Number), attribute.String("conclave.status", string(r.Status)))
	case scenario.StepResult:
		return append(usage(r.Usage), attribute.String("conclave.status", string(r.Status)))
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

// finish exports the root span of a run. If the record is repeated, it exports the span again with
// the same ID.
func (t *Tracer) finish(root trace.SpanContext, run ended) {
	now := time.Now()
	if run.began.IsZero() {
		run.began = now
	}
	_, span := t.tracer.Start(context.WithValue(context.Background(), rootKey{}, root), "invoke_workflow "+run.id, trace.WithNewRoot(),
		trace.WithTimestamp(run.began), trace.WithAttributes(append(usage(run.cost),
			semconv.GenAIOperationNameKey.String("invoke_workflow"), attribute.String("gen_ai.workflow.name", "conclave "+run.kind),
			semconv.GenAIConversationID(run.id), attribute.String("conclave.status", run.status))...))
	if run.failure != "" {
		span.SetStatus(codes.Error, run.status)
		span.SetAttributes(semconv.ErrorTypeKey.String(run.failure))
	}
	span.End(trace.WithTimestamp(now))
}

// usage returns the attributes for tokens and cost.
func usage(u llm.Usage) []attribute.KeyValue {
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

// fail marks the span of a failed call. It records only the type of the error, because messages may
// contain confidential text.
func fail(ctx context.Context, span trace.Span, err error) {
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
