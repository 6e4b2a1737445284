package llm

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// finder returns a tool with required and optional arguments of every type.
func finder(t *testing.T) *Schema {
	t.Helper()
	s, err := CompileSchema(Tool{Name: "find", Parameters: json.RawMessage(`{
		"type": "object", "required": ["path"], "additionalProperties": false,
		"properties": {
			"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}, "deep": {"type": "boolean"},
			"kind": {"type": "string", "enum": ["file", "dir"]}, "names": {"type": "array", "items": {"type": "string"}}
		}}`)})
	require.NoError(t, err)
	return s
}

type found struct {
	Path  string   `json:"path"`
	Limit *int     `json:"limit"`
	Deep  bool     `json:"deep"`
	Kind  string   `json:"kind"`
	Names []string `json:"names"`
}

func TestSchema_Decode(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]found{
		`{"path":"a"}`:                                {Path: "a"},
		` {"path": "a", "limit": 3} `:                 {Path: "a", Limit: new(3)},
		`{"path":"a","limit":null,"names":null}`:      {Path: "a"},
		`{"path":"","deep":true}`:                     {Deep: true},
		`{"path":"a","kind":"dir","names":["x","y"]}`: {Path: "a", Kind: "dir", Names: []string{"x", "y"}},
		`{"path":"a","names":[]}`:                     {Path: "a", Names: []string{}},
		`{"path":"a","limit":3.0}`:                    {Path: "a", Limit: new(3)},
	} {
		var got found
		require.NoError(t, finder(t).Decode(arguments, &got), arguments)
		require.Equal(t, want, got, arguments)
	}
}

// An error names the fault and lists the arguments of the tool.
func TestSchema_Decode_refuses(t *testing.T) {
	t.Parallel()
	const usage = `{"deep"?: boolean, "kind"?: string, "limit"?: integer, "names"?: array, "path": string}`
	for arguments, want := range map[string]string{
		"":                          `find needs the argument "path"; it takes ` + usage,
		"  \n":                      `find needs the argument "path"`,
		`{}`:                        `find needs the argument "path"`,
		`null`:                      "the arguments of find are not a JSON object",
		`"a"`:                       "the arguments of find are not a JSON object",
		`["a"]`:                     "send " + usage,
		`{"path":"a"`:               "unexpected end of JSON input",
		`{"path":"a","pth":"b"}`:    `find has no argument "pth"; did you mean "path"?; it takes ` + usage,
		`{"path":"a","zzzz":"b"}`:   `find has no argument "zzzz"; it takes`,
		`{"path":null}`:             "wrong arguments for find",
		`{"path":5}`:                "wrong arguments for find",
		`{"path":"a","limit":"3"}`:  "wrong arguments for find",
		`{"path":"a","limit":0}`:    "wrong arguments for find",
		`{"path":"a","limit":1.5}`:  "wrong arguments for find",
		`{"path":"a","deep":"yes"}`: "wrong arguments for find",
		`{"path":"a","kind":"x"}`:   "wrong arguments for find",
		`{"path":"a","names":[1]}`:  "wrong arguments for find",
		`{"path":"a","names":"x"}`:  "wrong arguments for find",
	} {
		var got found
		err := finder(t).Decode(arguments, &got)
		require.ErrorContains(t, err, want, arguments)
		var refused ArgumentError
		require.ErrorAs(t, err, &refused, arguments)
		require.NotContains(t, err.Error(), "validating root")
		require.Equal(t, found{}, got, "nothing is read from refused arguments")
	}
}

func TestCompile_refuses(t *testing.T) {
	t.Parallel()
	_, err := CompileSchema(Tool{Name: "odd", Parameters: json.RawMessage(`5`)})
	require.ErrorContains(t, err, "read the schema of tool odd")
	_, err = CompileSchema(Tool{Name: "odd", Parameters: json.RawMessage(`{"$ref":"#/nowhere"}`)})
	require.ErrorContains(t, err, "resolve the schema of tool odd")
}

// Every built-in tool has a schema that refuses unknown arguments and describes each known one.
func TestFiles_schemas(t *testing.T) {
	t.Parallel()
	for _, tool := range append(FileTools(), ShellTool()) {
		s, err := CompileSchema(tool)
		require.NoError(t, err, tool.Name)
		var got map[string]any
		require.ErrorContains(t, s.Decode(`{"no_such_argument":1}`, &got), "has no argument", tool.Name)
		var spec struct {
			Type       string
			Properties map[string]struct{ Type, Description string }
		}
		require.NoError(t, json.Unmarshal(tool.Parameters, &spec))
		require.Equal(t, "object", spec.Type)
		for name, p := range spec.Properties {
			require.NotEmpty(t, p.Type, "%s.%s", tool.Name, name)
			require.NotEmpty(t, p.Description, "%s.%s", tool.Name, name)
		}
		require.Equal(t, tool.Name != RunCommand, tool.Description != "", "the shell's depends on the sandbox")
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	choices := []string{"path", "limit"}
	require.Equal(t, `; did you mean "path"?`, SuggestName("pth", choices))
	require.Empty(t, SuggestName("zzzz", choices))
	require.Empty(t, SuggestName("path", nil))
}
