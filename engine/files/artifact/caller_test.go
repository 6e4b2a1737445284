package artifact

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCaller(t *testing.T) {
	t.Parallel()
	require.NoError(t, Caller{}.Check(10))
	require.NoError(t, Caller{Instructions: "0123456789", Depth: MaxTeamDepth}.Check(10))
	for want, c := range map[string]Caller{
		"the instructions have 11 bytes": {Instructions: "0123456789a"},
		"the instructions are not UTF-8": {Instructions: "\xff"},
		"does a team ask itself?":        {Depth: MaxTeamDepth + 1},
		"the depth is -1":                {Depth: -1},
	} {
		require.ErrorContains(t, c.Check(10), want)
	}
}
