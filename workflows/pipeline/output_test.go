package pipeline_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/pipeline"
	pipelineflow "conclave/workflows/pipeline"
	"conclave/workflows/stagetest"
)

const reviewing = `{
	"start": "plan", "result": "report",
	"inputs": {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]},
	"agents": [{"id": "agent_a", "backend": {"model": "m"}}, {"id": "agent_b", "backend": {"model": "m"}}],
	"steps": [
		{"name": "plan", "agent": "agent_a", "prompt": "Look at {{ .inputs.file }}.",
			"output": {"type": "object", "properties": {"verdict": {"enum": ["ship", "stop"]}, "file": {"type": "string"}}, "required": ["verdict"]},
			"next": [{"when": {"output": {"verdict": {"equals": "ship"}}}, "to": "ship"}, {"to": "look"}]},
		{"name": "look", "kind": "tools", "calls": [{"tool": "read_file", "args": {"path": "{{ .steps.plan.output.file }}"}}], "next": "report"},
		{"name": "report", "agent": "agent_b", "prompt": "Say {{ json .steps.plan.output }} and {{ .steps.look.text }}.", "next": "ship"},
		{"name": "ship", "kind": "tools", "calls": [{"tool": "list_files", "args": {"path": "."}}], "end": "shipped"}
	]
}`

// Outputs choose the way, fill prompts as data and arguments, and are in the result.
func TestPipeline_Outputs(t *testing.T) {
	t.Parallel()
	var shown []llm.Message
	s := newPipeline(t, map[string][]any{
		"agent_a": {
			stagetest.Call("write_file", map[string]string{"path": "a b.md", "content": "a frog"}),
			stagetest.Call("submit_output", map[string]string{"verdict": "stop", "file": "a b.md"}),
		},
		"agent_b": {stagetest.Text("A frog stops it.")},
	})
	s.Cast["agent_b"].Saw = func(_ int, req llm.Request) { shown = req.Messages }
	result := runPipeline(t, s, pipelineflow.Input{ID: "p1", Config: json.RawMessage(reviewing), Inputs: json.RawMessage(`{"file":"a b.md"}`)})
	require.Equal(t, pipeline.Completed, result.Status)
	require.Equal(t, "plan/completed look/completed report/completed ship/completed", traceOf(result))
	require.Equal(t, "A frog stops it.", result.Final)
	require.Equal(t, "shipped", result.EndedAs)
	require.Len(t, result.Outputs, 1)
	require.JSONEq(t, `{"verdict":"stop","file":"a b.md"}`, string(result.Outputs["plan"]))
	require.NotContains(t, shown[0].Content, "frog", "no value stands in the system message")
	require.Contains(t, shown[2].Content, " .steps.plan.output\n{\"file\":\"a b.md\",\"verdict\":\"stop\"}\n")
	require.Contains(t, shown[2].Content, " .steps.look.text\na frog\n")
	there, err := s.Store.Exists(t.Context(), "pipelines/p1/steps/001-plan/output.json")
	require.NoError(t, err)
	require.True(t, there)
}

func TestPipeline_InputsAreChecked(t *testing.T) {
	t.Parallel()
	for says, in := range map[string]pipelineflow.Input{
		"the inputs do not fit the pipeline's schema": {Request: "q", Config: json.RawMessage(reviewing)},
		"at /file":                     {Request: "q", Config: json.RawMessage(reviewing), Inputs: json.RawMessage(`{"file":7}`)},
		"the pipeline takes no inputs": {Request: "q", Config: json.RawMessage(writing), Inputs: json.RawMessage(`{"file":"a"}`)},
		"the inputs have":              {Request: "q", Config: json.RawMessage(reviewing), Inputs: json.RawMessage(`{"file":"` + strings.Repeat("x", 300<<10) + `"}`)},
	} {
		s := newPipeline(t, nil)
		s.ExecuteWorkflow(pipelineflow.Workflow, in)
		require.ErrorContains(t, s.GetWorkflowError(), says)
	}
}

// The output of a session step is the data of its decision.
func TestPipeline_ATeamDecidesOnData(t *testing.T) {
	t.Parallel()
	give := func(choice string) llm.Message {
		return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c", Name: "new_answer", Arguments: `{"data": {"choice": "` + choice + `"}}`}}}
	}
	vote := stagetest.Call("vote", map[string]string{"agent_id": "agent1", "reason": "Yes."})
	s := newPipeline(t, map[string][]any{"agent_a": {give("tabs"), vote}, "agent_b": {give("spaces"), vote}, "agent_c": {give("tabs"), vote}})
	result := runPipeline(t, s, pipelineflow.Input{
		Request: "Tabs or spaces?", ID: "p3",
		Config: json.RawMessage(`{"start":"decide","steps":[{"name":"decide","kind":"session","output":{"type":"object","properties":{"choice":{"enum":["tabs","spaces"]}},"required":["choice"]}}]}`),
	})
	require.Equal(t, pipeline.Completed, result.Status)
	require.JSONEq(t, `{"choice":"tabs"}`, string(result.Outputs["decide"]))
}
