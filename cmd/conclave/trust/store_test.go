package trust

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStore(t *testing.T) {
	home, xdg := t.TempDir(), t.TempDir()
	for name, c := range map[string]struct{ xdg, want string }{
		"XDG_CONFIG_HOME":          {xdg, xdg},
		"without it":               {"", filepath.Join(home, ".config")},
		"a relative path, ignored": {"relative", filepath.Join(home, ".config")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", c.xdg)
			content := []byte("agents: " + name)
			require.False(t, Trusted(content))
			record, err := Remember("team.yaml", content)
			require.NoError(t, err)
			require.Equal(t, filepath.Join(c.want, "conclave", "trusted", Hash(content)), record)
			require.True(t, Trusted(content))
			require.False(t, Trusted(append(content, '\n')), "every change is another file")

			info, err := os.Stat(record)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			info, err = os.Stat(filepath.Dir(record))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
			require.NoError(t, os.Remove(record))
			require.False(t, Trusted(content))
		})
	}
}

func TestStore_withoutAHome(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	require.False(t, Trusted([]byte("x")))
	_, err := Remember("team.yaml", []byte("x"))
	require.ErrorContains(t, err, "set XDG_CONFIG_HOME")
}
