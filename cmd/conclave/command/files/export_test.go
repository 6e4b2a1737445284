package files

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
)

// exported is the output of the command for a directory.
func exported(t *testing.T, of, format string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c := &cli.CLI{Stdout: &out, Stderr: &errs, DataDir: t.TempDir()}
	code = stage.Report(c, runExport(t.Context(), c, of, format))
	return code, out.String(), errs.String()
}

func TestExport_otel(t *testing.T) {
	t.Parallel()
	dir := stage.ThreeRounds(t).Dir
	code, out, said := exported(t, dir, "otel")
	require.Equal(t, cli.ExitOK, code, said)
	var sent traces
	require.NoError(t, json.Unmarshal([]byte(out), &sent))
	spans := sent.ResourceSpans[0].ScopeSpans[0].Spans
	byID, kinds := map[string]span{}, map[string]int{}
	for _, s := range spans {
		require.Len(t, s.TraceID, 32)
		require.Len(t, s.SpanID, 16)
		require.NotContains(t, byID, s.SpanID)
		byID[s.SpanID] = s
		kind, _, _ := strings.Cut(s.Name, " ")
		kinds[kind]++
	}
	require.Equal(t, map[string]int{"invoke_workflow": 1, "invoke_agent": 9, "chat": 11, "execute_tool": 10}, kinds)
	for _, s := range spans[1:] {
		parent, known := byID[s.ParentID]
		require.True(t, known, s.Name)
		require.LessOrEqual(t, nano(t, s.Start), nano(t, s.End))
		require.LessOrEqual(t, nano(t, parent.Start), nano(t, s.Start))
		require.LessOrEqual(t, nano(t, s.End), nano(t, parent.End))
	}
	_, again, _ := exported(t, dir, "otel")
	require.Equal(t, out, again)
}

// The output is a request of the public OTLP schema, without an unknown field.
func TestExport_otelSchema(t *testing.T) {
	t.Parallel()
	for _, script := range stage.Scripts {
		_, out, said := exported(t, script.Play(t).Dir, "otel")
		out = regexp.MustCompile(`"(traceId|spanId|parentSpanId)": ?"([0-9a-f]*)"`).ReplaceAllStringFunc(out, func(id string) string {
			name, value, _ := strings.Cut(strings.ReplaceAll(id, `"`, ""), ":")
			raw, err := hex.DecodeString(strings.TrimSpace(value)) // OTLP's own rule for JSON; protojson knows base64 alone
			require.NoError(t, err)
			return `"` + name + `":"` + base64.StdEncoding.EncodeToString(raw) + `"`
		})
		var request collector.ExportTraceServiceRequest
		require.NoError(t, protojson.Unmarshal([]byte(out), &request), "%s: %s", script.Name, said)
		spans := request.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()
		require.NotEmpty(t, spans, script.Name)
		for _, s := range spans {
			require.Len(t, s.GetTraceId(), 16)
			require.Len(t, s.GetSpanId(), 8)
			require.NotEqual(t, trace.Span_SPAN_KIND_UNSPECIFIED, s.GetKind())
			for _, a := range s.GetAttributes() {
				require.NotNil(t, a.GetValue().GetValue(), "%s of %s", a.GetKey(), s.GetName())
			}
		}
	}
}

func nano(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	return n
}

func TestExport_atif(t *testing.T) {
	t.Parallel()
	_, out, _ := exported(t, stage.ThreeRounds(t).Dir, "atif")
	var got trajectory
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&got))
	require.Equal(t, "ATIF-v1.4", got.Schema)
	require.Equal(t, len(got.Steps), got.Final.Steps)
	require.NotZero(t, got.Final.Prompt)
	rejections := 0
	for i, s := range got.Steps {
		require.Equal(t, i+1, s.ID)
		require.Contains(t, []string{"system", "user", "agent"}, s.Source)
		if s.Source != "agent" {
			require.Nil(t, s.Metrics)
			require.Empty(t, s.Calls)
		}
		if s.Observation != nil {
			require.Equal(t, s.Calls[0].ID, s.Observation.Results[0].Call)
		}
		if s.Extra["rejected"] == "no_tool_calls" {
			rejections++
		}
	}
	require.Equal(t, 1, rejections)
}

