package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

var _ loop.Tools = (*tools.Opened)(nil)

// bench is a workspace with the file tools.
type bench struct {
	t     *testing.T
	dir   string
	files *tools.Opened
}

// workspace makes a bench with files, which alternate path and content.
func workspace(t *testing.T, files ...string) bench {
	t.Helper()
	b := bench{t: t, dir: t.TempDir()}
	for i := 0; i < len(files); i += 2 {
		b.put(files[i], files[i+1])
	}
	opened, err := tools.Open(t.Context(), b.dir, tools.Set{Files: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	b.files = opened
	return b
}

func (b bench) at(name string) string { return filepath.Join(b.dir, name) }

func (b bench) put(name, content string) {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(filepath.Dir(b.at(name)), 0o755))
	require.NoError(b.t, os.WriteFile(b.at(name), []byte(content), 0o644))
}

func (b bench) get(name string) string {
	b.t.Helper()
	content, err := os.ReadFile(b.at(name))
	require.NoError(b.t, err)
	return string(content)
}

// args builds arguments from alternating names and values.
func args(pairs ...any) string {
	m := make(map[string]any)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	text, _ := json.Marshal(m)
	return string(text)
}

func (b bench) run(tool string, pairs ...any) string {
	b.t.Helper()
	return b.raw(tool, args(pairs...))
}

func (b bench) raw(tool, arguments string) string {
	b.t.Helper()
	out, err := b.files.Run(b.t.Context(), llm.ToolCall{ID: "1", Name: tool, Arguments: arguments})
	require.NoError(b.t, err)
	require.NotContains(b.t, out.Text, b.dir, "a model never sees the path of its workspace")
	return out.Text
}

func TestTools_matchTheContract(t *testing.T) {
	t.Parallel()
	b := workspace(t)
	want := map[string]struct{ required, optional []string }{
		"read_file":    {[]string{"path"}, []string{"offset", "limit"}},
		"write_file":   {[]string{"path", "content"}, nil},
		"edit_file":    {[]string{"path", "old_string", "new_string"}, []string{"replace_all"}},
		"list_files":   {nil, []string{"path", "glob"}},
		"search_files": {[]string{"pattern"}, []string{"path", "glob"}},
		"copy_path":    {[]string{"from", "to"}, nil},
	}
	require.Len(t, b.files.Tools(), len(want))
	for _, tool := range b.files.Tools() {
		var schema struct {
			Type                 string
			Properties           map[string]struct{ Type, Description string }
			Required             []string
			AdditionalProperties *bool
		}
		require.NoError(t, json.Unmarshal(tool.Parameters, &schema))
		require.Equal(t, "object", schema.Type)
		require.NotNil(t, schema.AdditionalProperties)
		require.False(t, *schema.AdditionalProperties)
		require.Equal(t, want[tool.Name].required, schema.Required, tool.Name)
		var names []string
		for name, p := range schema.Properties {
			names = append(names, name)
			require.NotEmpty(t, p.Description)
		}
		require.ElementsMatch(t, append(want[tool.Name].required, want[tool.Name].optional...), names, tool.Name)
		require.NotEmpty(t, tool.Description)
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ tool, arguments, says string }{
		"unknown tool":             {"read_fiel", `{}`, `there is no tool "read_fiel"; did you mean "read_file"?`},
		"alien tool":               {"zzz", `{}`, `there is no tool "zzz"`},
		"not JSON":                 {"read_file", `{"path":`, `not a JSON object`},
		"not an object":            {"read_file", `["a.txt"]`, `"path": string`},
		"null":                     {"read_file", `null`, `not a JSON object`},
		"nothing":                  {"read_file", ``, `needs the argument "path"`},
		"missing":                  {"write_file", `{"path":"x"}`, `needs the argument "content"`},
		"unknown":                  {"read_file", `{"file_path":"a.txt"}`, `has no argument "file_path"; did you mean "path"?`},
		"misspelt":                 {"edit_file", `{"path":"a.txt","oldstring":"x","new_string":"y"}`, `did you mean "old_string"?`},
		"wrong type":               {"read_file", `{"path":"a.txt","offset":"2"}`, `offset`},
		"wrong type, bool":         {"edit_file", `{"path":"a.txt","old_string":"x","new_string":"y","replace_all":"yes"}`, `want "boolean"`},
		"number for a text":        {"write_file", `{"path":"a.txt","content":5}`, `want "string"`},
		"null where needed":        {"read_file", `{"path":null}`, `path`},
		"half a line":              {"read_file", `{"path":"a.txt","offset":1.5}`, `integer`},
		"below the minimum":        {"read_file", `{"path":"a.txt","limit":0}`, `minimum`},
		"negative":                 {"read_file", `{"path":"a.txt","offset":-1}`, `minimum`},
		"all arguments are listed": {"copy_path", `{}`, `{"from": string, "to": string}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := workspace(t, "a.txt", "one\ntwo\n").raw(tc.tool, tc.arguments)
			require.True(t, strings.HasPrefix(result, "error: "), result)
			require.Contains(t, result, tc.says)
		})
	}
	b := workspace(t, "a.txt", "one\ntwo\n")
	require.Equal(t, "one\ntwo\n", b.raw("read_file", `{"path":"a.txt","offset":null,"limit":null}`), "null is absent")
	require.Equal(t, "two\n", b.raw("read_file", `{"path":"a.txt","offset":2.0}`))
}

func TestRun_endedContextIsAnError(t *testing.T) {
	t.Parallel()
	b := workspace(t, "a.txt", "one")
	stop := errors.New("fenced")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	for _, tool := range b.files.Tools() {
		_, err := b.files.Run(ctx, llm.ToolCall{Name: tool.Name, Arguments: `{}`})
		require.ErrorIs(t, err, stop)
	}
}

func TestRun_faultsOfTheHostAreErrors(t *testing.T) {
	t.Parallel()
	files, err := tools.Open(t.Context(), t.TempDir(), tools.Set{Files: true})
	require.NoError(t, err)
	require.NoError(t, files.Close())
	_, err = files.Run(t.Context(), llm.ToolCall{Name: "list_files", Arguments: `{}`})
	require.ErrorIs(t, err, os.ErrClosed)

	_, err = tools.Open(t.Context(), filepath.Join(t.TempDir(), "missing"), tools.Set{Files: true})
	require.ErrorIs(t, err, os.ErrNotExist)
}
