package teams

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
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
			f := TrustedFile{Name: "team.yaml", Content: []byte("agents: " + name)}
			require.False(t, IsTrusted(f))
			record, err := RememberTrust(f)
			require.NoError(t, err)
			require.Equal(t, filepath.Join(c.want, "conclave", "trusted", f.Hash()), record)
			require.True(t, IsTrusted(f))
			f.Content = append(f.Content, '\n')
			require.False(t, IsTrusted(f), "every change is another file")
			f.Content = f.Content[:len(f.Content)-1]

			info, err := os.Stat(record)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			info, err = os.Stat(filepath.Dir(record))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
			require.NoError(t, os.Remove(record))
			require.False(t, IsTrusted(f))
		})
	}
}

func TestStore_withoutAHome(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	require.False(t, IsTrusted(TrustedFile{}))
	_, err := RememberTrust(TrustedFile{Name: "team.yaml"})
	require.ErrorContains(t, err, "set XDG_CONFIG_HOME")
}

// A popular template's conclave.yaml is the same in every repository, the programs beside it are not.
func TestTrusted_isOfAFileInItsPlace(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const template = "agents: [{id: a, backend: {type: offline}, mcp_servers: [{name: x, command: ./run.sh, args: [server.py, --config=./x.json, ../up.py], env: {CA: %s}}]}]"
	outside := t.TempDir()
	clone := func() string {
		dir := filepath.Join(t.TempDir(), "clone")
		require.NoError(t, os.Mkdir(dir, 0o700))
		for _, name := range []string{"run.sh", "server.py", "x.json", "../up.py", "other.py"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("good"), 0o700))
		}
		return dir
	}
	in := func(dir string) TrustedFile {
		t.Helper()
		name, content := filepath.Join(dir, "conclave.yaml"), []byte(fmt.Sprintf(template, filepath.Join(outside, "ca.pem")))
		team, err := config.Parse(name, content, config.Local.Beside(name))
		require.NoError(t, err)
		return TrustedFile{Name: name, Content: content, Team: team}
	}
	here, there := clone(), clone()
	_, err := RememberTrust(in(here))
	require.NoError(t, err)
	require.True(t, IsTrusted(in(here)))
	require.False(t, IsTrusted(in(there)), "another repository")
	require.NoError(t, os.Symlink(here, filepath.Join(outside, "link")))
	linked := in(here)
	linked.Name = filepath.Join(outside, "link", "conclave.yaml")
	require.True(t, IsTrusted(linked), "the same place by another way")
	t.Chdir(here)
	linked.Name = "conclave.yaml"
	require.True(t, IsTrusted(linked))
	require.NoError(t, os.Symlink(filepath.Join(here, "conclave.yaml"), filepath.Join(there, "conclave.yaml")))
	require.False(t, IsTrusted(in(there)), "a link to a trusted file, beside other programs")

	for _, name := range []string{"run.sh", "server.py", "x.json", "../up.py", filepath.Join(outside, "ca.pem")} {
		if !filepath.IsAbs(name) {
			name = filepath.Join(here, name)
		}
		before, err := os.ReadFile(name)
		require.NoError(t, os.WriteFile(name, []byte("evil"), 0o700))
		require.False(t, IsTrusted(in(here)), name)
		if err != nil {
			require.NoError(t, os.Remove(name), "it was not there")
		} else {
			require.NoError(t, os.WriteFile(name, before, 0o700))
		}
		require.True(t, IsTrusted(in(here)), name)
	}
	require.NoError(t, os.Remove(filepath.Join(here, "server.py")))
	require.False(t, IsTrusted(in(here)), "it is no longer the file")
	require.NoError(t, os.Mkdir(filepath.Join(here, "server.py"), 0o700))
	require.False(t, IsTrusted(in(here)))
}