// Every trajectory follows the rules of the public format: no unknown field, steps numbered from 1,
// fields that only agents may have, arguments that are objects, and results of calls of the same
// step.
func TestExport_atifRules(t *testing.T) {
	t.Parallel()
	fields := map[string][]string{
		"":                    {"schema_version", "session_id", "agent", "steps", "notes", "final_metrics", "extra"},
		"agent":               {"name", "version", "model_name", "extra"},
		"final_metrics":       {"total_prompt_tokens", "total_completion_tokens", "total_cached_tokens", "total_cost_usd", "total_steps"},
		"steps":               {"step_id", "timestamp", "source", "model_name", "message", "reasoning_content", "tool_calls", "observation", "metrics", "extra"},
		"steps.tool_calls":    {"tool_call_id", "function_name", "arguments"},
		"steps.observation":   {"results"},
		"observation.results": {"source_call_id", "content"},
		"steps.metrics":       {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"},
	}
	known := func(object any, of string) map[string]any {
		o, is := object.(map[string]any)
		require.True(t, is, of)
		for name := range o {
			require.Contains(t, fields[of], name, of)
		}
		return o
	}
	for _, script := range stage.Scripts {
		_, out, _ := exported(t, script.Play(t).Dir, "atif")
		var decoded any
		require.NoError(t, json.Unmarshal([]byte(out), &decoded))
		top := known(decoded, "")
		known(top["agent"], "agent")
		known(top["final_metrics"], "final_metrics")
		for i, each := range top["steps"].([]any) {
			s := known(each, "steps")
			require.InDelta(t, i+1, s["step_id"], 0)
			calls := map[any]bool{}
			list, _ := s["tool_calls"].([]any)
			for _, c := range list {
				call := known(c, "steps.tool_calls")
				require.IsType(t, map[string]any{}, call["arguments"])
				calls[call["tool_call_id"]] = true
			}
			if s["source"] != "agent" {
				require.Empty(t, list)
				require.NotContains(t, s, "metrics")
				require.NotContains(t, s, "reasoning_content")
			} else if m, ok := s["metrics"]; ok {
				known(m, "steps.metrics")
			}
			if o, ok := s["observation"]; ok {
				for _, r := range known(o, "steps.observation")["results"].([]any) {
					if id, ok := known(r, "observation.results")["source_call_id"]; ok {
						require.True(t, calls[id], "%s, step %d: %v is no call of it", script.Name, i+1, id)
					}
				}
			}
		}
	}
}

func TestExport_lines(t *testing.T) {
	t.Parallel()
	_, out, _ := exported(t, stage.ThreeRounds(t).Dir, "jsonl")
	kinds, stale := map[string]int{}, 0
	decoder := json.NewDecoder(strings.NewReader(out))
	for {
		var line struct {
			Type, Winner string
			Label        string `json:"winner_label"`
			Stale        bool
		}
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		kinds[line.Type]++
		if line.Stale {
			stale++
		}
		if line.Type == "session" {
			require.Equal(t, "agent_c agent3.2", line.Winner+" "+line.Label)
		}
	}
	require.Equal(t, 1, kinds["session"])
	require.Equal(t, 14, kinds["event"])
	require.Equal(t, 9, kinds["step"])
	require.Equal(t, 2, stale)
	require.Greater(t, kinds["entry"], 20)
}

func TestExport_refuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for format, want := range map[string]string{
		"": "export needs --format; it takes otel, atif, jsonl", "json": `there is no format "json"; did you mean jsonl?`, "otel": "it holds no session",
	} {
		code, _, said := exported(t, dir, format)
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, said, want)
	}
}

// A run without a team is exported with its steps as agents.
func TestExport_otherKinds(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	r.Visit(2, "main", "An old silent pond", "")
	r.Visit(5, "decide", "A frog jumps", "")
	r.End("# Done")
	dir, layout := stage.Scenario(t)
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	key := layout.ScenarioStep("02", 2, "")
	require.NoError(t, artifact.PutJSON(t.Context(), store, layout.File("config.json"), map[string]any{"agents": []any{map[string]any{"id": "tester", "backend": map[string]string{"type": "openai", "model": "gpt-5.2"}}}}))
	require.NoError(t, artifact.PutJSON(t.Context(), store, key+"step.json", artifact.Claim{Token: "l2", StartedAt: stage.Began}))
	require.NoError(t, artifact.PutJSON(t.Context(), store, key+"action.json", artifact.Commit{Token: "l2", Kind: "pass", Payload: []byte(`{}`), Timestamp: stage.Began.Add(time.Minute)}))
	for of, want := range map[string][]string{
		r.Dir + "/pipelines/p1":   {`{"type":"pipeline","session_id":"p1","query":"Write a haiku.","status":"completed"`, `"agent":"main","step":1,"action":"end"`, `"agent":"decide","step":2`},
		dir + "/" + layout.Root(): {`{"type":"scenario","session_id":"sign-in/r1","query":"A customer signs in","status":"fail"`, `"agent":"02","step":2,"action":"pass","accepted":true`},
	} {
		code, out, said := exported(t, of, "jsonl")
		require.Equal(t, cli.ExitOK, code, said)
		for _, part := range want {
			require.Contains(t, out, part)
		}
		_, out, _ = exported(t, of, "otel")
		require.Contains(t, out, "invoke_agent")
		_, out, _ = exported(t, of, "atif")
		require.Contains(t, out, `"agents": {`)
	}
	_, out, _ := exported(t, dir+"/"+layout.Root(), "atif")
	require.Contains(t, out, `"02": "openai/gpt-5.2"`)
	require.NotContains(t, out, `"01"`, "a step of which only the evidence was copied")
}
