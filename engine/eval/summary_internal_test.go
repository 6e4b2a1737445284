package eval

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoundDecimals(t *testing.T) {
	t.Parallel()
	require.False(t, math.Signbit(roundDecimals(-0.00003)), "an interval that ends at 0 is not printed as -0")
	require.InDelta(t, -0.0001, roundDecimals(-0.00005), 1e-12)
	require.InDelta(t, 0.1235, roundDecimals(0.12345), 1e-12)
}
