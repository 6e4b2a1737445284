package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

func dataSchema(t require.TestingT) *llm.DataSchema {
	s, err := llm.ReadDataSchema([]byte(`{"type": "object", "properties": {
		"why": {"type": "string"}, "moons": {"type": "array", "items": {"type": "string"}, "x-conclave-set": true}, "count": {"type": "integer", "maximum": 80}},
		"required": ["moons"], "additionalProperties": false}`))
	require.NoError(t, err)
	return s
}

// structured makes the answers of a step data, by a schema.
func structured(t *task) {
	t.Schema, _ = llm.ReadDataSchema([]byte(`{"type": "object", "properties": {
		"why": {"type": "string"}, "moons": {"type": "array", "items": {"type": "string"}, "x-conclave-set": true}, "count": {"type": "integer", "maximum": 80}},
		"required": ["moons"], "additionalProperties": false}`))
	t.Agree, t.ShowAgreement = "data", true
	for i, said := range []string{`{"moons": ["Phobos", "Deimos"], "count": 2}`, `{"moons": ["Deimos", "Phobos"], "why": "seen"}`}[:len(t.Answers)] {
		d, _ := t.Schema.Read([]byte(said))
		var text bytes.Buffer
		_ = json.Indent(&text, d.JSON, "", "  ")
		t.Answers[i].Data, t.Answers[i].Text, t.Answers[i].Digest = d, text.String(), digestOf(text.String(), "")
		t.Answers[i].Digest.Data = hashParts(d.Canonical)
	}
}

func callData(data string) llm.ToolCall { return call("new_answer", `{"data": `+data+`}`) }

// A new answer is data of the schema, which are refused with places and reasons until they fit.
func TestData_isAnswered(t *testing.T) {
	t.Parallel()
	const mars = `{"moons": ["Phobos", "Deimos"]}`
	words := "Look:\n\n```json\n{\n  \"moons\": [\n    \"Phobos\",\n    \"Deimos\"\n  ]\n}\n```"
	for name, c := range map[string]struct {
		mode    string
		turns   []turn
		refused []string // told to the model
		content string
	}{
		"data alone":     {textWhenAsked, []turn{does(callData(mars))}, nil, strings.TrimPrefix(strings.TrimSuffix(words, "\n```"), "Look:\n\n```json\n")},
		"with words":     {textWhenAsked, []turn{does(call("new_answer", `{"content": " Look:\n", "data": `+mars+`}`))}, nil, words},
		"quoted":         {textWhenAsked, []turn{does(call("new_answer", `{"content": "Look:", "data": "{\"moons\": [\"Phobos\",\"Deimos\"]}"}`))}, nil, words},
		"twice the same": {textWhenAsked, []turn{does(callData(mars), callData(`{"moons": ["Deimos", "Phobos", "Deimos"]}`))}, nil, strings.TrimPrefix(strings.TrimSuffix(words, "\n```"), "Look:\n\n```json\n")},
		"refused twice, then right": {
			textWhenAsked,
			[]turn{does(callData(`{"moon": "Phobos", "count": 99}`)), does(call("new_answer", `{"content": "Two."}`)), does(call("new_answer", `{"content": "Look:", "data": `+mars+`}`))},
			[]string{
				"The data do not fit the schema: at /count: maximum: got 99, want 80; at /moon: the schema does not allow it; at the top: missing property 'moons'. Nothing was submitted and no tool was run. Finish by calling new_answer.",
				`new_answer takes {"data": …}`,
			},
			words,
		},
		"a bomb": {
			textWhenAsked,
			[]turn{does(callData(strings.Repeat("[", 40) + strings.Repeat("]", 40))), does(callData(`{"count": 1e999}`)), does(call("new_answer", `{"content": "Look:", "data": `+mars+`}`))},
			[]string{"nested more than 32 levels deep", "at /count: the number is too large"},
			words,
		},
		"a key twice and half a character": {
			textWhenAsked,
			[]turn{does(callData(`{"moons": [], "moons": []}`)), does(callData(`{"moons": ["\ud800"]}`)), does(call("new_answer", `{"content": "Look:", "data": `+mars+`}`))},
			[]string{"at /moons: the key is there twice", "half of a surrogate pair"},
			words,
		},
		"in a fence":         {textWhenAsked, []turn{says("Look:\n```json\n" + mars + "\n```")}, nil, words},
		"in a fence, always": {textAlways, []turn{says("```\n" + mars + "\n```\nLook:")}, nil, words},
		"in a fence, never":  {"never", []turn{says("Look:\n```JSON\n" + mars + "\n```\n")}, nil, words},
		"an object as text":  {textWhenAsked, []turn{says(" " + mars + "\n")}, nil, strings.TrimPrefix(strings.TrimSuffix(words, "\n```"), "Look:\n\n```json\n")},
		"in a fence, refused": {
			textWhenAsked,
			[]turn{says("They are two."), says("```json\n{\"count\": 2}\n```"), says("Look:\n```json\n" + mars + "\n```")},
			[]string{
				"Your reply had no tool call. Nothing was submitted and no tool was run. If you cannot call tools, reply with the data as JSON between a line ```json and a line ```.",
				"at the top: missing property 'moons'. Nothing was submitted and no tool was run. If you cannot call tools, reply with the data as JSON",
			},
			words,
		},
		"after other blocks":  {textAlways, []turn{says("Look:\n```python\nx = 1\n```\nso\n```json\n" + mars + "\n```")}, nil, strings.Replace(words, "Look:", "Look:\n```python\nx = 1\n```\nso", 1)},
		"in a fence, no JSON": {textAlways, []turn{says("```json\n{moons: []}\n```"), says("Look:\n```json\n" + mars + "\n```")}, []string{`new_answer takes {"data": …}`}, words},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := with(with(evaluation(), first), structured)
			task.TextAnswers = c.mode
			p := play(t, t.Context(), task, c.turns...)
			require.NoError(t, p.err)
			var told []string
			for _, e := range p.entries {
				if e.Kind == loop.Rejection {
					told = append(told, e.Messages[0].Content)
				}
			}
			require.Len(t, told, len(c.refused))
			for i, want := range c.refused {
				require.Contains(t, told[i], want)
			}
			var accepted proposal
			require.NoError(t, json.Unmarshal(p.action.Payload, &accepted))
			require.Equal(t, c.content, accepted.Content)
			require.JSONEq(t, mars, string(accepted.Data))
			require.NotEmpty(t, accepted.Equal)
			p.requireRestores(t, task)
		})
	}
}

