package text

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"model", "model", 0},
		{"abdc", "abcd", 1}, // swapped
		{"modl", "model", 1},
		{"modell", "model", 1},
		{"nodel", "model", 1},
		{"kitten", "sitting", 3},
	} {
		require.Equal(t, tt.want, editDistance(tt.a, tt.b), tt.a)
		require.Equal(t, tt.want, editDistance(tt.b, tt.a), tt.b)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	choices := []string{"model", "models", "base_url", "path", "mcp__greeter__greet", "system_message", "round_limit", "round_grace"}
	for word, want := range map[string]string{
		"mdel":                   "model",
		"MODELS":                 "models",
		"baseURL":                "base_url",
		"file_path":              "path", // a part of the word
		"greet":                  "mcp__greeter__greet",
		"system_prompt":          "system_message", // the same first part
		"System-Instructions":    "system_message",
		"round_of_applause":      "", // two choices begin with it
		"systemic":               "",
		"xy":                     "",
		"p":                      "", // too short to be a part
		"":                       "",
		"notebook":               "",
		strings.Repeat("a", 200): "",
	} {
		got, ok := Nearest(word, choices)
		require.Equal(t, want, got, word)
		require.Equal(t, want != "", ok, word)
	}
}
