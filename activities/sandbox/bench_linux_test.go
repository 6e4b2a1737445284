package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

// BenchmarkSandboxStart measures /bin/true in a sandbox, and without one for comparison.
func BenchmarkSandboxStart(b *testing.B) {
	b.Run("none", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, exec.Command("/bin/true").Run())
		}
	})
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Landlock} {
		b.Run(string(level), func(b *testing.B) {
			dir := b.TempDir()
			workspace := filepath.Join(dir, "workspace")
			require.NoError(b, os.Mkdir(workspace, 0o700))
			s, err := sandbox.Open(sandbox.Options{Workspace: workspace, Temp: dir, Level: level, Host: host()})
			var lacking *sandbox.LevelError
			if errors.As(err, &lacking) {
				b.Skip(err)
			}
			require.NoError(b, err)
			defer func() { require.NoError(b, s.Close()) }()
			for b.Loop() {
				exit, err := s.Run(b.Context(), sandbox.Command{Args: []string{"/bin/true"}})
				require.NoError(b, err)
				require.Zero(b, exit.Code)
			}
		})
	}
}