// With data alone open to text, prose is no answer, and a vote in text still is one.
func TestData_inText(t *testing.T) {
	t.Parallel()
	task := with(evaluation(), structured)
	task.TextAnswers = textAlways
	p := play(t, t.Context(), task, says("They are two."), says("agent3"))
	require.NoError(t, p.err)
	require.Equal(t, "vote", p.action.Kind)

	answering := with(evaluation(), structured)
	answering.TextAnswers = textAlways
	p = play(t, t.Context(), answering, says("I prefer this:\n```json\n{\"moons\": []}\n```"))
	require.NoError(t, p.err)
	require.Equal(t, "new_answer", p.action.Kind, "a block is an answer where a vote is open, too")

	voting := with(evaluation(), structured)
	voting.Offered = voting.Offered[1:]
	p = play(t, t.Context(), voting, says("```json\n{\"moons\": []}\n```"), does(vote("agent1")))
	require.NoError(t, p.err)
	require.Equal(t, "vote", p.action.Kind, "no answer is open")
}

// An agent that repeats the data of an answer endorses it, whatever words stand beside them; with
// other files, or where texts are compared, it does not.
func TestData_duplicate(t *testing.T) {
	t.Parallel()
	same := call("new_answer", `{"content": "In other words.", "data": {"moons": ["Deimos", "Phobos"], "count": 2.0}}`)
	for name, c := range map[string]struct {
		change func(*task)
		turns  []turn
		kind   string
		reason string // of the first rejection
	}{
		"again":              {func(*task) {}, []turn{does(same), does(same)}, "vote", answerDuplicate},
		"with a vote":        {func(*task) {}, []turn{does(vote("agent1"), same)}, "vote", ""},
		"other data":         {func(*task) {}, []turn{does(callData(`{"moons": ["Phobos", "Deimos"], "count": 3}`))}, "new_answer", ""},
		"other files":        {func(t *task) { t.Manifest = manifests("new") }, []turn{does(same)}, "new_answer", ""},
		"texts are compared": {func(t *task) { t.Agree = "normalized" }, []turn{does(same)}, "new_answer", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := with(with(evaluation(), structured), c.change)
			p := play(t, t.Context(), task, c.turns...)
			require.NoError(t, p.err)
			require.Equal(t, c.kind, p.action.Kind)
			for _, e := range p.entries {
				if e.Kind == loop.Rejection {
					require.Equal(t, c.reason, e.Reason)
				}
			}
			p.requireRestores(t, task)
		})
	}
}

