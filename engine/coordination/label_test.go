package coordination_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

func TestLabels(t *testing.T) {
	t.Parallel()
	require.Equal(t, "agent1.2", coordination.Label(1, 2))
	require.Equal(t, "agent12.final", coordination.FinalLabel(12))
	require.Equal(t, "agent3.final", coordination.FinalLabelOf("agent3.7"))
	require.Equal(t, "agent3.final", coordination.FinalLabelOf("agent3.final"))
	require.True(t, coordination.IsFinal("agent3.final"))
	require.False(t, coordination.IsFinal("agent3.1"))
}
