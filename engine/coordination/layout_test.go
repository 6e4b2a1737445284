package coordination

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestState_KeepsItsJSON holds the JSON of a state with every field to testdata/state.json, the order
// of the fields included: runs that are open read it.
func TestState_KeepsItsJSON(t *testing.T) {
	t.Parallel()
	recorded, err := os.ReadFile("testdata/state.json")
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(recorded))
	decoder.DisallowUnknownFields()
	var s State
	require.NoError(t, decoder.Decode(&s))
	encoded, err := json.MarshalIndent(&s, "", "  ")
	require.NoError(t, err)
	require.Equal(t, string(recorded), string(encoded)+"\n")
}
