package artifact_test

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/files/artifact"
)

func TestEscapePath(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"main.go":                "main.go",
		"src/a_b-c.1":            "src/a_b-c.1",
		"my notes.txt":           "my=20notes.txt",
		"a=b":                    "a=3Db",
		"é/x":                    "=C3=A9/x",
		".env":                   ".env",
		"...":                    "...",
		"x\\..\\y":               "x=5C..=5Cy",
		"line\nfeed":             "line=0Afeed",
		strings.Repeat("a", 255): strings.Repeat("a", 255),
	} {
		got, err := artifact.EscapePath(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
		back, err := artifact.UnescapePath(got)
		require.NoError(t, err)
		require.Equal(t, name, back)
	}
}

func TestEscapePath_refuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", ".", "..", "/etc/passwd", "a//b", "a/", "./a", "a/../b", "../a", "a\x00b",
		strings.Repeat("é", 43), strings.Repeat("a", 256), strings.Repeat("dir/", 200) + "x",
	} {
		_, err := artifact.EscapePath(name)
		var bad *artifact.NameError
		require.ErrorAs(t, err, &bad, name)
	}
	for _, escaped := range []string{"", "a b", "a=", "a=2", "a=2g", "a=2e", "=2E=2E", "a=00", "a=2Fb", "a//b", "../a", "a=41"} {
		_, err := artifact.UnescapePath(escaped)
		require.Error(t, err, escaped)
	}
}

func TestEscapePath_oneToOne(t *testing.T) {
	t.Parallel()
	names := rapid.Custom(func(t *rapid.T) string {
		segment := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 1, 12).Draw(t, "bytes")) })
		return path.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "segments")...)
	})
	rapid.Check(t, func(t *rapid.T) {
		name := names.Draw(t, "name")
		escaped, err := artifact.EscapePath(name)
		if err != nil {
			t.Skip("no workspace path")
		}
		require.NoError(t, artifact.CheckKey("agents/a/001/workspace/"+escaped))
		back, err := artifact.UnescapePath(escaped)
		require.NoError(t, err)
		require.Equal(t, name, back)
	})
}

func TestUnescapePath_acceptsOnlyEscapedPaths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		escaped := rapid.StringMatching(`[a-c=0-9A-F./]{1,20}`).Draw(t, "escaped")
		name, err := artifact.UnescapePath(escaped)
		if err != nil {
			t.Skip("nothing EscapePath writes")
		}
		again, err := artifact.EscapePath(name)
		require.NoError(t, err)
		require.Equal(t, escaped, again)
	})
}

func TestMaxKey_fitsTheLongestPath(t *testing.T) {
	t.Parallel()
	layout := artifact.InBucket(strings.Repeat("s", artifact.MaxSessionID))
	longest := layout.Step(strings.Repeat("a", 32), 999_999, "workspace/"+strings.Repeat("x", artifact.MaxPath))
	require.LessOrEqual(t, artifact.MaxStorePrefix+len("/")+len(longest), artifact.MaxKey)
}

func TestCheckIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"s1", "2026-03-20_a.b", "A", ".x", strings.Repeat("a", 128)} {
		require.NoError(t, artifact.CheckSessionID(id), id)
	}
	for _, id := range []string{"", ".", "..", "a/b", "a b", "a:b", "a=b", "é", strings.Repeat("a", 129)} {
		require.ErrorContains(t, artifact.CheckSessionID(id), "session", id)
	}
	for _, id := range []string{"a", "agent_a", "a-1", "a" + strings.Repeat("0", 31)} {
		require.NoError(t, artifact.CheckAgentID(id), id)
	}
	for _, id := range []string{"", "A", "1a", "_a", "a.b", "a b", "a\n", "é", "a" + strings.Repeat("0", 32)} {
		require.ErrorContains(t, artifact.CheckAgentID(id), "agent_a", id)
	}
}

func TestSessionIDOf(t *testing.T) {
	t.Parallel()
	for workflow, want := range map[string]string{
		"nightly-2026-11-24T07:00:00Z": "nightly-2026-11-24T07-00-00Z", "s_1.a-B": "s_1.a-B", "a/b\x00\u00e9 ": "a-b----",
	} {
		require.Equal(t, want, artifact.SessionIDOf(workflow))
		require.NoError(t, artifact.CheckSessionID(want))
	}
}
