package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChildEnvironment_withoutKeys(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"PATH=/bin", "HOME=/home/me"}, childEnvironment([]string{
		"PATH=/bin", "OPENAI_API_KEY=secret", "AWS_SECRET_ACCESS_KEY=secret", "HOME=/home/me", "TEMPORAL_ADDRESS=far.example:7233",
	}))
}

func TestJoin_invalidDataDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Join(t.Context(), file, Options{})
	require.ErrorContains(t, err, "make the data directory")
	_, err = Join(t.Context(), "", Options{})
	require.ErrorContains(t, err, "--data-dir")
}

func TestJoin_directoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may open everything")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	_, err := Join(t.Context(), dir, Options{})
	require.ErrorContains(t, err, "it belongs to another user: choose another with --data-dir")
}
