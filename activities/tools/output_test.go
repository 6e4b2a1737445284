package tools

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSanitize_leavesText(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"plain\n\ttext\n":                           "plain\n\ttext\n",
		"\x1b[1;31mred\x1b[0m":                      "red",
		"\x1b]0;a title\x07text":                    "text",
		"\x1b]8;;http://h/\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b(Btext\x1b=\x1b[?25l":                  "text",
		"10%\r50%\r100%\ndone\r\n":                  "100%\ndone\n",
		"100%\r":                                    "100%",
		"a\x00b\x07c\x08d\x7fe\u0085f":              "abcdef",
		"caf\xe9":                                   "caf\uFFFD",
		"cut \x1b[1;3":                              "cut ",
		"cut \x1b]0;title":                          "cut ",
		"é 日本 👍":                                    "é 日本 👍",
	} {
		require.Equal(t, want, sanitize(output), "%q", output)
	}
}

func TestHostPaths(t *testing.T) {
	t.Parallel()
	const text = "at /srv/step-1/files/a.go and /srv/step-1/tmp, not /srv/step, /srv/step-1"
	require.Equal(t, "at ./a.go and ../tmp, not /srv/step, ..", hostPaths("/srv/step-1/files").Replace(text))
}

// A host path that lies across an end of the shown output is replaced.
func TestCapture_cutsNoHostPath(t *testing.T) {
	t.Parallel()
	const path = "/srv/step-1/files/"
	for shift := range len(path) + 1 {
		c := &capture{mask: hostPaths(path[:len(path)-1]), spool: t.TempDir()}
		output := strings.Repeat("x", shift) + strings.Repeat(path+strings.Repeat("x", 20), 5000) + strings.Repeat("x", shift)
		_, err := c.Write([]byte(output))
		require.NoError(t, err)
		require.NotContains(t, c.showOutput(func(*os.File) (string, error) { return "f", nil }), "/s")
		c.close()
	}
}

// Shown and stored output do not depend on the size of the pieces.
func TestCapture_ofAnyLength(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("é", 31) + "\n" // 63 bytes, so that cuts fall into characters
	for _, size := range []int{0, 1, shownHead, shownHead + shownTail, shownHead + shownTail + 1, 200_000} {
		for _, piece := range []int{1000, 1 << 20} {
			text := strings.ToValidUTF8(strings.Repeat(line, size/len(line)+1)[:size], "")
			c := &capture{mask: hostPaths("/srv/step-1/files"), spool: t.TempDir()}
			for rest := text; rest != ""; {
				n := min(piece, len(rest))
				_, err := c.Write([]byte(rest[:n]))
				require.NoError(t, err)
				rest = rest[n:]
			}
			stored := ""
			shown := c.showOutput(func(f *os.File) (string, error) {
				data, err := os.ReadFile(f.Name())
				stored = string(data)
				return "f", err
			})
			require.Less(t, len(shown), shownHead+shownTail+500)
			if len(text) <= shownHead+shownTail {
				require.Empty(t, stored)
				require.NotContains(t, shown, "not shown")
			} else {
				require.Equal(t, text, stored)
				require.Contains(t, shown, "; the whole is in f,")
				require.NotContains(t, shown, "\uFFFD", "no character is cut")
			}
			c.close()
			left, err := os.ReadDir(c.spool)
			require.NoError(t, err)
			require.Empty(t, left)
		}
	}
}

func TestCapture_isBounded(t *testing.T) {
	t.Parallel()
	c := &capture{mask: hostPaths("/srv/step-1/files"), spool: t.TempDir()}
	defer c.close()
	chunk := []byte(strings.Repeat("x", 1<<20))
	for range 20 {
		_, err := c.Write(chunk)
		require.NoError(t, err)
	}
	shown := c.showOutput(func(f *os.File) (string, error) {
		info, err := f.Stat()
		require.NoError(t, err)
		require.EqualValues(t, maxStored, info.Size())
		return "f", err
	})
	require.Contains(t, shown, "the first 16.0 MB of the whole are in f")
	require.Less(t, cap(c.tail), 4<<20)
}

// A command does not fail because its output cannot be stored.
func TestCapture_withoutSpool(t *testing.T) {
	t.Parallel()
	c := &capture{mask: hostPaths("/srv/step-1/files"), spool: t.TempDir() + "/missing"}
	defer c.close()
	_, err := c.Write([]byte(strings.Repeat("x", 100_000)))
	require.NoError(t, err)
	require.Contains(t, c.showOutput(nil), "could not be kept")
}
