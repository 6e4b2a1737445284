//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// recordTo stores a history in the format of workflows/testdata/histories.
func recordTo(t *testing.T, dir, name string, h *historypb.History) {
	t.Helper()
	data, err := protojson.Marshal(h)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".json"), data, 0o644))
}
