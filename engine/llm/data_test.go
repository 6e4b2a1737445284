package llm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
)

const choiceSchema = `{
	"type": "object",
	"properties": {
		"why": {"type": "string", "minLength": 3},
		"choice": {"enum": ["tabs", "spaces"]},
		"score": {"type": "number", "minimum": 0, "maximum": 1},
		"tags": {"type": "array", "items": {"type": "string"}, "x-conclave-set": true},
		"note": {"type": ["string", "null"], "x-conclave-ignore": true}
	},
	"required": ["choice", "why"],
	"additionalProperties": false
}`

// tree is a recursive schema with alternatives that differ by a constant, as pydantic writes unions.
const tree = `{"$ref": "#/$defs/E", "$defs": {
	"E": {"oneOf": [{"$ref": "#/$defs/Sum"}, {"$ref": "#/$defs/Product"}, {"type": "number"}]},
	"Sum": {"type": "object", "properties": {"op": {"const": "+"}, "l": {"$ref": "#/$defs/E"}, "r": {"$ref": "#/$defs/E"}}, "required": ["op", "l", "r"]},
	"Product": {"type": "object", "properties": {"op": {"const": "*"}, "l": {"$ref": "#/$defs/E"}, "r": {"$ref": "#/$defs/E"}}, "required": ["op", "l", "r"]}
}}`

func readSchema(t require.TestingT, schema string) *llm.DataSchema {
	s, err := llm.ReadDataSchema([]byte(schema))
	require.NoError(t, err)
	return s
}

