package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/scenario"
	"conclave/engine/scenario/agent"
)

var rules = agent.NewRules(agent.Task{Tools: []string{"read_file", scenario.EvidenceTool}})

func calls(pairs ...string) llm.Message {
	m := llm.Message{Role: llm.Assistant}
	for i := 0; i < len(pairs); i += 2 {
		m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: pairs[i] + pairs[i+1], Name: pairs[i], Arguments: pairs[i+1]})
	}
	return m
}

const good = `{"status":"pass","evidence_paths":["step-01/evidence/after.png"],"error":null,"summary":"It opened."}`

func TestAReportEndsTheStep(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]llm.Message{
		"as a call":                      calls("report_result", good),
		"beside ordinary calls":          calls("record_evidence", "{}", "report_result", good, "mcp__playwright__browser_close", "{}"),
		"as a text that is nothing else": {Role: llm.Assistant, Content: " " + good + "\n"},
		"in the seed's spelling": {Role: llm.Assistant, Content: strings.ReplaceAll(
			good, "evidence_paths", "evidencePaths")},
	} {
		v := rules.Judge(reply)
		require.NotNil(t, v.Action, name)
		require.Empty(t, v.Rejected, name)
		var report agent.Report
		require.NoError(t, json.Unmarshal(v.Action.Payload, &report))
		require.Equal(t, agent.Report{Status: scenario.Pass, EvidencePaths: []string{"step-01/evidence/after.png"}, Summary: "It opened."}, report, name)
	}
}

func TestWhatIsNoReport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply        llm.Message
		reason, told string
	}{
		"prose":                {llm.Message{Content: "It worked!"}, agent.NoReport, "report_result"},
		"broken JSON":          {calls("report_result", "{"), agent.InvalidReport, "no JSON object"},
		"no status":            {calls("report_result", "{}"), agent.InvalidReport, `neither "pass" nor "fail"`},
		"skipped":              {calls("report_result", `{"status":"skipped"}`), agent.InvalidReport, `neither "pass" nor "fail"`},
		"a failure unsaid":     {calls("report_result", `{"status":"fail","error":" "}`), agent.InvalidReport, "does not say why"},
		"a pass with an error": {calls("report_result", `{"status":"pass","error":"broken"}`), agent.InvalidReport, "decide"},
		"two reports":          {calls("report_result", good, "report_result", `{"status":"fail","error":"x"}`), agent.SeveralReports, "none of them counts"},
		"an unknown tool":      {calls("rm", "{}"), agent.UnknownTool, "there is no tool"},
	} {
		v := rules.Judge(c.reply)
		require.Nil(t, v.Action, name)
		require.Equal(t, c.reason, v.Rejected, name)
		said := v.Say
		for _, text := range v.Told {
			said += text
		}
		require.Contains(t, said, c.told, name)
	}
	v := rules.Judge(calls("read_file", "{}", "rm", "{}"))
	require.Empty(t, v.Rejected)
	require.Len(t, v.Told, 1, "the others run")
}

// "Each agent receives only": the step's file, the summary, the previous result.
func TestTheOpeningHasThreePartsAndNothingElse(t *testing.T) {
	t.Parallel()
	task := agent.Task{
		Scenario: "sign-in", Step: scenario.StepRef{ID: "02", Title: "Step 2", File: "02-step.md"}, Content: "# Step 02\nPress the button.\n", Project: "Type: web",
		Previous: &scenario.Previous{ID: "01", Status: scenario.Pass},
	}
	opening := task.Opening()
	require.Len(t, opening, 2)
	require.Equal(t, "Execute step 02 of scenario sign-in.\n\n## Step content\n\n# Step 02\nPress the button.\n\n## Project context\n\nType: web\n\n## Previous step\n\nstep 01: pass\n", opening[1].Content)
	require.Contains(t, opening[0].Content, `"before"`)
	task.Previous = nil
	require.Contains(t, task.Opening()[1].Content, "## Previous step\n\nfirst step\n")
}
