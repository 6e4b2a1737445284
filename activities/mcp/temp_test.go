package mcp

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A browser's sockets have no room below a long path.
func TestEnvironment_longTemporaryDirectory(t *testing.T) {
	t.Parallel()
	short, long := "/tmp/conclave-worker-1234567890/mcp-1234567890/0", "/"+strings.Repeat("d", maxTempPath)
	require.Equal(t, filepath.Join(short, tempName), programEnv(Server{}, short, "m")["TMPDIR"])
	require.NotContains(t, programEnv(Server{}, long, "m"), "TMPDIR")
	require.Equal(t, "/mine", programEnv(Server{Env: map[string]string{"TMPDIR": "/mine"}}, short, "m")["TMPDIR"])
}
