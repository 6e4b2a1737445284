package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The file contains the complete text, in lines that a tool shows completely.
func TestWholeText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"short":              {"Two.", ""},
		"never cut":          {strings.Repeat("x", minShown), ""},
		"lines":              {strings.Repeat("One line.\n", 1000), strings.Repeat("One line.\n", 1000)},
		"one line":           {strings.Repeat("x", 5000), strings.Repeat("x", 2048) + "\n" + strings.Repeat("x", 2048) + "\n" + strings.Repeat("x", 904) + "\n"},
		"words":              {strings.Repeat("twelve bytes", 500), strings.Repeat("twelve bytes", 170) + "twelve \n"},
		"characters":         {strings.Repeat("a", 1) + strings.Repeat("é", 3000), "a" + strings.Repeat("é", 1023) + "\n"},
		"control characters": {"\x00\x1b" + strings.Repeat("One line.\r\n", 1000), strings.Repeat("One line.\n", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := wholeText(c.text, 0)
			require.True(t, strings.HasPrefix(whole, c.want) && (c.want != "" || whole == ""), "%.100q", whole)
			for line := range strings.Lines(whole) {
				require.LessOrEqual(t, len(line), 2<<10+1)
			}
			if name != "control characters" && whole != "" {
				require.Equal(t, strings.ReplaceAll(c.text, "\n", ""), strings.ReplaceAll(whole, "\n", ""))
			}
		})
	}
}
