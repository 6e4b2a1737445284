package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/proto"

	"conclave/activities/pipeline"
	"conclave/activities/scenario"
	"conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

func traceEnvironment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if key, value, _ := strings.Cut(p, "="); key == name {
				return value
			}
		}
		return ""
	}
}

func openExporter(t *testing.T, pairs ...string) (tracer *Tracer, spans func() tracetest.SpanStubs) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	o := TracerOptions{
		Version: "v1", Instance: "w1", Getenv: traceEnvironment(append(pairs, "OTEL_TRACES_EXPORTER=otlp")...), exporter: exporter,
		Redact: func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("sk-secret"), []byte("[redacted]")) },
	}
	tracer, err := OpenTracer(t.Context(), o)
	require.NoError(t, err)
	require.NotNil(t, tracer)
	t.Cleanup(tracer.Close)
	return tracer, func() tracetest.SpanStubs {
		require.NoError(t, tracer.provider.ForceFlush(t.Context()))
		return exporter.GetSpans()
	}
}

func TestOpen_asTheEnvironmentSays(t *testing.T) {
	t.Parallel()
	const at = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"
	for name, tc := range map[string]struct {
		pairs []string
		open  bool
		says  string
	}{
		"nothing":            {nil, false, ""},
		"an address":         {[]string{at}, true, ""},
		"grpc":               {[]string{at, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, true, ""},
		"an exporter":        {[]string{"OTEL_TRACES_EXPORTER=otlp"}, true, ""},
		"none":               {[]string{at, "OTEL_TRACES_EXPORTER=none"}, false, ""},
		"disabled":           {[]string{at, "OTEL_SDK_DISABLED=true"}, false, ""},
		"another exporter":   {[]string{"OTEL_TRACES_EXPORTER=zipkin"}, false, `OTEL_TRACES_EXPORTER is "zipkin"; it takes otlp or none`},
		"another protocol":   {[]string{at, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}, false, "it takes http/protobuf or grpc"},
		"an unknown sampler": {[]string{at, "OTEL_TRACES_SAMPLER=often"}, false, `OTEL_TRACES_SAMPLER is "often"`},
		"no ratio":           {[]string{at, "OTEL_TRACES_SAMPLER_ARG=2"}, false, `OTEL_TRACES_SAMPLER_ARG is "2"; it takes a ratio from 0 to 1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, err := OpenTracer(t.Context(), TracerOptions{Getenv: traceEnvironment(tc.pairs...)})
			if tc.says != "" {
				require.ErrorContains(t, err, tc.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.open, tracer != nil)
			tracer.Close()
		})
	}
}

// hasRun runs an activity under the tracer's interceptor, and do within it.
func hasRun[In, Out any](t *testing.T, tracer *Tracer, in In, out Out, do func(context.Context) error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{tracer.Interceptor()}})
	activity := func(ctx context.Context, _ In) (Out, error) { return out, do(ctx) }
	env.RegisterActivity(activity)
	_, _ = env.ExecuteActivity(activity, in)
}

// scripted is a model with a reply, and tools with a result.
type scripted struct {
	reply llm.Reply
	out   loop.Output
	err   error
}

func (s scripted) Generate(context.Context, llm.Request) (llm.Reply, error) { return s.reply, s.err }
func (s scripted) Run(context.Context, llm.ToolCall) (loop.Output, error)   { return s.out, s.err }
func (s scripted) Tools() []llm.Tool                                        { return []llm.Tool{{Name: "read_file"}} }
func (s scripted) Close() error                                             { return s.err }

func one(tracer *Tracer, s scripted) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := tracer.Model("cloud", "gpt", s).Generate(ctx, llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "Why? sk-secret"}}})
		_, _ = tracer.Tools(s).Run(ctx, llm.ToolCall{ID: "c1", Name: "run_command", Arguments: `{"command":"echo sk-secret"}`})
		return err
	}
}

func spanAttributes(s tracetest.SpanStub) map[string]any {
	all := map[string]any{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func byName(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range spans {
		if s.Name == name {
			return s
		}
	}
	require.Fail(t, "no span "+name)
	return tracetest.SpanStub{}
}

// The spans of a session form one tree, although its root is exported by another worker.
func TestInterceptor_oneTreeFromTwoWorkers(t *testing.T) {
	t.Parallel()
	tracer, spans := openExporter(t)
	other, rest := openExporter(t)
	dollars, exit := 0.5, 3
	s := scripted{
		reply: llm.Reply{Message: llm.Message{Role: llm.Assistant, Content: "Because."}, Usage: llm.Usage{InputTokens: 7, OutputTokens: 2, ModelCalls: 1, TotalUSD: &dollars}},
		out:   loop.Output{Text: "sk-secret", Failed: true, ExitCode: &exit},
	}
	in := session.StepInput{Session: "s1", Launch: coordination.Launch{ID: "l1", Agent: "agent_a"}}
	result := session.StepResult{Step: 1, Usage: s.reply.Usage}
	result.Action = coordination.NewAnswer
	hasRun(t, tracer, in, result, one(tracer, s))
	created := time.Now().Add(-time.Minute)
	end := session.RecordInput{Session: "s1", Over: true, Saved: &session.Saved{Prepared: session.Prepared{CreatedAt: created}}}
	end.Status.Status, end.Status.Cost = "consensus", s.reply.Usage
	hasRun(t, other, end, struct{}{}, func(context.Context) error { return nil })

	root := byName(t, rest(), "invoke_workflow s1")
	step, chat, tool := byName(t, spans(), "invoke_agent agent_a"), byName(t, spans(), "chat gpt"), byName(t, spans(), "execute_tool run_command")
	require.False(t, root.Parent.IsValid())
	require.Equal(t, root.SpanContext.SpanID(), step.Parent.SpanID())
	require.Equal(t, step.SpanContext.SpanID(), chat.Parent.SpanID())
	require.Equal(t, step.SpanContext.SpanID(), tool.Parent.SpanID())
	for _, one := range []tracetest.SpanStub{step, chat, tool} {
		require.Equal(t, root.SpanContext.TraceID(), one.SpanContext.TraceID())
	}
	require.WithinDuration(t, created, root.StartTime, 0)
	require.Equal(t, map[string]any{
		"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "conclave session", "gen_ai.conversation.id": "s1", "conclave.status": "consensus",
		"gen_ai.usage.input_tokens": int64(7), "gen_ai.usage.output_tokens": int64(2), "gen_ai.usage.cache_read.input_tokens": int64(0), "conclave.cost.usd": 0.5,
	}, spanAttributes(root))
	require.Equal(t, "new_answer", spanAttributes(step)["conclave.action"])
	require.Equal(t, int64(1), spanAttributes(step)["conclave.attempt"])
	require.Equal(t, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "cloud", "gen_ai.request.model": "gpt",
		"gen_ai.usage.input_tokens": int64(7), "gen_ai.usage.output_tokens": int64(2), "gen_ai.usage.cache_read.input_tokens": int64(0), "conclave.cost.usd": 0.5,
	}, spanAttributes(chat), "no content")
	require.Equal(t, map[string]any{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "run_command", "gen_ai.tool.call.id": "c1", "gen_ai.tool.type": "function", "process.exit.code": int64(3),
	}, spanAttributes(tool), "no content")
	require.Equal(t, codes.Error, tool.Status.Code)
	require.Contains(t, step.InstrumentationScope.SchemaURL, "1.40.0")
	require.Contains(t, step.Resource.Attributes(), attribute.String("service.name", "conclave"))
}

// Content is exported only if it is asked for, without secrets.
func TestContent_withoutSecrets(t *testing.T) {
	t.Parallel()
	tracer, spans := openExporter(t, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true")
	reply := llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c1", Name: "run_command", Arguments: "{}"}}}
	hasRun(t, tracer, session.StepInput{Launch: coordination.Launch{Agent: "a"}}, session.StepResult{}, one(tracer, scripted{reply: llm.Reply{Message: reply}, out: loop.Output{Text: "found sk-secret"}}))
	chat, tool := spanAttributes(byName(t, spans(), "chat gpt")), spanAttributes(byName(t, spans(), "execute_tool run_command"))
	require.JSONEq(t, `[{"role":"user","parts":[{"type":"text","content":"Why? [redacted]"}]}]`, chat["gen_ai.input.messages"].(string))
	require.JSONEq(t, `[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"run_command","arguments":"{}"}]}]`, chat["gen_ai.output.messages"].(string))
	require.Equal(t, "found [redacted]", tool["gen_ai.tool.call.result"])
	require.JSONEq(t, `{"command":"echo [redacted]"}`, tool["gen_ai.tool.call.arguments"].(string))
	require.JSONEq(t, `[{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"x"}]}]`, tracer.messagesText([]llm.Message{{Role: llm.ToolRole, ToolCallID: "c1", Content: "x"}}))
}

func TestFailures_haveATypeAndNoText(t *testing.T) {
	t.Parallel()
	for kind, err := range map[string]error{
		"RateLimited": &llm.Error{Kind: llm.RateLimited, Message: "private"}, "cancelled": context.Canceled, "other": io.ErrUnexpectedEOF,
		"Refused": temporal.NewNonRetryableApplicationError("private", "Refused", nil),
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			tracer, spans := openExporter(t)
			hasRun(t, tracer, session.StepInput{Launch: coordination.Launch{Agent: "a"}}, session.StepResult{}, one(tracer, scripted{err: err}))
			chat := byName(t, spans(), "chat gpt")
			require.Equal(t, sdktrace.Status{Code: codes.Error, Description: kind}, chat.Status)
			require.Equal(t, kind, spanAttributes(chat)["error.type"])
		})
	}
}

// Failed sessions, pipelines and scenarios have roots, too.
func TestInterceptor_rootsOfAllKinds(t *testing.T) {
	t.Parallel()
	tracer, spans := openExporter(t)
	fine := func(context.Context) error { return nil }
	failed := session.RecordInput{Session: "s1", Over: true}
	failed.Status.Status, failed.Status.Error = "failed", &artifact.Error{Type: "AuthFailed", Message: "private"}
	hasRun(t, tracer, session.RecordInput{Session: "s1"}, struct{}{}, fine)
	hasRun(t, tracer, failed, struct{}{}, fine)
	hasRun(t, tracer, session.RecordInput{Session: "lost", Over: true}, struct{}{}, func(context.Context) error { return errors.New("no bucket") })
	hasRun(t, tracer, pipeline.RecordInput{Run: "p1", Over: true, Status: pipeline.State{Status: "completed"}}, struct{}{}, fine)
	now := time.Now()
	hasRun(t, tracer, scenario.RecordInput{Result: scenario.Result{RunID: "r1", Status: "pass", CompletedAt: &now}}, scenario.Recorded{}, fine)
	var names []string
	for _, s := range spans() {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"invoke_workflow s1", "invoke_workflow p1", "invoke_workflow r1"}, names)
	root := byName(t, spans(), "invoke_workflow s1")
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "failed"}, root.Status)
	require.Equal(t, "AuthFailed", spanAttributes(root)["error.type"])
}

// Steps of pipelines and scenarios have the name of the step; calls outside of steps belong
// to the root.
func TestInterceptor_otherActivities(t *testing.T) {
	t.Parallel()
	tracer, spans := openExporter(t)
	s := scripted{reply: llm.Reply{Usage: llm.Usage{ModelCalls: 1}}}
	graph := pipeline.StepInput{Run: "p1"}
	graph.Launch.Step = "lint"
	hasRun(t, tracer, graph, pipeline.StepResult{}, one(tracer, s))
	journey := scenario.StepInput{Run: "r1"}
	journey.Launch.Step.ID = "01"
	hasRun(t, tracer, journey, scenario.StepResult{Status: "pass"}, one(tracer, s))
	hasRun(t, tracer, "draft", "criteria", one(tracer, s))
	require.Equal(t, "p1", spanAttributes(byName(t, spans(), "invoke_agent lint"))["gen_ai.conversation.id"])
	require.Equal(t, "pass", spanAttributes(byName(t, spans(), "invoke_agent 01"))["conclave.status"])
	all := spans()
	draft := all[len(all)-1]
	require.Equal(t, "execute_tool run_command", draft.Name)
	require.True(t, draft.Parent.IsRemote(), "its parent is the root")
}

// A sampled trace is complete: every worker decides alike by the trace ID.
func TestSampler_decidesByTheTrace(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"always_off": 0, "parentbased_always_off": 0, "always_on": 1, "traceidratio": 1, "parentbased_traceidratio": 1, "": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, spans := openExporter(t, "OTEL_TRACES_SAMPLER="+name)
			hasRun(t, tracer, session.StepInput{Launch: coordination.Launch{Agent: "a"}}, session.StepResult{}, func(context.Context) error { return nil })
			require.Len(t, spans(), want)
		})
	}
	half, err := samplerOf(traceEnvironment("OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.5"))
	require.NoError(t, err)
	sampled := 0
	for i := range 200 {
		root := rootOf(half, "default", "s1", strings.Repeat("r", i))
		require.Equal(t, root, rootOf(half, "default", "s1", strings.Repeat("r", i)))
		if root.IsSampled() {
			sampled++
		}
	}
	require.InDelta(t, 100, sampled, 40)
}

func TestTracer_nilDoesNothing(t *testing.T) {
	t.Parallel()
	var tracer *Tracer
	s := scripted{}
	require.Equal(t, s, tracer.Model("cloud", "gpt", s))
	require.Equal(t, s, tracer.Tools(s))
	tracer.Close()
}

func TestTools_passThrough(t *testing.T) {
	t.Parallel()
	tracer, _ := openExporter(t)
	tools := tracer.Tools(scripted{err: io.EOF})
	require.Len(t, tools.Tools(), 1)
	require.ErrorIs(t, tools.Close(), io.EOF)
}

// The spans reach a collector by OTLP over HTTP.
func TestOpen_exportsToACollector(t *testing.T) {
	t.Parallel()
	received := make(chan *tracepb.ResourceSpans, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request coltracepb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &request) != nil || r.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		received <- request.ResourceSpans[0]
	}))
	t.Cleanup(collector.Close)
	// The exporter itself reads the process's environment.
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(collector.URL))
	require.NoError(t, err)
	tracer, err := OpenTracer(t.Context(), TracerOptions{Getenv: traceEnvironment("OTEL_TRACES_EXPORTER=otlp"), exporter: exporter})
	require.NoError(t, err)
	tracer.exportRoot(rootOf(tracer.sampler, "default", "s1", "r1"), ended{id: "s1", kind: "session"})
	tracer.Close()
	spans := <-received
	require.Equal(t, "invoke_workflow s1", spans.ScopeSpans[0].Spans[0].Name)
}
