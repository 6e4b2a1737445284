package progress_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/progress"
	"conclave/engine/llm"
)

func TestPlainLeavesNothingThatATerminalObeys(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"ordinary text stays":        {"Grüße,\n\tWelt 👋", "Grüße,\n\tWelt 👋"},
		"colours":                    {"\x1b[31mred\x1b[0m", "red"},
		"window title":               {"\x1b]0;pwned\x07done", "done"},
		"hyperlink":                  {"\x1b]8;;http://x/\x1b\\text\x1b]8;;\x1b\\", "text"},
		"clear screen":               {"a\x1b[2Jb", "ab"},
		"bell, backspace, carriage":  {"a\a\b\rb", "ab"},
		"line ends of other systems": {"a\r\nb", "a\nb"},
		"C1 as UTF-8":                {"a\u009b31mb", "a31mb"},
		"delete":                     {"a\x7fb", "ab"},
		"reordering marks":           {"a\u202eb\u2066c", "abc"},
		"invalid UTF-8":              {"a\xffb", "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, progress.Plain(tt.in))
		})
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m")
	f.Add("\x9b2J")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range progress.Plain(text) {
			require.False(t, r < ' ' && r != '\n' && r != '\t', "%q of %q", r, text)
			require.False(t, 0x7f <= r && r <= 0x9f, "%q of %q", r, text)
		}
	})
}

func TestLineIsOneLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b c", progress.Line(" a\n\n b\t\x1b[1mc "))
}

func TestCutKeepsWholeCharacters(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", progress.Cut("short", 5))
	require.Equal(t, "sh…", progress.Cut("shorter", 5))
	require.Equal(t, "ä…", progress.Cut("äöüäöü", 6))
	require.LessOrEqual(t, len(progress.Cut(strings.Repeat("👋", 100), 50)), 50)
	require.Equal(t, "…", progress.Cut("long enough", 1))
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	usd := func(v float64) *float64 { return &v }
	require.Equal(t, "no tokens yet", progress.Cost(llm.Usage{}))
	require.Equal(t, "30 tokens, cost unknown", progress.Cost(llm.Usage{InputTokens: 10, OutputTokens: 20, ModelCalls: 1}))
	require.Equal(t, "30 tokens, at least $0.2500", progress.Cost(llm.Usage{InputTokens: 10, OutputTokens: 20, KnownUSD: 0.25, ModelCalls: 2}))
	require.Equal(t, "1.5k tokens, $0.0123", progress.Cost(llm.Usage{InputTokens: 1500, TotalUSD: usd(0.01234), ModelCalls: 1}))
	require.Equal(t, "0 tokens, no cost", progress.Cost(llm.Usage{TotalUSD: usd(0), ModelCalls: 1}))
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0k", 99_999: "100.0k", 100_000: "100k", 2_500_000: "2.5M"} {
		require.Equal(t, want, progress.Count(n))
	}
	for d, want := range map[time.Duration]string{-time.Second: "0:00", 61 * time.Second: "1:01", 3661 * time.Second: "1:01:01"} {
		require.Equal(t, want, progress.Clock(d))
	}
	require.Equal(t, "1 vote, 2 votes", progress.Plural(1, "vote")+", "+progress.Plural(2, "vote"))
}
