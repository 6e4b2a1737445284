package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/scenario"
)

var judge = &rules{tools: []string{"read_file", scenario.EvidenceTool}}

func calls(pairs ...string) llm.Message {
	m := llm.Message{Role: llm.Assistant}
	for i := 0; i < len(pairs); i += 2 {
		m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: pairs[i] + pairs[i+1], Name: pairs[i], Arguments: pairs[i+1]})
	}
	return m
}

const good = `{"status":"pass","evidence_paths":["step-01/evidence/after.png"],"error":null,"summary":"It opened."}`

func TestJudge_report(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]llm.Message{
		"as a call":                      calls("report_result", good),
		"beside ordinary calls":          calls("record_evidence", "{}", "report_result", good, "mcp__playwright__browser_close", "{}"),
		"as a text that is nothing else": {Role: llm.Assistant, Content: " " + good + "\n"},
		"in the seed's spelling": {Role: llm.Assistant, Content: strings.ReplaceAll(
			good, "evidence_paths", "evidencePaths")},
	} {
		v := judge.Judge(reply)
		require.NotNil(t, v.Action, name)
		require.Empty(t, v.Rejected, name)
		var got report
		require.NoError(t, json.Unmarshal(v.Action.Payload, &got))
		require.Equal(t, report{Status: scenario.Pass, EvidencePaths: []string{"step-01/evidence/after.png"}, Summary: "It opened."}, got, name)
	}
}

func TestJudge_rejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply        llm.Message
		reason, want string
	}{
		"prose":                {llm.Message{Content: "It worked!"}, noReport, "report_result"},
		"broken JSON":          {calls("report_result", "{"), invalidReport, "not a JSON object"},
		"no status":            {calls("report_result", "{}"), invalidReport, `neither "pass" nor "fail"`},
		"skipped":              {calls("report_result", `{"status":"skipped"}`), invalidReport, `neither "pass" nor "fail"`},
		"a failure unsaid":     {calls("report_result", `{"status":"fail","error":" "}`), invalidReport, "does not say why"},
		"a pass with an error": {calls("report_result", `{"status":"pass","error":"broken"}`), invalidReport, "decide"},
		"two reports":          {calls("report_result", good, "report_result", `{"status":"fail","error":"x"}`), severalReports, "none of them counts"},
		"an unknown tool":      {calls("rm", "{}"), unknownTool, "there is no tool"},
	} {
		v := judge.Judge(c.reply)
		require.Nil(t, v.Action, name)
		require.Equal(t, c.reason, v.Rejected, name)
		said := v.Say
		for _, text := range v.Results {
			said += text
		}
		require.Contains(t, said, c.want, name)
	}
	v := judge.Judge(calls("read_file", "{}", "rm", "{}"))
	require.Empty(t, v.Rejected)
	require.Len(t, v.Results, 1, "the others run")
}

// "Each agent receives only": the step's file, the summary, the previous result.
func TestStep_opening(t *testing.T) {
	t.Parallel()
	step := Step{
		Scenario: "sign-in", Content: "# Step 02\nPress the button.\n", Project: "Type: web",
		Launch: scenario.Launch{
			Step:     scenario.StepRef{ID: "02", Title: "Step 2", File: "02-step.md"},
			Previous: &scenario.Previous{ID: "01", Status: scenario.Pass},
		},
	}
	opening := step.openingMessages(nil)
	require.Len(t, opening, 2)
	require.Equal(t, "Execute step 02 of scenario sign-in.\n\n## Step content\n\n# Step 02\nPress the button.\n\n## Project context\n\nType: web\n\n## Previous step\n\nstep 01: pass\n", opening[1].Content)
	require.Contains(t, opening[0].Content, `"before"`)
	step.Launch.Previous = nil
	require.Contains(t, step.openingMessages(nil)[1].Content, "## Previous step\n\nfirst step\n")
}
