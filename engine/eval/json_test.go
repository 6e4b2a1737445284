package eval

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// The scorer json compares data field by field, wherever an answer has them.
func TestQuestion_scoresJSON(t *testing.T) {
	t.Parallel()
	schema, err := llm.ReadDataSchema([]byte(`{"type": "object", "properties": {"tags": {"type": "array", "x-conclave-set": true}, "why": {"x-conclave-ignore": true}}}`))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		answer string
		right  bool
		fields map[string]bool
	}{
		"equal":            {`{"n": 1.0, "tags": ["b", "a"], "people": [{"name": "A"}, {"name": "B"}]}`, true, map[string]bool{"/n": true, "/tags": true, "/people/*/name": true}},
		"in a fence":       {"So:\n```json\n{\"tags\": [\"a\", \"b\"], \"n\": 1, \"why\": \"-\", \"people\": [{\"name\": \"A\"}, {\"name\": \"B\"}]}\n```", true, map[string]bool{"/n": true, "/tags": true, "/people/*/name": true}},
		"a wrong field":    {`{"n": 2, "tags": ["b", "a"], "people": [{"name": "A"}, {"name": "C"}]}`, false, map[string]bool{"/n": false, "/tags": true, "/people/*/name": false}},
		"one more":         {`{"n": 1, "tags": ["a", "b"], "people": [{"name": "A"}, {"name": "B"}], "x": 1}`, false, map[string]bool{"/n": true, "/tags": true, "/people/*/name": true, "/x": false}},
		"the other target": {`{"n": 3}`, true, map[string]bool{"/n": true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			questions, err := ReadQuestions([]byte(`{"id": "q", "input": "Which?", "target": [{"n": 1, "tags": ["a", "b"], "why": "known", "people": [{"name": "A"}, {"name": "B"}]}, "{\"n\": 3}"]}`), JSON)
			require.NoError(t, err)
			q := questions[0]
			q.Schema = schema
			extracted, correct := q.Score("", c.answer)
			require.NotNil(t, correct)
			require.Equal(t, c.right, *correct)
			require.NotEmpty(t, extracted)
			require.Equal(t, c.fields, q.Fields("", c.answer))
			require.Contains(t, q.Prompt(), "Answer with JSON")
		})
	}
	q := Question{ID: "q", Input: "?", Target: Targets{`{"n": 1}`}, Scorer: JSON}
	_, correct := q.Score("", "I do not know.")
	require.Nil(t, correct, "it cannot be read")
	require.Equal(t, map[string]bool{"/n": false}, q.Fields("", "I do not know."))
	require.Equal(t, q.VoteKey("", `{"b": 1, "a": 2}`), q.VoteKey("", "```json\n{\"a\": 2.0, \"b\": 1}\n```"))
	require.Nil(t, Question{Target: Targets{"1"}}.Fields("", "ANSWER: 1"))
}

func TestReadQuestions_refusesTargetsThatAreNoJSON(t *testing.T) {
	t.Parallel()
	_, err := ReadQuestions([]byte(`{"input": "?", "target": "tabs", "scorer": "json"}`), "")
	require.ErrorContains(t, err, "line 1: the target is not JSON: ")
	_, err = ReadQuestions([]byte(`{"input": "?", "target": {"choice": "tabs"}, "scorer": "json"}`), "")
	require.NoError(t, err)
}

// The accuracy of a field is the share of the samples that have it right.
func TestSummarize_fields(t *testing.T) {
	t.Parallel()
	arm := Arm{Name: "team", Kind: Team}
	summary := Summarize([]Sample{
		{ID: "a", Epoch: 1, Arm: "team", Correct: new(true), Fields: map[string]bool{"/choice": true, "/score": true}},
		{ID: "b", Epoch: 1, Arm: "team", Correct: new(false), Fields: map[string]bool{"/choice": true, "/score": false}},
		{ID: "c", Epoch: 1, Arm: "team", Failed: "failed", Fields: map[string]bool{"/choice": false}},
	}, []Arm{arm})
	require.Equal(t, map[string]float64{"/choice": 0.6667, "/score": 0.5}, summary.Arms["team"].Fields)
}
