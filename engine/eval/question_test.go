package eval_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/eval"
)

func TestReadQuestions(t *testing.T) {
	t.Parallel()
	questions, err := eval.ReadQuestions([]byte(`{"id":"a","input":"2 + 2?","target":4,"metadata":{"kind":"sum"}}

{"input":"Iron?","target":["B"],"choices":["Fe2","Fe"]}
`), "")
	require.NoError(t, err)
	require.Len(t, questions, 2)
	require.Equal(t, eval.Targets{"4"}, questions[0].Target)
	require.Equal(t, "2 + 2?\n\nEnd with one line: ANSWER: (your answer)", questions[0].Prompt())
	require.Equal(t, "q3", questions[1].ID, "the number of its line")
	require.Equal(t, "Iron?\n\nA) Fe2\nB) Fe\n\nAnswer with the letter of the right choice.\n\nEnd with one line: ANSWER: (your answer)", questions[1].Prompt())
	require.Equal(t, []string{eval.Match, eval.Choice, eval.Exact}, []string{questions[0].ScoredBy(""), questions[1].ScoredBy(""), questions[1].ScoredBy(eval.Exact)})

	again, err := json.Marshal(questions[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"a","input":"2 + 2?","target":"4","metadata":{"kind":"sum"}}`, string(again))
}

// Files of other tools may have numbers as IDs and begin with a byte order mark.
func TestReadQuestions_otherTools(t *testing.T) {
	t.Parallel()
	questions, err := eval.ReadQuestions([]byte("\ufeff{\"id\":7,\"input\":\"x\",\"target\":\"y\"}\r\n{\"id\":null,\"input\":\"x\",\"target\":\"y\"}\r\n"), "")
	require.NoError(t, err)
	require.Equal(t, []string{"7", "q2"}, []string{questions[0].ID, questions[1].ID})
}

// A file in another format gives one error of bounded length.
func TestReadQuestions_boundsFaults(t *testing.T) {
	t.Parallel()
	_, err := eval.ReadQuestions([]byte(strings.Repeat("question,answer\n", 500)), "")
	require.ErrorContains(t, err, "line 1: not a JSON object")
	require.ErrorContains(t, err, "and 490 more lines")
	require.Less(t, strings.Count(err.Error(), "\n"), 12)
}

// Public data sets have fields of their own. GSM8K's answers end with #### and the number.
func TestDataSet_ofOthers(t *testing.T) {
	t.Parallel()
	lines := []byte(`{"question":"2 + 2?","answer":"Two and two.\n#### 4","source":"s"}
{"question":"3 + 3?","answer":"#### 6","input":"not this","level":2}
`)
	fields := map[string]string{"input": "question", "target": "answer"}
	questions, ignored, err := eval.DataSet{Data: lines, Fields: fields}.Read()
	require.NoError(t, err)
	require.Equal(t, []string{"level", "source"}, ignored)
	require.Equal(t, "2 + 2?", questions[0].Input)
	require.Equal(t, "3 + 3?", questions[1].Input)
	require.Equal(t, []eval.Targets{{"4"}, {"6"}}, []eval.Targets{questions[0].Target, questions[1].Target})

	questions, _, err = eval.DataSet{Data: lines, Fields: fields, Scorer: eval.Exact}.Read()
	require.NoError(t, err)
	require.Equal(t, eval.Targets{"Two and two.\n#### 4"}, questions[0].Target, "only match compares the number")

	_, _, err = eval.DataSet{Data: lines}.Read()
	require.ErrorContains(t, err, "line 1: no input; give the text of the question, or the field that has it: --field input=NAME")
	_, _, err = eval.DataSet{Data: lines, Fields: map[string]string{"inputs": "question"}}.Read()
	require.ErrorContains(t, err, "--field input=NAME", "a misspelt field")
}

func TestReadQuestions_refuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ data, want string }{
		"nothing":             {"\n", "it has no question"},
		"no object":           {`{"id":"a",`, "line 1: not a JSON object: unexpected end of JSON input; give one question a line"},
		"messages":            {`{"id":"a","input":[{"role":"user","content":"x"}],"target":"y"}`, "a question has id, input (a text)"},
		"id of a kind":        {`{"id":[1],"input":"x","target":"y"}`, "the id is neither a text nor a number"},
		"two values":          {`{"id":"a","input":"x","target":"y"} {}`, "one question a line"},
		"no input":            {`{"id":"a","target":"y"}`, "line 1: no input"},
		"no target":           {`{"id":"a","input":"x"}`, "no target"},
		"empty target":        {`{"id":"a","input":"x","target":[" "]}`, "a target is empty"},
		"target of a kind":    {`{"id":"a","input":"x","target":true}`, "give a string, a number, an object or a list of them"},
		"id":                  {`{"id":"a b","input":"x","target":"y"}`, `the id "a b"; give at most 40 letters`},
		"same id":             {"{\"id\":\"a\",\"input\":\"x\",\"target\":\"y\"}\n{\"id\":\"a\",\"input\":\"x\",\"target\":\"y\"}", `line 2: the id "a" is that of line 1, too`},
		"scorer":              {`{"id":"a","input":"x","target":"y","scorer":"best"}`, `no scorer "best"; use match, exact`},
		"pattern":             {`{"id":"a","input":"x","target":"(","scorer":"pattern"}`, "not a regular expression (RE2)"},
		"choice":              {`{"id":"a","input":"x","target":"C","choices":["x","y"]}`, "neither a letter nor the text of a choice"},
		"choice without any":  {`{"id":"a","input":"x","target":"C","scorer":"choice"}`, "needs choices"},
		"checks without any":  {`{"id":"a","input":"x","scorer":"checks"}`, "the scorer checks needs checks"},
		"checks of a kind":    {`{"id":"a","input":"x","target":"y","checks":{"name":"n"}}`, `checks is "{\"name\":\"n\"}"; give a directory, or a list as in checks.yaml`},
		"file outside":        {`{"id":"a","input":"x","target":"y","files":{"../f":"g"}}`, `the file "../f" lies outside the question's files`},
		"base and files":      {`{"id":"a","input":"x","target":"y","base":"b","files":{"f":"g"}}`, "base and files exclude each other"},
		"every fault is told": {"{}\n{\"input\":\"x\"}", "line 2: no target"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := eval.ReadQuestions([]byte(tc.data), "")
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestExtract(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"ANSWER: 42":                                 "42",
		"It is.\n\n**ANSWER: 42**":                   "42",
		"**Answer:** (42)":                           "42",
		"answer: f(x)":                               "f(x)",
		"ANSWER: 1\nNo, wait.\nANSWER: 2\nBye.":      "2",
		"> ANSWER: `blue`":                           "blue",
		"The answer is 42":                           "",
		"ANSWER:":                                    "",
		"My ANSWER: none":                            "",
		"ANSWER: (your answer)\nANSWER: 3 apples":    "3 apples",
		`It is \boxed{42}.`:                          "42",
		`\boxed{1}, no: \(\boxed{26\text{ rolls}}\)`: "26 rolls",
		"\\boxed{7}\nANSWER: 8":                      "8",
		`ANSWER: $\boxed{\frac{1}{2}}$`:              `\frac{1}{2}`,
		`\boxed{42`:                                  "",
		"":                                           "",
	} {
		require.Equal(t, want, eval.Extract(answer), "%q", answer)
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	right, wrong := new(bool), new(bool)
	*right = true
	for name, tc := range map[string]struct {
		scorer, target, answer string
		want                   *bool
	}{
		"number":                      {eval.Match, "1200", "ANSWER: 1,200 rolls.", right},
		"another number":              {eval.Match, "1200", "ANSWER: 120", wrong},
		"sum":                         {eval.Match, "278", "ANSWER: 17 * 24 - 130 = 278", right},
		"dollars":                     {eval.Match, "3.5", "ANSWER: $3.50", right},
		"fraction":                    {eval.Match, "1/2", "ANSWER: 0.5", right},
		"negative":                    {eval.Match, "-4", "ANSWER: 4", wrong},
		"minus sign":                  {eval.Match, "-4", "ANSWER: \u22124", right},
		"word":                        {eval.Match, "Paris", "ANSWER: \"paris\".", right},
		"two numbers":                 {eval.Match, "4", "ANSWER: 4 or 5", wrong},
		"identifier":                  {eval.Match, "2", "ANSWER: h2o", wrong},
		"no line":                     {eval.Match, "4", "It is 4", nil},
		"exact":                       {eval.Exact, "Paris", "ANSWER: Paris", right},
		"exact counts case":           {eval.Exact, "Paris", "ANSWER: paris", wrong},
		"includes":                    {eval.Includes, "Paris", "I think of PARIS, in France", right},
		"includes not":                {eval.Includes, "Paris", "Rome", wrong},
		"includes nothing":            {eval.Includes, "Paris", " ", nil},
		"pattern":                     {eval.Pattern, `^\d{3}-\d`, "123-4", right},
		"letter":                      {eval.Choice, "B", "ANSWER: b", right},
		"letter with text":            {eval.Choice, "B", "ANSWER: (B) silver", right},
		"text of the choice":          {eval.Choice, "B", "ANSWER: Silver", right},
		"another letter":              {eval.Choice, "B", "ANSWER: A", wrong},
		"a word with a first letter":  {eval.Choice, "B", "ANSWER: Both", wrong},
		"a target as text":            {eval.Choice, "silver", "ANSWER: B)", right},
		"only files can show whether": {eval.Command, "true", "ANSWER: 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := eval.Question{Target: eval.Targets{"never right", tc.target}, Scorer: tc.scorer, Choices: []string{"gold", "silver"}}
			if tc.scorer == eval.Choice {
				q.Target = q.Target[1:]
			}
			_, got := q.Score("", tc.answer)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestVoteKey(t *testing.T) {
	t.Parallel()
	q := eval.Question{Choices: []string{"gold", "silver"}}
	require.Equal(t, q.VoteKey("", "ANSWER: B"), q.VoteKey("", "so\nANSWER: (b) silver"))
	open := eval.Question{}
	require.Equal(t, open.VoteKey("", "ANSWER: 1,000"), open.VoteKey("", "x\nANSWER: 1000 m"))
	require.NotEqual(t, open.VoteKey("", "ANSWER: 1"), open.VoteKey("", "ANSWER: 2"))
	require.Equal(t, open.VoteKey("", "a  TEXT."), open.VoteKey("", "A text"))
}
