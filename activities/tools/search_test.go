package tools_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	b := workspace(t,
		"b.go", "package b\r\n\tfunc Find()\n", "a/x.go", "func find() // here", "a/x.md", "find me", "bin", "find\x00", "peers/agent1/p.go", "find(peer)\n")
	for _, tc := range []struct {
		arguments []any
		want      string
	}{
		{[]any{"pattern", "find"}, "a/x.go:1: func find() // here\na/x.md:1: find me\npeers/agent1/p.go:1: find(peer)\n"},
		{[]any{"pattern", `(?i)^\s*func \w+\(\)`, "glob", "*.go"}, "a/x.go:1: func find() // here\nb.go:2: \tfunc Find()\n"},
		{[]any{"pattern", `b$`}, "b.go:1: package b\n"},
		{[]any{"pattern", "find", "path", "peers"}, "peers/agent1/p.go:1: find(peer)\n"},
		{[]any{"pattern", "find", "path", "a/x.md"}, "a/x.md:1: find me\n"},
		{[]any{"pattern", "nowhere"}, "[no matches in .]"},
		{[]any{"pattern", "nowhere", "path", "a"}, "[no matches in a]"},
	} {
		require.Equal(t, tc.want, b.run("search_files", tc.arguments...), "%v", tc.arguments)
	}
	for says, arguments := range map[string][]any{
		"not RE2":                   {"pattern", "("},
		"not RE2: error":            {"pattern", `(?=x)`},
		"1 to 1000":                 {"pattern", ""},
		"1 to 1000 characters":      {"pattern", strings.Repeat("x", 1001)},
		"there is no nowhere":       {"pattern", "x", "path", "nowhere"},
		"binary file":               {"pattern", "x", "path", "bin"},
		"is not a pattern":          {"pattern", "x", "glob", "["},
		"the path .. leads out":     {"pattern", "x", "path", ".."},
		`needs the argument "patte`: {"path", "a"},
	} {
		result := b.run("search_files", arguments...)
		require.True(t, strings.HasPrefix(result, "error: "), result)
		require.Contains(t, result, says)
	}
}

func TestSearch_isBounded(t *testing.T) {
	t.Parallel()
	b := workspace(t, "many", strings.Repeat("hit\n", 500), "wide", strings.Repeat("w", 1<<20)+"\n", "z", "hit\n")
	result := b.run("search_files", "pattern", "hit")
	require.Equal(t, 201, strings.Count(result, "\n"))
	require.True(t, strings.HasSuffix(result, "many:200: hit\n[200 matches shown, there are more; narrow the pattern, the path or the glob]\n"))
	require.Less(t, len(b.run("search_files", "pattern", "w+")), 400, "a long line is truncated")
}
