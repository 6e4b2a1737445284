package tools_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestRead(t *testing.T) {
	t.Parallel()
	b := workspace(t,
		"whole", "one\r\n\ttwo\nthree", "empty", "", "long", numbered(5000), "bin", "PNG\x00\x01", "wide", strings.Repeat("x", 10_000)+"\nend\n",
		"latin1", "caf\xe9\n", "fat", strings.Repeat(strings.Repeat("y", 999)+"\n", 100))
	require.Equal(t, "one\r\n\ttwo\nthree", b.run("read_file", "path", "whole"), "unchanged")
	require.Equal(t, "\ttwo\n[lines 2-2 of whole (15 bytes in all); read on with offset 3]", b.run("read_file", "path", "./whole", "offset", 2, "limit", 1))
	require.Equal(t, "three", b.run("read_file", "path", "whole", "offset", 3, "limit", 1))
	require.Equal(t, "one\r\n\ttwo\nthree", b.run("read_file", "path", "whole", "offset", 0, "limit", 1e300))
	require.Equal(t, "[whole has only 3 lines; there is no line 9]", b.run("read_file", "path", "whole", "offset", 9))
	require.Equal(t, "[whole has only 3 lines; there is no line 1099511627776]", b.run("read_file", "path", "whole", "offset", 1e300))
	require.Equal(t, "[empty is empty]", b.run("read_file", "path", "empty"))
	require.Equal(t, "[bin is a binary file of 5 bytes; its content is not shown]", b.run("read_file", "path", "bin"))
	require.Equal(t, "caf\uFFFD\n", b.run("read_file", "path", "latin1"))

	result := b.run("read_file", "path", "long")
	require.True(t, strings.HasPrefix(result, "line 1\n"))
	require.True(t, strings.HasSuffix(result, "line 2000\n[lines 1-2000 of long (47.7 KB in all); read on with offset 2001]"), result[len(result)-100:])
	require.True(t, strings.HasSuffix(b.run("read_file", "path", "long", "offset", 4001), "line 5000\n"))

	result = b.run("read_file", "path", "wide")
	require.Equal(t, strings.Repeat("x", 4096)+"… [5905 more bytes of this line]\nend\n", result)

	result = b.run("read_file", "path", "fat")
	require.Less(t, len(result), 49<<10)
	require.Contains(t, result, "[lines 1-49 of fat")
}

// Reading on at the suggested offsets shows every line once.
func TestRead_continues(t *testing.T) {
	t.Parallel()
	whole := numbered(4321)
	b := workspace(t, "f", whole)
	var got strings.Builder
	for offset := 1; ; {
		result := b.run("read_file", "path", "f", "offset", offset)
		text, note, more := strings.Cut(result, "[")
		got.WriteString(text)
		if !more {
			break
		}
		_, err := fmt.Sscanf(note[strings.Index(note, "offset"):], "offset %d]", &offset)
		require.NoError(t, err)
	}
	require.Equal(t, whole, got.String())
}
