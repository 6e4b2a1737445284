package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/pipeline"
)

const reviewed = `
start: plan
inputs: {type: object, properties: {branch: {type: string}, limit: {type: integer}}, required: [branch]}
result: report
agents: [{id: a, backend: {model: m}}]
steps:
  - name: plan
    prompt: "Look at {{ .inputs.branch }} for {{ .request }}. Mustaches {{name}} and {{ .Values.x }} stay."
    output: {type: object, properties: {verdict: {enum: [ship, stop]}, files: {type: array, items: {type: object, properties: {path: {type: string}}}}}}
    next:
      - {when: {output: {verdict: {equals: stop}, files.0.path: {matches: "^/etc"}}}, to: report}
      - check
  - name: check
    kind: tools
    retry: {attempts: 3, backoff_seconds: 20}
    calls: [{tool: read_file, args: {path: "{{ .steps.plan.output.files.0.path }}"}}]
    next: report
  - name: report
    prompt: "{{ json .steps.plan.output }} {{ .steps.check.text }}"
    end: escalated
`

func TestParsePipeline_templates(t *testing.T) {
	t.Parallel()
	p, warnings, err := config.ParsePipeline("p.yaml", []byte(reviewed), config.Local)
	require.NoError(t, err)
	require.Empty(t, warnings)
	canonical, err := p.Canonical()
	require.NoError(t, err)
	again, _, err := config.ParsePipeline("p.json", canonical, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, p.Hash(), again.Hash())
	check, _ := p.Step("check")
	require.Equal(t, []string{"plan"}, check.Reads())
	require.Equal(t, pipeline.Retries{Attempts: 3, Seconds: 20, On: []pipeline.Status{pipeline.Failed}}, check.Retry.Policy())
	report, _ := p.Step("report")
	require.Equal(t, []string{"check", "plan"}, report.Reads())
	plan, _ := p.Step("plan")
	rule := plan.Next[0].Rule()
	require.True(t, rule.Output)
	require.Equal(t, "stop", plan.Contents()[0].Output["verdict"].Equals)
}

func TestParsePipeline_refusesTemplates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, says string }{
		"code":                       {"{{ .request }}", "{{ if .request }}", "steps[0].prompt: {{ if .request }} at character 34 is code"},
		"a function":                 {"{{ .request }}", "{{ .request | upper }}", "is code"},
		"an unknown root":            {"{{ .request }}", "{{ .reqest }}", "{{ .reqest }} at character 34 names nothing"},
		"a part of the request":      {"{{ .request }}", "{{ .request.title }}", "names a part of a text"},
		"an unknown input":           {".inputs.branch", ".inputs.brnach", "steps[0].prompt: {{ .inputs.brnach }} is no input"},
		"an unknown step":            {".steps.check.text", ".steps.chek.text", "names no step; the steps are plan, check, report"},
		"no value of a step":         {".steps.check.text", ".steps.check", "names no value of a step"},
		"no output":                  {".steps.check.text", ".steps.check.output", "is no part of the step's output"},
		"no part of an output":       {"plan.output.files.0.path", "plan.output.files.0.size", "steps[1].calls[0].args: {{ .steps.plan.output.files.0.size }} is no part of the step's output"},
		"a condition without output": {"output: {verdict: {equals: stop}", "output: {verdit: {equals: stop}", `has no "verdit"`},
		"a pattern":                  {`"^/etc"`, `"("`, "not a regular expression"},
		"an unknown result":          {"result: report", "result: reprot", "result"},
		"no schema":                  {"inputs: {type: object,", "inputs: {type: objekt,", "inputs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(reviewed, c.from, c.to, 1)
			require.NotEqual(t, reviewed, changed)
			_, _, err := config.ParsePipeline("p.yaml", []byte(changed), config.Local)
			require.ErrorContains(t, err, c.says)
		})
	}
}
