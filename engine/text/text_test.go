package text_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/text"
)

func TestHead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s         string
		limit     int
		want      string
		truncated bool
	}{
		{"abc", 3, "abc", false},
		{"abcd", 3, "abc", true},
		{"aé", 2, "a", true},
		{"日本", 5, "日", true},
		{"日本", 0, "", true},
		{"日本", -1, "", true},
		{"", 0, "", false},
	} {
		got, truncated := text.Head(tt.s, tt.limit)
		require.Equal(t, tt.want, got, tt.s)
		require.Equal(t, tt.truncated, truncated, tt.s)
	}
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", text.Truncate("short", 5))
	require.Equal(t, "sh…", text.Truncate("shorter", 5))
	require.Equal(t, "ä…", text.Truncate("äöüäöü", 6))
	require.Equal(t, "…", text.Truncate("long enough", 1))
}

func TestTruncate_fitsAndStaysValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, limit := rapid.String().Draw(t, "s"), rapid.IntRange(3, 50).Draw(t, "limit")
		got := text.Truncate(s, limit)
		require.LessOrEqual(t, len(got), limit)
		require.True(t, utf8.ValidString(got))
		require.True(t, got == s || strings.HasSuffix(got, "…"))
	})
}

func TestHeadRunes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "日本", text.HeadRunes("日本語", 2))
	require.Equal(t, "日本語", text.HeadRunes("日本語", 3))
	require.Equal(t, "a\uFFFDb", text.HeadRunes("a\xff\xfebc", 3), "invalid bytes are replaced before they count")
	require.Empty(t, text.HeadRunes("abc", 0))
}

func TestTruncateRunes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s          string
		n          int
		head, tail string
	}{
		{"日本語", 3, "日本語", "日本語"},
		{"日本語", 2, "日…", "…語"},
		{"long enough", 6, "long…", "…nough"},
		{"a\xffb", 2, "a…", "…b"},
		{"abc", 1, "…", "…"},
	} {
		require.Equal(t, tt.head, text.TruncateRunes(tt.s, tt.n), "%q, %d", tt.s, tt.n)
		require.Equal(t, tt.tail, text.TruncateStart(tt.s, tt.n), "%q, %d", tt.s, tt.n)
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b c", text.OneLine(" a\n\tb  c\r\n"))
}

func TestSanitize(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a\nb\tc[31md\uFFFD", text.Sanitize("a\r\nb\tc\x1b[31m\x00d\r\xff"))
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"\x1b[1;31mred\x1b[0m\r\nnext":              "red\nnext",
		"\x1b]0;a title\x07text":                    "text",
		"\x1b]8;;http://h/\x1b\\link\x1b]8;;\x1b\\": "link",
		"one\u202Etwo\u2066":                        "onetwo",
		"\u009b31mred":                              "31mred",
		"a\x9bb":                                    "a\uFFFDb",
		"Grüße,\n\tWelt 👋":                          "Grüße,\n\tWelt 👋",
		"a\x1b[2Jb":                                 "ab",
		"a\a\b\rb":                                  "ab",
		"a\x7fb":                                    "ab",
	} {
		require.Equal(t, want, text.Terminal(s), "%q", s)
	}
	rapid.Check(t, func(t *rapid.T) {
		got := text.Terminal(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		require.True(t, utf8.ValidString(got))
		for _, r := range got {
			require.True(t, r == '\n' || r == '\t' || !unicode.IsControl(r), "%q", got)
		}
	})
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	require.Equal(t, `\[a\](b) \| \*c\* d`, text.Markdown("[a](b) |\n*c* \x1bd"))
}

func TestWithin(t *testing.T) {
	t.Parallel()
	const mark = "=====3f====="
	require.Equal(t, "a [...] b", text.Within("\n a =====3f\x00===== b\r\n", mark), "control characters are removed first")
	require.Equal(t, "a "+mark, text.Within("a "+mark, ""))
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{mark, mark[:6], mark[6:], "[...]", "\x00", "=", "x"})).Draw(t, "pieces")
		require.NotContains(t, text.Within(strings.Join(pieces, ""), mark), mark)
	})
}

func TestTail(t *testing.T) {
	t.Parallel()
	require.Equal(t, "abc", text.Tail("abc", 3))
	require.Equal(t, "c", text.Tail("aéc", 2))
	require.Empty(t, text.Tail("日本", 2))
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sizes       []int
		total, want int
	}{
		{nil, 10, 0},
		{[]int{3, 4}, 10, 7},
		{[]int{8, 8}, 10, 5},
		{[]int{9, 1, 9}, 11, 5},
		{[]int{1, 2}, -5, 0},
	} {
		require.Equal(t, tt.want, text.Share(tt.sizes, tt.total), "%v in %d", tt.sizes, tt.total)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KB", 1536: "1.5 KB", 5 << 20: "5.0 MB", 3 << 30: "3.0 GB"} {
		require.Equal(t, want, text.Size(n))
	}
}

func TestEscapeHidden(t *testing.T) {
	t.Parallel()
	hidden := "{\"a\": \"é 1\u202e2\u200b3\x1b[2K\U000e0041\"}\n"
	shown := text.EscapeHidden(hidden)
	require.Equal(t, "{\"a\": \"é 1\\u202e2\\u200b3\\u001b[2K\\udb40\\udc41\"}\n", shown)
	var was, is map[string]string
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(hidden, "\x1b", "\\u001b")), &was))
	require.NoError(t, json.Unmarshal([]byte(shown), &is))
	require.Equal(t, was, is)
}