func TestDataSchema_refusesWithPlaceAndReason(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ schema, data, want string }{
		"fits":                {choiceSchema, `{"choice": "tabs", "why": "short", "score": 0.5, "tags": ["a"], "note": null}`, ""},
		"quoted by the model": {choiceSchema, `"{\"choice\": \"tabs\", \"why\": \"short\"}"`, ""},
		"missing":             {choiceSchema, `{"choice": "tabs"}`, `at the top: missing property 'why'`},
		"enum":                {choiceSchema, `{"choice": "both", "why": "short"}`, `at /choice: value must be one of 'tabs', 'spaces'`},
		"unknown property":    {choiceSchema, `{"choice": "tabs", "why": "short", "wyh": ""}`, `at /wyh: the schema does not allow it`},
		"two faults":          {choiceSchema, `{"choice": "tabs", "why": "x", "score": 2}`, "at /score: maximum: got 2, want 1; at /why: minLength: got 1, want 3"},
		"type":                {choiceSchema, `["tabs"]`, `at the top: got array, want object`},
		"not JSON":            {choiceSchema, `{"choice": `, `it is not JSON: unexpected end of JSON input`},
		"item":                {`{"type": "array", "items": {"type": "integer"}}`, `[1, 1.0, 1e2, 1.5]`, `at /3: got number, want integer`},
		"tuple":               {`{"prefixItems": [{"type": "string"}], "items": false}`, `["a", 1]`, `at /1: nothing is allowed here`},
		"tuple of draft 7":    {`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": false}`, `["a", 1]`, `at /1: the schema does not allow it`},
		"key with a slash":    {`{"properties": {"a/b": {"type": "null"}}}`, `{"a/b": 1}`, `at /a~1b: got number, want null`},
		"names":               {`{"propertyNames": {"maxLength": 2}}`, `{"abc": 1}`, `at /abc: maxLength: got 3, want 2`},
		"values of a map":     {`{"additionalProperties": {"type": "integer"}}`, `{"a": 1, "b": "2"}`, `at /b: got string, want integer`},
		"pattern":             {`{"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": false}`, `{"n1": 1, "m": 1}`, `at /m: the schema does not allow it`},
		"reference":           {`{"$defs": {"P": {"type": "string", "pattern": "^[a-z]+$"}}, "properties": {"p": {"$ref": "#/$defs/P"}}}`, `{"p": "A"}`, `at /p: 'A' does not match pattern '^[a-z]+$'`},
		"alternatives":        {`{"anyOf": [{"type": "null"}, {"type": "object", "required": ["x"]}]}`, `{}`, `at the top: it fits none of the alternatives (1) at the top: got object, want null (2) at the top: missing property 'x'`},
		"too many fit":        {`{"oneOf": [{"type": "number"}, {"type": "integer"}]}`, `1`, `at the top: it fits more than one of the alternatives of oneOf`},
		"all of":              {`{"allOf": [{"required": ["a"]}, {"required": ["b"]}]}`, `{"a": 1}`, `at the top: missing property 'b'`},
		"not":                 {`{"not": {"type": "null"}}`, `null`, `at the top: it fits the schema under not`},
		"constant":            {`{"const": {"a": [1.0]}}`, `{"a": [1]}`, ``},
		"recursion":           {tree, `{"op": "+", "l": 1, "r": {"op": "*", "l": 2, "r": 3}}`, ``},
		"deep recursion":      {tree, strings.Repeat(`{"op": "+", "l": 1, "r": `, 31) + "1" + strings.Repeat("}", 31), ``},
		"wrong in the deep":   {tree, strings.Repeat(`{"op": "+", "l": 1, "r": `, 31) + `"1"` + strings.Repeat("}", 31), `at the top: it fits none of the alternatives`},
		"to itself":           {`{"$ref": "#"}`, `1`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readSchema(t, tc.schema).Read([]byte(tc.data))
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestDataSchema_formats(t *testing.T) {
	t.Parallel()
	for format, texts := range map[string][2]string{
		"date-time": {"2026-01-31T10:00:00Z", "2026-01-31 10:00"}, "date": {"2026-02-28", "2026-02-30"}, "time": {"10:00:00Z", "25:00:00Z"},
		"duration": {"P3DT4H", "3 days"}, "email": {"a@example.com", "a at b"}, "uri": {"https://example.com/a", "example"},
		"uuid": {"123e4567-e89b-12d3-a456-426614174000", "123"}, "ipv4": {"192.0.2.1", "192.0.2.256"}, "ipv6": {"2001:db8::1", "192.0.2.1"},
	} {
		for _, draft := range []string{"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"} {
			s := readSchema(t, fmt.Sprintf(`{"$schema": %q, "format": %q}`, draft, format))
			require.Empty(t, s.Unchecked)
			_, err := s.Read([]byte(`"` + texts[0] + `"`))
			require.NoError(t, err, format)
			_, err = s.Read([]byte(`"` + texts[1] + `"`))
			require.ErrorContains(t, err, "is not valid "+format, draft+texts[1])
		}
	}
}

// What is not checked is named with its place, and everything else still is checked.
func TestDataSchema_names_whatItDoesNotCheck(t *testing.T) {
	t.Parallel()
	s := readSchema(t, `{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
		"properties": {"host": {"format": "hostname"}, "word": {"pattern": "(?=a)", "maxLength": 3}, "re": {"type": "string", "format": "regex"}},
		"patternProperties": {"^(?!x)": {"type": "integer"}, "^y": {"type": "integer"}}, "if": {"required": ["host"]}, "then": {"required": ["word"]}}`)
	require.Equal(t, []string{"format hostname", "format regex", "if", "pattern (?=a)", "pattern ^(?!x)"}, s.Unchecked)
	_, err := s.Read([]byte(`{"host": "-", "other": 1, "word": "b", "re": "("}`))
	require.NoError(t, err)
	_, err = s.Read([]byte(`{"word": "long", "y": "1"}`))
	require.EqualError(t, err, "at /word: maxLength: got 4, want 3; at /y: got string, want integer")
	require.Contains(t, s.Sent(""), `"pattern":"(?=a)"`, "models are shown it")
}

func TestReadDataSchema_refuses(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`true`:                                                         "it is not a JSON object; give a schema such as",
		`{"type": "strng"}`:                                            "it is not a JSON Schema: at /type: ",
		`{"properties": []}`:                                           "it is not a JSON Schema: at /properties: got array, want object",
		`{"items": {"minLength": -1}}`:                                 "at /items/minLength: minimum: got -1, want 0",
		`{"$ref": "#/$defs/None"}`:                                     "it is not a JSON Schema",
		`{"$schema": "https://a/b"}`:                                   "it is not a JSON Schema",
		`{"$ref": "https://a/b"}`:                                      "it refers to another document, https://a/b; put what is there under $defs",
		`{"items": {"$ref": "b.json#/x"}}`:                             "another document, b.json",
		`{"$id": "https://a/b", "$ref": "c"}`:                          "another document, https://a/c",
		`{"$ref": "file:///etc/passwd"}`:                               "another document",
		`{"type": "null", "type": null}`:                               "at /type: the key is there twice",
		`{"a": "` + strings.Repeat("x", 65<<10) + `"}`:                 "at most 65536 are accepted",
		strings.Repeat(`{"not":`, 33) + "{}" + strings.Repeat("}", 33): "nested more than 32 levels deep",
	} {
		_, err := llm.ReadDataSchema([]byte(schema))
		require.ErrorContains(t, err, want, schema[:min(len(schema), 60)])
	}
}

func TestReadData_refuses(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		``:                                      "it is not JSON",
		`{} {}`:                                 "it is not JSON",
		"\"\xff\"":                              "it is not UTF-8",
		`{"a": {"b": 1, "b": 2}}`:               "at /a/b: the key is there twice",
		`{"é": 1, "e\u0301": 2}`:                "the key is there twice",
		`["\ud800"]`:                            `\ud800 is half of a surrogate pair`,
		`["\udc00\ud800"]`:                      "half of a surrogate pair",
		`{"\ud83d": 1}`:                         "half of a surrogate pair",
		`[1e309]`:                               "at /0: the number is too large",
		`[1e-400]`:                              "too small",
		`[1e99999999999999999999]`:              "too large",
		strings.Repeat("9", 101):                "too long",
		`"` + strings.Repeat("a", 65<<10) + `"`: "at most 65536",
		`[` + strings.Repeat("1,", 10_000) + `1]`:         "more than 10000 values",
		strings.Repeat("[", 33) + strings.Repeat("]", 33): "nested more than 32 levels deep",
		strings.Repeat("[", 32_000):                       "it is not JSON",
	} {
		_, err := llm.ReadData([]byte(data))
		require.ErrorContains(t, err, want, data[:min(len(data), 60)])
	}
	for _, data := range []string{`"\ud83d\ude00"`, `"\\ud800"`, `0e99999`, strings.Repeat("[", 32) + strings.Repeat("]", 32)} {
		_, err := llm.ReadData([]byte(data))
		require.NoError(t, err, data)
	}
}

