package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCriteria_acceptsEverySpelling(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want Criteria
	}{
		"an array":          {`[{"text": "Is it right?"}]`, Criteria{{Text: "Is it right?", Category: "standard"}}},
		"an object":         {`{"aspiration": "x", "criteria": [{"text": "a"}]}`, Criteria{{Text: "a", Category: "standard"}}},
		"none":              {`[]`, nil},
		"none in an object": {`{"criteria": []}`, nil},
		"other names": {
			`[{"description": "a", "name": "b"}, {"name": "c"}, {"text": "", "description": "d"}]`,
			Criteria{{Text: "a", Category: "standard"}, {Text: "c", Category: "standard"}, {Text: "d", Category: "standard"}},
		},
		"categories": {
			`[{"text": "a", "category": "primary"}, {"text": "b", "category": "must"}, {"text": "c", "category": "could"}, {"text": "d", "category": "x"}]`,
			Criteria{{Text: "a", Category: "primary"}, {Text: "b", Category: "standard"}, {Text: "c", Category: "stretch"}, {Text: "d", Category: "standard"}},
		},
		"everything": {
			`[{"text": "a", "category": "stretch", "verify_by": "run it", "anti_patterns": ["x", "y"], "score_anchors": {"1": "bad", "10": "good"}, "more": 1}]`,
			Criteria{{
				Text: "a", Category: "stretch", VerifyBy: "run it", AntiPatterns: []string{"x", "y"},
				ScoreAnchors: map[string]any{"1": "bad", "10": "good"},
			}},
		},
		"optional keys of wrong types": {
			`[{"text": "a", "category": 1, "verify_by": [], "anti_patterns": "x", "score_anchors": 3}, {"text": "b", "anti_patterns": ["x", 1]}]`,
			Criteria{{Text: "a", Category: "standard"}, {Text: "b", Category: "standard"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseCriteria("c.json", []byte(tt.text))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

// A file for --eval-criteria may come from another program, so that most unknown keys are ignored.
// A key that was probably meant to have an effect causes a warning.
func TestReviewCriteria_warns(t *testing.T) {
	t.Parallel()
	const text = `[{"id": "E1", "aspiration": "x", "text": "a", "category": 1, "verify_by": null, "anti_patterns": []},
 {"name": "b", "verfy_by": "run it", "anti_patterns": ["x", 1], "score_anchors": 3},
 {"name": "c", "score_anchors": {"3": 1, "9-10": "good"}}]`
	got, warnings, err := ReviewCriteria("c.json", []byte(text))
	require.NoError(t, err)
	require.Equal(t, Criteria{
		{Text: "a", Category: "standard"},
		{Text: "b", Category: "standard"},
		{Text: "c", Category: "standard", ScoreAnchors: map[string]any{"9-10": "good"}},
	}, got)
	require.Equal(t, `c.json:1:59: [0].category: ignored: expected a string, found 1
c.json:2:16: [1].verfy_by: unknown key, ignored; did you mean verify_by?
c.json:2:55: [1].anti_patterns: ignored: expected a list of strings, found a list
c.json:2:82: [1].score_anchors: ignored: expected a mapping of scores to their meanings, found 3
c.json:3:39: [2].score_anchors."3": ignored: expected the meaning of the score, a string, found 1`, warnings.Error())
}

func TestParseCriteria_reportsProblems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "c.json:1:1: not valid JSON: unexpected end of JSON input",
		"[{\"text\":\n \"a\",}]":       "c.json:2:6: not valid JSON: invalid character '}' looking for beginning of object key string",
		"- text: a":                    "c.json:1:2: not valid JSON: invalid character ' ' in numeric literal",
		"[\"\xff\"]":                   "c.json:1:3: not UTF-8 text; save the file in UTF-8",
		"3":                            "c.json:1:1: expected an array of criteria, found 3",
		"{}":                           "c.json:1:1: no key criteria; evaluation criteria are an array, or an object with the key criteria",
		`[{"text": "a", "text": "b"}]`: "c.json:1:16: [0].text: duplicate key, set on line 1 already; remove one of them",
		`{"criteria": {}}`:             "c.json:1:14: expected an array of criteria, found a mapping",
		`[{"text": 5}]`:                "c.json:1:11: [0].text: expected a string, found 5",
		`[{"text": "", "name": [1]}]`:  "c.json:1:23: [0].name: expected a string, found a list",
		"[\n\"a\",\n{\"text\": \" \"},\n{\"text\": \"b\"}]": "c.json:2:1: item 1: expected an object with the key text, found the string \"a\"\n" +
			"c.json:3:1: item 2: no text; every criterion needs a non-empty text, description or name",
	} {
		_, err := ParseCriteria("c.json", []byte(text))
		require.EqualError(t, err, want, text)
	}
}
