package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEvidence(t *testing.T) {
	t.Parallel()
	file, typ, err := CheckEvidence("before", "screenshot")
	require.NoError(t, err)
	require.Equal(t, "before.png image/png", file+" "+typ)
	file, _, err = CheckEvidence("before.PNG", "screenshot")
	require.NoError(t, err)
	require.Equal(t, "before.png", file)
	for _, name := range []string{"", "../x", "a/b", ".hidden", "a..b", "x.meta", strings.Repeat("a", 101), "a b", "ä"} {
		_, _, err := CheckEvidence(name, "screenshot")
		require.Error(t, err, name)
	}
	for _, name := range []string{"before.meta", "before.meta.json", "before.META.json"} {
		_, _, err := CheckEvidence(name, "custom")
		require.Error(t, err, "the name of a description: %s", name)
	}
	_, _, err = CheckEvidence("a", "video")
	require.ErrorContains(t, err, "console_log")
	require.Len(t, EvidenceTypes(), 11)
}
