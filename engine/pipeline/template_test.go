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
		"a {{ .thing }}":                "{{ .thing }} at character 3 names nothing",
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

// A value is one word only where a shell takes a quoted text as it is.
func TestTemplate_misplacedField(t *testing.T) {
	t.Parallel()
	for command, misplaced := range map[string]bool{
		"grep {{ .request }} a":                                                        false,
		"echo 'a' \"b\" `c` \\' {{ .request }}":                                        false,
		"echo \"\\\"\" {{ .request }}":                                                 false,
		"git log --grep={{ .request }}.. >{{ .request }}":                              false,
		"X={{ .request }} make | tee {{ .request }}":                                   false,
		"export X={{ .request }}; for f in {{ .request }} b; do echo $f; done":         false,
		"case {{ .request }} in a) ls $(echo {{ .request }});; esac <<<{{ .request }}": false,

		"echo '{{ .request }}'":                         true,
		"echo \"x {{ .request }}\"":                     true,
		"echo $'{{ .request }}'":                        true,
		"echo \\{{ .request }}":                         true,
		"cat <<END\n{{ .request }}\nEND":                true,
		"echo 'it'\\''s {{ .request }}'":                true,
		"# {{ .request }}\nmake":                        true, // a line break would end the comment
		"make # for {{ .request }}":                     true,
		"echo $(( {{ .request }} + 1 ))":                true, // arithmetic runs what stands in a subscript
		"(( {{ .request }} ))":                          true,
		"[[ {{ .request }} -eq 1 ]]":                    true,
		"declare -i n={{ .request }}":                   true,
		"let n={{ .request }}":                          true,
		"echo ${x:-{{ .request }}} ${x:{{ .request }}}": true,
		"a[{{ .request }}]=1":                           true,
		"echo 'open {{ .request }}":                     true,
	} {
		read, err := ReadTemplate(command)
		require.NoError(t, err)
		require.Equal(t, misplaced, read.MisplacedField() != nil, command)
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

// Rule 24: a step is tried again before its rules are looked at, after waits that double.
func TestRetries(t *testing.T) {
	t.Parallel()
	g := Graph{Start: "test", Steps: []Node{
		{Name: "test", Kind: Tools, Retry: Retries{Attempts: 3, Seconds: 20, On: []Status{Failed, MaxIterations}}, Next: []Branch{{When: Failed, To: "mend"}, {To: "done"}}},
		{Name: "mend", Next: []Branch{{To: "test"}}},
		{Name: "done"},
	}}
	r := start(t, g)
	wait := func() {
		r.t.Helper()
		require.Empty(r.t, r.state.Drain(), "a wait is drained once")
		r.state.Step(Waited{ID: 99})
		require.NotNil(r.t, r.state.Wait, "of another wait")
		r.state.Step(Waited{ID: r.state.Waits})
		r.drain()
	}
	r.play("test fails one")
	require.Equal(t, []Wait{{ID: 1, Step: "test", Seconds: 20}}, r.waits)
	r.state.Step(Pause{})
	r.state.Step(Waited{ID: 1})
	require.Empty(t, r.state.Drain(), "a pause holds it back")
	r.state.Step(Resume{})
	r.drain()
	r.play("test max")
	require.Equal(t, []Wait{{ID: 1, Step: "test", Seconds: 20}, {ID: 2, Step: "test", Seconds: 40}}, r.waits)
	wait()
	r.play("test fails three\nmend says mended\ntest fails again")
	require.Len(t, r.waits, 3, "a new visit begins anew")
	require.Equal(t, Wait{ID: 3, Step: "test", Seconds: 20}, r.waits[2])
	wait()
	r.play("test done\ndone says done")
	require.Equal(t, Completed, r.done.Status)

	r = start(t, g)
	r.play("test breaks off")
	r.state.Step(Cancel{})
	r.drain()
	require.Equal(t, Cancelled, r.done.Status)

	g.Steps[0].Limits.ModelCalls, g.Steps[0].Retry.Seconds = 0, 0
	g.Steps[0].Limits.Seconds = 1
	r = start(t, g)
	r.play("test takes 2")
	require.Equal(t, "done", r.at.Step)
}
