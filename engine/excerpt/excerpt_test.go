package excerpt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/excerpt"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		limit int
		want  string
		cut   bool
	}{
		{"abc", 3, "abc", false},
		{"abcd", 3, "abc", true},
		{"aé", 2, "a", true},
		{"日本", 5, "日", true},
		{"日本", 0, "", true},
		{"", 0, "", false},
	} {
		got, cut := excerpt.Of(tt.text, tt.limit)
		require.Equal(t, tt.want, got, tt.text)
		require.Equal(t, tt.cut, cut, tt.text)
	}
}

func TestMarkedFitsAndStaysValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, limit := rapid.String().Draw(t, "text"), rapid.IntRange(3, 50).Draw(t, "limit")
		got := excerpt.Marked(text, limit)
		require.LessOrEqual(t, len(got), limit)
		require.True(t, utf8.ValidString(got))
		require.True(t, got == text || strings.HasSuffix(got, "…"))
	})
}
