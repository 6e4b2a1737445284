package pipeline

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadTemplate(t *testing.T) {
	t.Parallel()
	fill := func(content string) string {
		read, err := ReadTemplate(content)
		require.NoError(t, err)
		filled, err := read.Fill(func(f Field) (string, error) {
			if f.JSON {
				return "<json " + f.String() + ">", nil
			}
			return "<" + f.String() + ">", nil
		})
		require.NoError(t, err)
		return filled
	}
	for content, filled := range map[string]string{
		"":                               "",
		"{{ .request }}{{.request}}":     "<.request><.request>",
		"{{ json .inputs.a-b }} x":       "<json .inputs.a-b> x",
		"{{\n.steps.my-step.output.0 }}": "<.steps.my-step.output.0>",
		"{{name}} ${{ secrets.KEY }} {{ .Values.x }} {{# if x }} {{}} }} {{": "{{name}} ${{ secrets.KEY }} {{ .Values.x }} {{# if x }} {{}} }} {{",
		"{{ site.request }}": "{{ site.request }}",
	} {
		require.Equal(t, filled, fill(content))
	}
	for content, says := range map[string]string{
		"a {{ .item }}":                 "{{ .item }} at character 3 names nothing",
		"{{ range .steps.a.output }}":   "is code",
		"{{- .request -}}":              "is code",
		"{{ json (index .inputs 1) }}":  "is code",
		"{{ .request }} {{ .request.}}": "{{ .request.}} at character 16 is code",
		"é{{ printf \"%s\" .request }}": "at character 2 is code",
	} {
		_, err := ReadTemplate(content)
		require.ErrorContains(t, err, says, content)
	}
}

func TestTemplate_fieldInQuotes(t *testing.T) {
	t.Parallel()
	for command, quoted := range map[string]bool{
		"grep {{ .request }} a":                 false,
		"echo 'a' \"b\" `c` \\' {{ .request }}": false,
		"echo '{{ .request }}'":                 true,
		"echo \"x {{ .request }}\"":             true,
		"echo `{{ .request }}`":                 true,
		"echo \\{{ .request }}":                 true,
		"cat <<END\n{{ .request }}\nEND":        true,
		"echo 'it'\\''s {{ .request }}'":        true,
		"echo \"\\\"\" {{ .request }}":          false,
	} {
		read, err := ReadTemplate(command)
		require.NoError(t, err)
		require.Equal(t, quoted, read.FieldInQuotes() != nil, command)
	}
}

func TestValues_value(t *testing.T) {
	t.Parallel()
	v := Values{
		Request: "a \"b\"", Inputs: json.RawMessage(`{"n": 1.50, "s": "x", "list": [ {"k": null} ]}`),
		Steps: map[string]StepValue{"plan": {Text: "done", Output: json.RawMessage(`{"text": "t"}`)}},
	}
	for field, value := range map[string]string{
		"{{ .request }}": "a \"b\"", "{{ json .request }}": `"a \"b\""`,
		"{{ .inputs.n }}": "1.50", "{{ .inputs.s }}": "x", "{{ json .inputs.s }}": `"x"`, "{{ .inputs.list }}": `[{"k":null}]`,
		"{{ .inputs.list.0.k }}": "", "{{ json .inputs.list.0.k }}": "null", "{{ .inputs.list.1 }}": "", "{{ json .inputs.none.x }}": "null",
		"{{ .steps.plan.text }}": "done", "{{ .steps.plan.output.text }}": "t", "{{ .steps.later.text }}": "", "{{ json .steps.later.output }}": "null",
	} {
		read, err := ReadTemplate(field)
		require.NoError(t, err)
		filled, err := read.Fill(v.Value)
		require.NoError(t, err)
		require.Equal(t, value, filled, field)
	}
}

// A launch has the newest visits that its templates name, also after another visit.
func TestLaunch_values(t *testing.T) {
	t.Parallel()
	s := New(Graph{
		Start: "plan", MaxTransitions: 9, Result: "plan",
		Steps: []Node{
			{Name: "plan", Kind: Agent, MaxIterations: 5, Next: []Branch{{To: "check"}}, Reads: []string{"check"}},
			{Name: "check", Kind: Agent, MaxIterations: 5, Next: []Branch{{Output: true, To: "plan"}}, Reads: []string{"plan"}, End: "escalated"},
		},
	})
	ends := func(number int, matched ...int) {
		s.Drain()
		s.Step(Ended{Launch: s.Running.Launch.ID, Number: number, Status: Completed, Text: "t", Said: true, Matched: matched})
	}
	require.Empty(t, s.Pending.Values)
	ends(1)
	require.Equal(t, []Ref{{Number: 1, Step: "plan"}}, s.Pending.Values)
	ends(2, 0)
	require.Equal(t, []Ref{{Number: 2, Step: "check"}}, s.Pending.Values)
	ends(3)
	require.Equal(t, []Ref{{Number: 3, Step: "plan"}}, s.Pending.Values)
	ends(4)
	require.True(t, s.Done())
	require.Equal(t, &Result{Status: Completed, EndedAs: "escalated", Final: &Ref{Number: 3, Step: "plan"}}, s.Result)
}
