package coordination

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// DESIGN: "State carries protocol, an integer frozen at start and kept over
// continue-as-new".
func TestProtocol_IsFrozenAtStart(t *testing.T) {
	t.Parallel()
	require.Equal(t, Protocol, New(team("a", "b")).Protocol)
	s := New(team("a", "b"))
	s.Protocol = Protocol + 5
	s.Drain()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	var carried State
	require.NoError(t, json.Unmarshal(data, &carried))
	require.Equal(t, Protocol+5, carried.Protocol)
}
