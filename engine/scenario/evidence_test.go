package scenario_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

func TestEvidence(t *testing.T) {
	t.Parallel()
	file, typ, err := scenario.CheckEvidence("before", "screenshot")
	require.NoError(t, err)
	require.Equal(t, "before.png image/png", file+" "+typ)
	file, _, err = scenario.CheckEvidence("before.PNG", "screenshot")
	require.NoError(t, err)
	require.Equal(t, "before.png", file)
	for _, name := range []string{"", "../x", "a/b", ".hidden", "a..b", "x.meta", strings.Repeat("a", 101), "a b", "ä"} {
		_, _, err := scenario.CheckEvidence(name, "screenshot")
		require.Error(t, err, name)
	}
	for _, name := range []string{"before.meta", "before.meta.json", "before.META.json"} {
		_, _, err := scenario.CheckEvidence(name, "custom")
		require.Error(t, err, "the name of a description: %s", name)
	}
	_, _, err = scenario.CheckEvidence("a", "video")
	require.ErrorContains(t, err, "console_log")
	require.Len(t, scenario.EvidenceTypes(), 11)
}

// "paths that the agent claims but that don't exist become warnings"
func TestReconcile(t *testing.T) {
	t.Parallel()
	evidence, warnings := scenario.Reconcile([]string{"b.png", "ghost.png"}, []string{"b.png", "a.png"})
	require.Equal(t, []string{"a.png", "b.png"}, evidence)
	require.Equal(t, []string{`the agent names the evidence "ghost.png", which does not exist`}, warnings)
}
