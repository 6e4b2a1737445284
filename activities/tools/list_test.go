package tools_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestList(t *testing.T) {
	t.Parallel()
	b := workspace(t, "b.go", "12", "a/x.go", "1", "a/deep/y_test.go", "1", "a/deep/z.md", strings.Repeat("x", 3000), "a.md", "", "odd\nname", "")
	require.NoError(t, os.Symlink("b.go", b.at("link")))
	require.NoError(t, os.Mkdir(b.at("void"), 0o755))

	for _, tc := range []struct{ path, glob, want string }{
		{"", "", "a/\na.md (0 bytes)\nb.go (2 bytes)\nlink -> b.go\n\"odd\\nname\" (0 bytes)\nvoid/\n"},
		{"a", "", "a/deep/\na/x.go (1 bytes)\n"},
		{"./a/", "", "a/deep/\na/x.go (1 bytes)\n"},
		{"void", "", "[nothing found in void]"},
		{"", "*.go", "a/deep/y_test.go (1 bytes)\na/x.go (1 bytes)\nb.go (2 bytes)\n"},
		{"", "./*.go", "a/deep/y_test.go (1 bytes)\na/x.go (1 bytes)\nb.go (2 bytes)\n"},
		{"", "a/*.go", "a/x.go (1 bytes)\n"},
		{"", "a/**", "a/deep/y_test.go (1 bytes)\na/deep/z.md (2.9 KB)\na/x.go (1 bytes)\n"},
		{"", "a/**/*.go", "a/deep/y_test.go (1 bytes)\na/x.go (1 bytes)\n"},
		{"", "**/deep/**/*.m[dx]", "a/deep/z.md (2.9 KB)\n"},
		{"a", "deep/*", "a/deep/y_test.go (1 bytes)\na/deep/z.md (2.9 KB)\n"},
		{"", "*.rs", "[nothing found in .]"},
	} {
		require.Equal(t, tc.want, b.run("list_files", "path", orDot(tc.path), "glob", tc.glob), "%s %s", tc.path, tc.glob)
	}
	require.Equal(t, b.run("list_files"), b.run("list_files", "path", "."))
	for _, glob := range []string{"[", "a//b", "../*", "a/["} {
		require.Contains(t, b.run("list_files", "glob", glob), "is not a pattern", glob)
	}
	require.Contains(t, b.run("list_files", "path", "nowhere"), "there is no nowhere")
}

func orDot(path string) string {
	if path == "" {
		return "."
	}
	return path
}

func TestList_isBounded(t *testing.T) {
	t.Parallel()
	b := workspace(t)
	for i := range 1100 {
		b.put(fmt.Sprintf("f%04d", i), "")
	}
	result := b.run("list_files")
	require.True(t, strings.HasPrefix(result, "f0000 (0 bytes)\n"))
	require.True(t, strings.HasSuffix(result, "f0999 (0 bytes)\n[1000 of 1100 shown; list a directory further down, or use a narrower glob]\n"))
	require.Equal(t, result, b.run("list_files", "glob", "f*"))
}

// A matcher that backtracked over every ** would not end.
func TestGlob_isLinear(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("a/", 100)
	b := workspace(t, deep+"f", "x")
	require.Equal(t, "[nothing found in .]", b.run("list_files", "glob", strings.Repeat("**/a/", 40)+"g"))
	require.Equal(t, deep+"f (1 bytes)\n", b.run("list_files", "glob", strings.Repeat("**/a/", 40)+"f"))
}
