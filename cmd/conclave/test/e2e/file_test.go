//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func readFile(t *testing.T, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, v), "%s", data)
}
