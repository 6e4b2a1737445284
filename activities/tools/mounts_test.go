package tools

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory is a mount only if it is read-only when the tools open.
func TestMountsIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.Equal(t, []string{"peers"}, mountsIn(root))
	for name, mode := range map[string]os.FileMode{"base": 0o755, ".conclave/base": 0o555, "context": 0o555} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	require.Equal(t, []string{"peers", "context", ".conclave/base"}, mountsIn(root))
	f := &fileTools{root: root, mounts: mountsIn(root)}
	for name, says := range map[string]string{
		"base/x": "", "baseline": "", "contexts/x": "", "context": "further material", "Context/x": "further material",
		".conclave/base/a/b": ".conclave/base/ holds the files that the workspace started with", "peers/agent1.diff": "the answers shown",
	} {
		err := f.readOnly(name)
		if says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, says, name)
		}
	}
	require.True(t, f.repeatsBase(".conclave/base"))
	require.False(t, f.repeatsBase("context"))
	require.False(t, f.repeatsBase("base"), "that is the base's own")
}

func TestDescribeMounts(t *testing.T) {
	t.Parallel()
	require.Equal(t, "peers/ in the workspace is read-only", describeMounts([]string{"peers"}, "in the workspace "))
	require.Equal(t, "peers/, base/ and context/ are read-only", describeMounts([]string{"peers", "base", "context"}, ""))
}
