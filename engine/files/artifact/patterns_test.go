package artifact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The expectations are those of git check-ignore 2.39.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lines         string
		ignored, kept []string // directories end in "/"
	}{
		"nothing":           {"", nil, []string{"a", "a/"}},
		"comments, blanks":  {"# a\n\n   \n\\#b", []string{"#b"}, []string{"a", "# a", "   "}},
		"base names":        {"a.log", []string{"a.log", "sub/a.log", "a.log/"}, []string{"b.log", "a.log.txt"}},
		"anchored":          {"/a\nsub/b", []string{"a", "sub/b"}, []string{"sub/a", "x/sub/b"}},
		"directories":       {"build/", []string{"build/", "sub/build/"}, []string{"build"}},
		"the last one wins": {"*.log\n!keep.log\nsub/keep.log", []string{"a.log", "sub/keep.log"}, []string{"keep.log", "other/keep.log"}},
		"one element":       {"/a*b?c", []string{"ab1c", "a-b-c"}, []string{"a/b1c", "abc"}},
		"any elements":      {"a/**/z\n**/temp\nout/**", []string{"a/z", "a/b/c/z", "temp", "x/y/temp", "out/x"}, []string{"az", "out/"}},
		"classes":           {"[a-c]x\n[!a-c]y\n[[:digit:]]z", []string{"bx", "dy", "7z"}, []string{"dx", "by", "az"}},
		"escapes":           {"\\!a\nb\\*\nc\\ \nd  ", []string{"!a", "b*", "c ", "d"}, []string{"bx", "c", "d  "}},
		"malformed":         {"[a-\na\\\n!\n/", nil, []string{"a", "[a-", "/"}},
		"Windows":           {"a\r\nb/\r", []string{"a", "b/"}, []string{"b", "a\r"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l patterns
			l.addLines("", strings.Split(test.lines, "\n"))
			for _, path := range test.ignored {
				clean, dir := strings.CutSuffix(path, "/")
				require.True(t, l.ignoresPath(clean, dir), path)
			}
			for _, path := range test.kept {
				clean, dir := strings.CutSuffix(path, "/")
				require.False(t, l.ignoresPath(clean, dir), path)
			}
		})
	}
}

// Patterns of a directory apply below it; those of a tree inside a repository are read from
// the top of the repository.
func TestPatterns_directories(t *testing.T) {
	t.Parallel()
	l := patterns{}
	l.addLines("", []string{"/tree/a", "/b"})
	l.above = "tree/"
	l.addLines("sub", []string{"/c", "d"})
	below := l
	below.addLines("sub/deep", []string{"!d"})
	for _, name := range []string{"a", "sub/c", "sub/d", "sub/deep/d"} {
		require.True(t, l.ignoresPath(name, false), name)
	}
	for _, name := range []string{"b", "c", "d", "sub/a"} {
		require.False(t, l.ignoresPath(name, false), name)
	}
	require.False(t, below.ignoresPath("sub/deep/d", false))
	require.True(t, below.ignoresPath("sub/d", false))
}
