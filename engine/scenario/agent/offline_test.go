package agent

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/offline"
	"conclave/engine/llm"
	"conclave/engine/scenario"
)

func TestOffline_reportsAScenarioStepAsUntested(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]scenario.Status{
		"Open the page.":                      scenario.Pass,
		"Open the page.\n\n  offline: fail\n": scenario.Fail,
	} {
		judge := &rules{tools: []string{scenario.EvidenceTool}}
		opening := Step{Scenario: "buy", Launch: scenario.Launch{Step: scenario.StepRef{ID: "01"}}, Content: content}.openingMessages(nil)
		offers := append(judge.Offer(), llm.Tool{Name: scenario.EvidenceTool})
		reply, err := offline.New("tester").Generate(t.Context(), llm.Request{Messages: opening, Tools: offers})
		require.NoError(t, err)
		require.Len(t, reply.Message.ToolCalls, 2)
		var piece struct{ Name, Type, Data string }
		require.NoError(t, json.Unmarshal([]byte(reply.Message.ToolCalls[0].Arguments), &piece))
		_, _, err = scenario.CheckEvidence(piece.Name, piece.Type)
		require.NoError(t, err)
		require.Contains(t, piece.Data, "nothing was tested")

		v := judge.Judge(reply.Message)
		require.NotNil(t, v.Action, v)
		var report report
		require.NoError(t, json.Unmarshal(v.Action.Payload, &report))
		require.Equal(t, want, report.Status)
		require.Contains(t, report.Summary, "nothing was tested")
	}
}
