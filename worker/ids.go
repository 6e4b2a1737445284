package worker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strconv"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// rootOf returns the root span of a workflow run. No worker starts that span; its IDs are hashes.
// The sampler decides by the trace ID whether it is sampled.
func rootOf(sampler sdktrace.Sampler, namespace, workflowID, runID string) trace.SpanContext {
	var traceID trace.TraceID
	var spanID trace.SpanID
	sum := sha256.Sum256([]byte("conclave\x00" + namespace + "\x00" + workflowID + "\x00" + runID))
	copy(traceID[:], sum[:])
	copy(spanID[:], sum[len(traceID):])
	decision := sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: traceID, Kind: trace.SpanKindInternal}).Decision
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, Remote: true, TraceFlags: trace.FlagsSampled.WithSampled(decision == sdktrace.RecordAndSample),
	})
}

// rootKey is the context key of the root span whose IDs NewIDs returns.
type rootKey struct{}

// ids generates random IDs, except for root spans.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if root, ok := ctx.Value(rootKey{}).(trace.SpanContext); ok {
		return root.TraceID(), root.SpanID()
	}
	var traceID trace.TraceID
	_, _ = rand.Read(traceID[:]) // the call never fails
	return traceID, ids{}.NewSpanID(ctx, traceID)
}

func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var id trace.SpanID
	_, _ = rand.Read(id[:])
	return id
}

// samplerOf returns the sampler selected by OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.
func samplerOf(getenv func(string) string) (sdktrace.Sampler, error) {
	ratio := 1.
	if arg := getenv("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
		var err error
		if ratio, err = strconv.ParseFloat(arg, 64); err != nil || ratio < 0 || ratio > 1 {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q; it takes a ratio from 0 to 1", arg)
		}
	}
	switch name := getenv("OTEL_TRACES_SAMPLER"); name {
	case "", "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(ratio), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)), nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q; it takes always_on, always_off, traceidratio, or one of them after parentbased_", name)
	}
}
