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

const prd = `# Shop
A long story about the shop that nobody needs.

## Application Type
Web application

## Services Under Test
- http://127.0.0.1:3000
- Admin password: hunter22

## Authentication
- User: ada@example.org
- Password: ` + "`correct horse`" + `

## Main Scenarios
Buying things.
Base URL: http://127.0.0.1:3000/shop

## Tech Stack
Go, SQLite
` + "```sh\n# Passwords are no headings in code\n```\n" + `
## Notes
Other things. API key: abcd-1234
`

func TestSummary(t *testing.T) {
	t.Parallel()
	brief := scenario.Summary(prd, false)
	for _, has := range []string{"Web application", "http://127.0.0.1:3000", "Base URL: http://127.0.0.1:3000/shop", "Go, SQLite"} {
		require.Contains(t, brief, has)
	}
	for _, hasNot := range []string{"long story", "hunter22", "ada@example.org", "correct horse", "abcd-1234", "Buying things"} {
		require.NotContains(t, brief, hasNot)
	}
	full := scenario.Summary(prd, true)
	require.Contains(t, full, "correct horse")
	require.NotContains(t, full, "long story")
	require.Equal(t, full, scenario.Summary(prd, true))

	within := "## Base URL\n\nhttp://user:hunter2@127.0.0.1:3000/shop\n\n## Notes\n\nURL: https://user:hunter2@example.org/\n"
	require.Equal(t, "# Base URL\nhttp://127.0.0.1:3000/shop\n\nURL: https://example.org/", strings.ReplaceAll(scenario.Summary(within, false), "##", "#"))
	require.Contains(t, scenario.Summary(within, true), "http://user:hunter2@127.0.0.1:3000/shop")

	long := scenario.Summary("## Tech Stack\n"+strings.Repeat("ä", 5000), false)
	require.LessOrEqual(t, len(long), scenario.MaxSummary)
	require.True(t, strings.HasSuffix(long, "\n[cut]"))
	require.Empty(t, scenario.Summary("", true))
	long = scenario.Summary("## Tech Stack\n"+strings.Repeat("x", 5000)+"\n## Login\nPassword: hunter2\n", true)
	require.LessOrEqual(t, len(long), scenario.MaxSummary)
	require.Contains(t, long, "hunter2", "what a step that signs in cannot do without")
}

// What is below a heading of a section belongs to the section; below the title of the
// project nothing does because of it.
func TestSummary_SectionsWithin(t *testing.T) {
	t.Parallel()
	const nested = "# User accounts\n\nFor people.\n\n## Services\n\n### API\n\nhttp://127.0.0.1:8\n\n#### Keys\n\nkey-12345 of `abcdef`\n\n" +
		"### Web\n\nhttp://127.0.0.1:9\n\n## Authentication\n\n### Clerk\n\nada / hunter22\n\n## Notes\n\n### More\n\nOther things.\n"
	brief := scenario.Summary(nested, false)
	for _, has := range []string{"http://127.0.0.1:8", "http://127.0.0.1:9"} {
		require.Contains(t, brief, has)
	}
	for _, hasNot := range []string{"For people", "12345", "hunter22", "Clerk", "Other things"} {
		require.NotContains(t, brief, hasNot)
	}
	full := scenario.Summary(nested, true)
	require.Contains(t, full, "ada / hunter22")
	require.Contains(t, full, "key-12345")
	require.NotContains(t, full, "Other things")
	require.Subset(t, scenario.Secrets(nested), []string{"hunter22", "abcdef"})
}

func TestSignsIn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"Log in as the shop's owner": true, "The user signs in": true, "Open the login page": true, "Enter the password": true,
		"Log into the shop": true, "Sign on as the clerk": true, "Log back in": true, "Log\nin": true, "Type both passwords": true, "Fill in the user name": true,
		"Open the list of orders": false, "Look at the logo": false, "Add an accountant": false, "Check the blog index": false,
	} {
		require.Equal(t, want, scenario.SignsIn(text), text)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"ada%40example.org", "ada@example.org", "correct%20horse", "correct horse", "correct+horse", "abcd-1234", "hunter22",
	}, scenario.Secrets(prd))
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	file, typ, err := scenario.CheckEvidence("before", "screenshot")
	require.NoError(t, err)
	require.Equal(t, "before.png image/png", file+" "+typ)
	file, _, err = scenario.CheckEvidence("before.PNG", "screenshot")
	require.NoError(t, err)
	require.Equal(t, "before.png", file)
	for _, name := range []string{"", "../x", "a/b", ".hidden", "a..b", "x.meta", strings.Repeat("a", 101), "a b", "ä"} {
		_, _, err := scenario.CheckEvidence(name, "screenshot")
		require.Error(t, err, name)
	}
	_, _, err = scenario.CheckEvidence("a", "video")
	require.ErrorContains(t, err, "console_log")
	require.Len(t, scenario.EvidenceTypes(), 11)
}

// "paths that the agent claims but that don't exist become warnings"
func TestReconcile(t *testing.T) {
	t.Parallel()
	evidence, warnings := scenario.Reconcile([]string{"b.png", "ghost.png"}, []string{"b.png", "a.png"})
	require.Equal(t, []string{"a.png", "b.png"}, evidence)
	require.Equal(t, []string{`the agent names the evidence "ghost.png", which does not exist`}, warnings)
}
