package activities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that does not know the namespace's search attributes returns none.
func TestAttributes(t *testing.T) {
	t.Parallel()
	e := Equipment{Indexed: func(context.Context) []string { return []string{"ConclaveStatus"} }}
	require.Equal(t, []string{"ConclaveStatus"}, e.Attributes(t.Context()))
	require.Empty(t, Equipment{}.Attributes(t.Context()))
}
