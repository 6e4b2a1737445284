package coordination

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// DESIGN: "State carries protocol, an integer frozen at start and kept over
// continue-as-new; every later change of behaviour is gated on it".
func TestProtocol_IsFrozenAtStart(t *testing.T) {
	t.Parallel()
	require.Equal(t, Protocol, New(Protocol, team("a", "b")).Protocol)
	s := New(Protocol+5, team("a", "b"))
	s.Drain()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	var carried State
	require.NoError(t, json.Unmarshal(data, &carried))
	require.Equal(t, Protocol+5, carried.Protocol)
}
