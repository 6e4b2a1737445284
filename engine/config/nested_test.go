package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/pipeline"
)

// beside writes files into a directory of their own and reads the first one.
func beside(t *testing.T, files ...string) (dir string, p Pipeline, err error) {
	t.Helper()
	dir = t.TempDir()
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600))
	}
	name := filepath.Join(dir, files[0])
	p, _, err = ParsePipeline(name, []byte(files[1]), Local.Beside(name))
	return dir, p, err
}

const linting = `
start: main
result: main
inputs: {type: object, properties: {path: {type: string}, strict: {type: boolean}, who: {}}, required: [path]}
agents: [{id: a, backend: {model: small}, tools: {shell: true}}, {id: b, backend: {model: m}, tools: {shell: true}}]
steps:
  - {name: main, prompt: "Look at {{ .inputs.path }}, strictly: {{ json .inputs.strict }}, for {{ .inputs.who.name }}.", destinations: [fix], next: check}
  - {name: fix, agent: b, prompt: "{{ .steps.main.text }}", max_visits: {count: 2, then: check}}
  - {name: check, kind: tools, calls: [{tool: run_command, args: {command: "lint {{ .inputs.path }} {{ .inputs.who }}"}}], next: [{when: {exit_code: 1}, to: fix}]}
`

// The steps of a file come after those of the outer one; names that are taken get a number, equal agents are one.
func TestParsePipeline_nested(t *testing.T) {
	t.Parallel()
	_, p, err := beside(t, "outer.yaml", `
start: main
agents: [{id: b, backend: {model: m}, tools: {shell: true}}]
steps:
  - {name: main, output: {type: object, properties: {who: {}}}, next: lint}
  - {name: lint, kind: pipeline, file: lint.yaml, inputs: {path: "it's.go", strict: true, who: "{{ .steps.main.output.who }}"}, next: again}
  - {name: again, kind: pipeline, file: ./lint.yaml, inputs: {path: "{{ .steps.lint.text }}"}}
`, "lint.yaml", linting)
	require.NoError(t, err)
	var names, agents []string
	for _, s := range p.Steps {
		names = append(names, s.Name+" by "+s.Agent)
	}
	for _, a := range p.Agents {
		agents = append(agents, a.ID+" with "+a.Backend.Model)
	}
	require.Equal(t, []string{"b with m", "a with small"}, agents)
	require.Equal(t, []string{
		"main by ", "lint by ", "again by ", "main-2 by a", "fix by b", "check by a", "main-3 by a", "fix-2 by b", "check-2 by a",
	}, names)
	lint, _ := p.Step("lint")
	require.Equal(t, []string{"main-2", "main-2", ""}, []string{lint.Each, lint.Result, lint.File})
	begin, _ := p.Step("main-2")
	require.Equal(t, "Look at it's.go, strictly: true, for {{ .steps.main.output.who.name }}.", begin.Prompt)
	require.Equal(t, []string{"fix"}, begin.Destinations)
	check, _ := p.Step("check")
	require.Equal(t, `lint 'it'\''s.go' {{ .steps.main.output.who }}`, check.Calls[0].Args["command"], "a value is one word")
	fix, _ := p.Step("fix-2")
	require.Equal(t, []string{"{{ .steps.main-3.text }}", "check-2"}, []string{fix.Prompt, fix.MaxVisits.Then})
	begin, _ = p.Step("main-3")
	require.Equal(t, "Look at {{ .steps.lint.text }}, strictly: null, for .", begin.Prompt)

	whole, err := p.Canonical()
	require.NoError(t, err)
	again, _, err := ParsePipeline("input config", whole, Cluster)
	require.NoError(t, err, "a whole definition needs no files")
	require.Equal(t, p.Hash(), again.Hash())
	var n pipeline.Node
	lint.Fork(&n)
	require.Equal(t, []pipeline.Entrance{{Name: "run", Step: "main-2"}}, n.Branches)
}

func TestParsePipeline_nestedRefused(t *testing.T) {
	t.Parallel()
	outer := func(step string) string {
		return "start: lint\nsteps:\n  - {name: lint, kind: pipeline, " + step + "}\n"
	}
	for says, files := range map[string][]string{
		"DIR/p.yaml:3:5: steps[0].file: missing; name the file of a pipeline": {"p.yaml", outer("next: lint")},
		"DIR/p.yaml:3:40: steps[0].file: there is no file DIR/none.yaml":      {"p.yaml", outer("file: none.yaml")},
		"DIR/p.yaml:3:40: steps[0].file: leads back to itself: DIR/p.yaml → DIR/p.yaml": {
			"p.yaml", outer("file: p.yaml"),
		},
		"DIR/b.yaml:3:40: steps[0].file: leads back to itself: DIR/p.yaml → DIR/b.yaml → DIR/p.yaml": {
			"p.yaml", outer("file: b.yaml"), "b.yaml", outer("file: ../" + "DIRNAME/p.yaml"),
		},
		"DIR/b.yaml:1:8: start: \"x\" is not a step; did you mean y? valid: y": {"p.yaml", outer("file: b.yaml"), "b.yaml", "start: x\nagents: [{id: a, backend: {model: m}}]\nsteps: [{name: y}]"},
		"DIR/p.yaml:3:40: steps[0].file: has a step that runs at each end": {
			"p.yaml", outer("file: b.yaml"), "b.yaml", "start: x\nfinally: y\nagents: [{id: a, backend: {model: m}}]\nsteps: [{name: x}, {name: y}]",
		},
		"DIR/p.yaml:3:40: steps[0].file: limits the seconds": {
			"p.yaml", outer("file: b.yaml"), "b.yaml", "start: x\nlimits: {seconds: 3}\nagents: [{id: a, backend: {model: m}}]\nsteps: [{name: x}]",
		},
		"DIR/p.yaml:3:56: steps[0].inputs: the inputs do not fit the pipeline's schema": {"p.yaml", outer("file: b.yaml, inputs: {path: 3}"), "b.yaml", linting},
		"steps[0].inputs: the input path is missing":                                    {"p.yaml", outer("file: b.yaml, inputs: {who: '{{ .request }}'}"), "b.yaml", linting},
		"steps[0].inputs.path: mixes a field with other text":                           {"p.yaml", outer("file: b.yaml, inputs: {path: 'x {{ .request }}'}"), "b.yaml", linting},
		"steps[0].inputs.path: {{ .item }} has a value only in the steps of a for_each": {"p.yaml", outer("file: b.yaml, inputs: {path: '{{ .item }}'}"), "b.yaml", linting},
		"steps[0].prompt: has no meaning for a step of kind pipeline; remove it":        {"p.yaml", outer("file: b.yaml, prompt: x"), "b.yaml", linting},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			dir, _, err := beside(t, files...)
			if strings.Contains(strings.Join(files, ""), "DIRNAME") { // the way back has another spelling
				files[3] = strings.ReplaceAll(files[3], "DIRNAME", filepath.Base(dir))
				require.NoError(t, os.WriteFile(filepath.Join(dir, files[2]), []byte(files[3]), 0o600))
				_, _, err = ParsePipeline(filepath.Join(dir, "p.yaml"), []byte(files[1]), Local.Beside(filepath.Join(dir, "p.yaml")))
			}
			require.ErrorContains(t, err, strings.ReplaceAll(says, "DIR/", dir+"/"))
		})
	}
	_, _, err := ParsePipeline("input config", []byte(outer("file: lint.yaml")), Cluster)
	require.ErrorContains(t, err, "steps[0].file: files are put in before a run starts: send what `conclave pipeline validate --whole` prints")
}