// References that double the work at every step, for the same value or below it, are checked once.
func TestDataSchema_bombs(t *testing.T) {
	t.Parallel()
	var defs strings.Builder
	for i := range 300 {
		fmt.Fprintf(&defs, `"a%d": {"allOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	doubled := readSchema(t, `{"$ref": "#/$defs/a0", "$defs": {`+defs.String()+`"a300": {"type": "null"}}}`)
	_, err := doubled.Read([]byte(`1`))
	require.EqualError(t, err, "at the top: got number, want null")

	below := readSchema(t, `{"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}`)
	_, err = below.Read([]byte(strings.Repeat("[", 32) + strings.Repeat("]", 32)))
	require.NoError(t, err)

	wide := readSchema(t, `{"items": {"allOf": [`+strings.Repeat(`{"type":"number"},`, 1000)+`{}]}}`)
	_, err = wide.Read([]byte("[" + strings.Repeat("1,", 5000) + "1]"))
	require.ErrorContains(t, err, "there is too much to compare with the schema")
}

func TestDataSchema_canonical(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ schema, a, b, want string }{
		"key order":            {`{}`, `{"b": 1, "a": 2}`, `{"a":2,"b":1}`, `{"a":2,"b":1}`},
		"numbers":              {`{}`, `[1, 0.10, 100, -0, 12e-1]`, `[1.0, 1e-1, 1e2, 0, 1.2]`, `[1,0.1,100,0,1.2]`},
		"great numbers differ": {`{}`, `12345678901234567890`, `12345678901234567890.0`, `12345678901234567890`},
		"texts in NFC":         {`{}`, `{"é": "e\u0301<"}`, `{"e\u0301": "é<"}`, `{"é":"é<"}`},
		"sets":                 {choiceSchema, `{"choice":"tabs","why":"abc","tags":["b","a","b"]}`, `{"choice":"tabs","why":"abc","tags":["a","b"]}`, `{"choice":"tabs","tags":["a","b"],"why":"abc"}`},
		"ignored":              {choiceSchema, `{"choice":"tabs","why":"abc","note":"x"}`, `{"choice":"tabs","why":"abc"}`, `{"choice":"tabs","why":"abc"}`},
		"sets of objects": {
			`{"items": {"$ref": "#/$defs/P"}, "x-conclave-set": true, "$defs": {"P": {"properties": {"why": {"x-conclave-ignore": true}}}}}`,
			`[{"id": 2, "why": "x"}, {"id": 1}]`, `[{"id": 1, "why": "y"}, {"id": 2}]`, `[{"id":1},{"id":2}]`,
		},
		"of the alternative that fits": {
			`{"anyOf": [{"properties": {"k": {"const": 1}, "v": {"x-conclave-ignore": true}}}, {"properties": {"k": {"const": 2}, "v": {"x-conclave-set": true}}}]}`,
			`{"k": 2, "v": [2, 1]}`, `{"k": 2, "v": [1, 2]}`, `{"k":2,"v":[1,2]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := readSchema(t, tc.schema)
			a, err := s.Read([]byte(tc.a))
			require.NoError(t, err)
			b, err := s.Read([]byte(tc.b))
			require.NoError(t, err)
			require.Equal(t, tc.want, a.Canonical)
			require.Equal(t, tc.want, b.Canonical)
			require.Empty(t, llm.Differences([]llm.Data{a, b}))
		})
	}
	for _, unequal := range [][2]string{{`"A"`, `"a"`}, {`[1, 2]`, `[2, 1]`}, {`1`, `"1"`}, {`{}`, `[]`}, {`{"0": 1}`, `[1]`}, {`null`, `{}`}, {`"a "`, `"a"`}} {
		a, _ := llm.ReadData([]byte(unequal[0]))
		b, _ := llm.ReadData([]byte(unequal[1]))
		require.NotEqual(t, a.Canonical, b.Canonical)
	}
}

func TestDifferences_namesFieldsAndValues(t *testing.T) {
	t.Parallel()
	s := readSchema(t, choiceSchema)
	var all []llm.Data
	for _, data := range []string{
		`{"choice": "tabs", "why": "abc", "tags": ["x", "y"], "note": "a"}`, `{"choice": "tabs", "why": "abc", "tags": ["y", "x"], "note": "b"}`, `{"choice": "spaces", "why": "abc", "score": 1}`,
	} {
		d, err := s.Read([]byte(data))
		require.NoError(t, err)
		all = append(all, d)
	}
	require.Equal(t, []llm.Difference{
		{Path: "/choice", Values: []string{`"tabs"`, `"tabs"`, `"spaces"`}},
		{Path: "/score", Values: []string{"", "", "1"}},
		{Path: "/tags", Values: []string{`["x","y"]`, `["x","y"]`, ""}},
	}, llm.Differences(all))
}

// A tool's parameters keep the order of properties, in which models write them, without the keywords
// that are conclave's own, and with references to the new place.
func TestDataSchema_isSent(t *testing.T) {
	t.Parallel()
	s := readSchema(t, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://a/b", "type": "object",
		"properties": {"why": {"type": "string"}, "choice": {"type": "array", "x-conclave-set": true}, "next": {"$ref": "#"}, "x-conclave-ignore": {"$ref": "#/$defs/A"}},
		"$defs": {"A": {"enum": ["x-conclave-set", {"$ref": "#"}]}}}`)
	require.JSONEq(t, `{"type": "object", "properties": {"why": {"type": "string"}, "choice": {"type": "array"}, "next": {"$ref": "#"}, "x-conclave-ignore": {"$ref": "#/$defs/A"}},
		"$defs": {"A": {"enum": ["x-conclave-set", {"$ref": "#"}]}}}`, s.Sent(""))
	sent := string(s.Arguments("data", "content", llm.Property{Type: "string", Description: "Words."}))
	require.Less(t, strings.Index(sent, `"why"`), strings.Index(sent, `"choice"`))
	require.Contains(t, sent, `"next":{"$ref":"#/properties/data"}`)
	arguments := readSchema(t, sent)
	_, err := arguments.Read([]byte(`{"data": {"next": {"x-conclave-ignore": "A"}}}`))
	require.ErrorContains(t, err, "at /data/next/x-conclave-ignore: ")
	_, err = arguments.Read([]byte(`{"content": "text"}`))
	require.ErrorContains(t, err, "missing property 'data'")
}

func TestDataSchema_example(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		choiceSchema: `{"choice": "spaces", "why": "offline"}`,
		tree:         `1`,
		`{"type": "object", "properties": {"a": {"type": ["array", "null"]}, "b": {"type": "boolean"}}, "required": ["a", "b"]}`: `{"a": null, "b": false}`,
	} {
		require.JSONEq(t, want, string(readSchema(t, schema).Example(1)))
	}
	require.Nil(t, readSchema(t, `{"type": "string", "pattern": "^[0-9]{9}$"}`).Example(0))
}

// Canonical JSON does not depend on the order of keys, the spelling of numbers or the form of texts.
func TestReadData_canonicalOfAnySpelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := drawValue(t, 3)
		spell := func() llm.Data {
			d, err := llm.ReadData([]byte(spellValue(t, value)))
			require.NoError(t, err)
			return d
		}
		a, b := spell(), spell()
		require.Equal(t, a.Canonical, b.Canonical)
		require.Equal(t, a.Fields, b.Fields)
		again, err := llm.ReadData([]byte(a.Canonical))
		require.NoError(t, err)
		require.Equal(t, a.Canonical, again.Canonical, "canonical JSON is its own canonical form")
	})
}