// Voters see where answers differ, field by field, without the marks of the prompt.
func TestData_differences(t *testing.T) {
	t.Parallel()
	task := with(evaluation(), structured)
	why, _ := task.Schema.Read([]byte(`{"moons": ["Deimos", "Phobos"], "why": "` + testMark + strings.Repeat("a", 200) + `"}`))
	task.Answers[1].Data = why
	opening, err := newRules(task).Opening()
	require.NoError(t, err)
	require.Contains(t, opening[1].Content, "# Where the answers differ\n\nField by field, with the values and the answers that have them:\n\n"+
		"- /count: 2 (agent1.2) missing (agent3.1)\n- /why: missing (agent1.2) \"[...]aaa")
	require.NotContains(t, opening[1].Content, "/moons")
	require.NotContains(t, opening[1].Content, strings.Repeat("a", maxDifferent+1)+" (", "values are cut")

	task.Answers[1].Data = task.Answers[0].Data
	opening, err = newRules(task).Opening()
	require.NoError(t, err)
	require.NotContains(t, opening[1].Content, "Where the answers differ")

	many := with(evaluation(), structured)
	var fields []string
	for i := range 60 {
		fields = append(fields, fmt.Sprintf(`"f%02d": "%s"`, i, strings.Repeat("x", 200)))
	}
	fields = append(fields, `"a\nb": 1`)
	many.Answers[0].Data, err = llm.ReadData([]byte("{" + strings.Join(fields, ",") + "}"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(many.findDifferences(many.Answers)), maxDifferences)
	require.Contains(t, many.findDifferences(many.Answers), "- /a b: 1 (agent1.2) missing (agent3.1)\n", "a key is one line")
}

// Answers that arrive while an agent works are compared with those that it has.
func TestData_differencesInAnUpdate(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w, func(t *task) { t.Agree, t.ShowAgreement, t.Schema = "data", true, dataSchema(nil) })
	d, err := task.Schema.Read([]byte(`{"moons": ["Io"]}`))
	require.NoError(t, err)
	other, err := task.Schema.Read([]byte(`{"moons": []}`))
	require.NoError(t, err)
	task.Answers[1].Data = d
	p := play(t, t.Context(), task,
		turn{calls: reply(reading).ToolCalls, while: func() {
			a := w.answer(2, 1, "{}")
			a.Data = other
			w.texts[a.Label] = a
		}},
		turn{calls: reply(vote("agent2")).ToolCalls})
	require.NoError(t, p.err)
	require.Contains(t, p.updates()[0], `- /moons: [] (agent2.1) ["Io"] (agent3.1)`)
}

// The tool has the schema in its parameters, without conclave's own keywords, and words for a model
// whose service refuses them.
func TestData_isOffered(t *testing.T) {
	t.Parallel()
	tools := newRules(with(evaluation(), structured)).Offer()
	require.Equal(t, "new_answer", tools[0].Name)
	require.NotContains(t, string(tools[0].Parameters), "x-conclave")
	require.Equal(t, "You have no tool new_answer. To submit an answer, reply with the data as JSON between a line ```json and a line ```.", tools[0].Instead)
	require.Empty(t, tools[1].Instead)
}

// Parts of divided work are texts; what a presenter makes of them is data.
func TestData_ofDividedWork(t *testing.T) {
	t.Parallel()
	s := Step{Agents: []string{"a", "b"}, Launch: coordination.Launch{Agent: "a", Number: 1}}
	s.Team.AnswerSchema = dataSchema(t)
	s.Team.Orchestrator.CoordinationMode = coordination.Decomposition
	planned := func() task { return (&opening{Step: s, numbers: s.Agents}).planTask() }
	require.Nil(t, planned().Schema)
	s.Launch.Purpose = coordination.Present
	require.NotNil(t, planned().Schema)
	s.Launch.Purpose, s.Team.Orchestrator.CoordinationMode = coordination.Coordinate, "voting"
	require.NotNil(t, planned().Schema)
	require.Equal(t, "data", planned().Agree)
}

// The commit and answer.json have the data, and the outcome their digest.
func TestData_isSealed(t *testing.T) {
	t.Parallel()
	o := &opening{Step: Step{Agents: []string{"a"}, Launch: coordination.Launch{Agent: "a", Number: 1}}, numbers: []string{"a"}}
	r := newRules(with(with(evaluation(), first), structured))
	accepted, rejected := r.parseCall(callData(`{"moons": ["Phobos"], "count": 1.0}`))
	require.Nil(t, rejected)
	sealed, err := o.sealAction(loop.Action{Kind: "new_answer", Payload: accepted.payload})
	require.NoError(t, err)
	commit := artifact.Commit{Kind: "new_answer", Payload: sealed.Payload}
	outcome, err := ReadOutcome(commit)
	require.NoError(t, err)
	again, _ := r.parseCall(callData(`{"count": 1, "moons": ["Phobos", "Phobos"]}`))
	sealed, err = o.sealAction(loop.Action{Kind: "new_answer", Payload: again.payload})
	require.NoError(t, err)
	other, err := ReadOutcome(artifact.Commit{Kind: "new_answer", Payload: sealed.Payload})
	require.NoError(t, err)
	require.True(t, outcome.Digest.Equal(other.Digest, "data", true))
	require.False(t, outcome.Digest.Equal(other.Digest, "normalized", true))

	documents, err := o.Documents(t.Context(), nil, 1, commit)
	require.NoError(t, err)
	written, ok := documents[0].Body.(artifact.Answer)
	require.True(t, ok)
	require.JSONEq(t, `{"moons": ["Phobos"], "count": 1.0}`, string(written.Data))
	require.Contains(t, written.Answer, "\"count\": 1.0")
}
