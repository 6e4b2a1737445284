package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A build without a version is identified by its executable.
func TestBuildID(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, Version())
	require.NotEqual(t, unreleased, BuildID(), "a test binary has no version")
	file := filepath.Join(t.TempDir(), "worker")
	at := func() (string, error) { return file, nil }
	require.Empty(t, fileChecksum(at), "no file")
	require.NoError(t, os.WriteFile(file, []byte("one build"), 0o600))
	one := fileChecksum(at)
	require.Regexp(t, "^[0-9a-f]{16}$", one)
	require.NoError(t, os.WriteFile(file, []byte("another build"), 0o600))
	require.NotEqual(t, one, fileChecksum(at))
	require.Empty(t, fileChecksum(func() (string, error) { return "", errors.New("unknown") }))
}