func drawValue(t *rapid.T, depth int) any {
	kinds := []string{"number", "text", "null"}
	if depth > 0 {
		kinds = append(kinds, "array", "object")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "number":
		return rapid.IntRange(-100000, 100000).Draw(t, "number")
	case "text":
		return rapid.SampledFrom([]string{"", "é", "ﬁ", "a\n\"b\"", "😀", "Å"}).Draw(t, "text")
	case "array":
		items := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, drawValue(t, depth-1))
		}
		return items
	case "object":
		fields := map[string]any{}
		for _, name := range []string{"a", "é", "A/b"}[:rapid.IntRange(0, 3).Draw(t, "fields")] {
			fields[name] = drawValue(t, depth-1)
		}
		return fields
	}
	return nil
}

// spellValue writes a value in one of its spellings.
func spellValue(t *rapid.T, value any) string {
	switch value := value.(type) {
	case int:
		return fmt.Sprintf(rapid.SampledFrom([]string{"%d", "%d.0", "%d.00e0", "%de+0", "%d.000E-0"}).Draw(t, "spelling"), value)
	case string:
		if rapid.Bool().Draw(t, "decomposed") {
			value = strings.NewReplacer("é", "e\u0301", "Å", "A\u030a").Replace(value)
		}
		if rapid.Bool().Draw(t, "escaped") {
			return escapeText(value)
		}
		return fmt.Sprintf("%q", value)
	case []any:
		var items []string
		for _, item := range value {
			items = append(items, spellValue(t, item))
		}
		return "[ " + strings.Join(items, " ,\n") + "]"
	case map[string]any:
		var names []string
		for name := range value {
			names = append(names, name)
		}
		var fields []string
		for _, name := range rapid.Permutation(names).Draw(t, "order") {
			fields = append(fields, escapeText(name)+": "+spellValue(t, value[name]))
		}
		return "{" + strings.Join(fields, ",") + " }"
	}
	return "null"
}

// escapeText writes a text with every character escaped.
func escapeText(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= 0x10000 {
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return `"` + b.String() + `"`
}

func FuzzDataSchema(f *testing.F) {
	f.Add(choiceSchema, `{"choice": "tabs", "why": "abc"}`)
	f.Add(tree, `{"op": "+", "l": 1, "r": 2}`)
	f.Fuzz(func(t *testing.T, schema, data string) {
		s, err := llm.ReadDataSchema([]byte(schema))
		if err != nil {
			return
		}
		if _, err := llm.ReadDataSchema(s.Arguments("data", "content", llm.Property{Type: "string"})); err != nil && len(schema) < 1000 && !strings.Contains(err.Error(), "levels deep") {
			t.Fatalf("the parameters are no schema: %v", err)
		}
		s.Example(1)
		d, err := s.Read([]byte(data))
		if err != nil {
			return
		}
		again, err := s.Read(d.JSON)
		if err != nil || again.Canonical != d.Canonical {
			t.Fatalf("%s is read as %s: %v", d.JSON, again.Canonical, err)
		}
	})
}
