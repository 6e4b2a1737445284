package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/scenario"
	"conclave/engine/step"
)

func newStep() Step {
	ref := scenario.StepRef{ID: "07", Title: "Pay", File: "07-pay.md"}
	return Step{
		Layout: artifact.InScenario("buy", "r1"), Launch: scenario.Launch{ID: "l3", Step: ref}, Token: "run-l3",
		Scenario: "buy", Content: "Pay.",
	}
}

// Each later launch has its own directory below that of the step.
func TestStep_Directories(t *testing.T) {
	t.Parallel()
	spec := newStep().Spec()
	require.Equal(t, "scenarios/buy/runs/r1/step-07/", spec.Dir(1))
	require.Equal(t, "scenarios/buy/runs/r1/step-07/launch-2/", spec.Dir(2))
	require.NoError(t, artifact.CheckPrefix(spec.Dir(2)))
}

// An agent is judged by the tools that it actually has.
func TestStep_KnowsItsTools(t *testing.T) {
	t.Parallel()
	opened, opening, err := newStep().Spec().Open(step.Access{Tools: []llm.Tool{{Name: "list_files"}}})
	require.NoError(t, err)
	require.Len(t, opening, 2)
	known := opened.Judge(llm.Message{ToolCalls: []llm.ToolCall{{ID: "1", Name: "list_files"}}})
	require.Empty(t, known.Rejected)
	unknown := opened.Judge(llm.Message{ToolCalls: []llm.ToolCall{{ID: "1", Name: "write_file"}}})
	require.Equal(t, unknownTool, unknown.Rejected)
}

func TestReadReport(t *testing.T) {
	t.Parallel()
	r, err := ReadReport(artifact.Commit{Kind: kindReported, Payload: []byte(`{"status":"pass","summary":"Fine."}`)})
	require.NoError(t, err)
	require.Equal(t, scenario.Pass, r.Status)
	for _, c := range []artifact.Commit{{Kind: "vote", Payload: []byte(`{}`)}, {Kind: kindReported, Payload: []byte(`{`)}} {
		_, err := ReadReport(c)
		require.Error(t, err)
	}
}
