package traces

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

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

// Options describes the process whose spans are exported.
type Options struct {
	Version, Instance string

	// Redact removes secrets from content; it may be nil.
	Redact func([]byte) []byte

	// Log receives failures to export. The default is slog.Default.
	Log *slog.Logger

	// Getenv reads the environment. The default is os.Getenv.
	Getenv func(string) string

	exporter sdktrace.SpanExporter // used by tests
}

// Open returns the tracer configured by the environment, or nil.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	exporter, err := o.export(ctx)
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

// export returns the exporter configured by the environment, or nil.
func (o Options) export(ctx context.Context) (sdktrace.SpanExporter, error) {
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
