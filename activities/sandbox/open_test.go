package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

func TestOpen_refusesAWeakerHost(t *testing.T) {
	t.Parallel()
	lacking := sandbox.Host{Level: sandbox.Landlock, Landlock: 7, Missing: []string{
		"user namespaces are off (user.max_user_namespaces is 0); set sysctl user.max_user_namespaces=15000",
	}}
	_, err := sandbox.Open(sandbox.Options{Workspace: t.TempDir(), Temp: t.TempDir(), Level: sandbox.Full, Host: lacking})
	var refused *sandbox.LevelError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, sandbox.Full, refused.Required)
	require.Equal(t, sandbox.Landlock, refused.Given)
	require.EqualError(t, err, `commands have to run at sandbox level "full", but this host gives "landlock": `+
		`user namespaces are off (user.max_user_namespaces is 0); set sysctl user.max_user_namespaces=15000 `+
		`(conclave sandbox check tells more; a weaker level can be set in sandbox.level)`)

	_, err = sandbox.Open(sandbox.Options{Workspace: t.TempDir(), Level: sandbox.Landlock, Host: sandbox.Host{Level: sandbox.Off}})
	require.ErrorAs(t, err, &refused)
	_, err = sandbox.Open(sandbox.Options{Workspace: t.TempDir(), Level: "strong", Host: lacking})
	require.ErrorContains(t, err, `unknown sandbox level "strong"; use one of full, landlock, off`)
}

func TestOpen_refusesOptions(t *testing.T) {
	t.Parallel()
	workspace, private := t.TempDir(), t.TempDir()
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	inside := filepath.Join(workspace, "inside")
	require.NoError(t, os.Mkdir(inside, 0o700))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(private, link))
	tests := map[string]struct {
		change func(*sandbox.Options)
		want   string
	}{
		"relative workspace":     {func(o *sandbox.Options) { o.Workspace = "here" }, "not an absolute path"},
		"no such workspace":      {func(o *sandbox.Options) { o.Workspace = filepath.Join(workspace, "none") }, "no such file"},
		"temp in the workspace":  {func(o *sandbox.Options) { o.Temp = inside }, "lies in the workspace"},
		"read-only part outside": {func(o *sandbox.Options) { o.ReadOnly = []string{"../x"} }, "not a path inside the workspace"},
		"all read-only":          {func(o *sandbox.Options) { o.ReadOnly = []string{"./"} }, "not a path inside the workspace"},
		"toolchain /":            {func(o *sandbox.Options) { o.Toolchains = []string{"/"} }, "is or holds /"},
		"toolchain /etc":         {func(o *sandbox.Options) { o.Toolchains = []string{"/etc"} }, "is or holds /etc"},
		"toolchain in /proc":     {func(o *sandbox.Options) { o.Toolchains = []string{"/proc/self"} }, "lies in /proc"},
		"toolchain home":         {func(o *sandbox.Options) { o.Toolchains = []string{home} }, "could read more than programs"},
		"toolchain private":      {func(o *sandbox.Options) { o.Toolchains, o.Private = []string{private}, []string{private} }, private},
		"toolchain by a link":    {func(o *sandbox.Options) { o.Toolchains, o.Private = []string{private}, []string{link} }, private},
		"no such toolchain":      {func(o *sandbox.Options) { o.Toolchains = []string{"/no/such/chain"} }, "toolchain: find /no/such/chain: no such file"},
		"toolchain workspace":    {func(o *sandbox.Options) { o.Toolchains = []string{inside} }, workspace},
		"relative toolchain":     {func(o *sandbox.Options) { o.Toolchains = []string{"go"} }, "not an absolute path"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := sandbox.Options{Workspace: workspace, Temp: t.TempDir(), Level: sandbox.Off, Host: sandbox.Host{Level: sandbox.Off}}
			test.change(&o)
			_, err := sandbox.Open(o)
			require.Error(t, err)
			require.ErrorContains(t, err, test.want)
		})
	}
}

// With Beyond, files that exist when the sandbox opens do not count.
func TestOpen_beyond(t *testing.T) {
	t.Parallel()
	for beyond, ended := range map[bool]string{true: "", false: "files"} {
		workspace := t.TempDir()
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			require.NoError(t, os.WriteFile(filepath.Join(workspace, name), nil, 0o600))
		}
		s, err := sandbox.Open(sandbox.Options{
			Workspace: workspace, Temp: t.TempDir(), Level: sandbox.Off, Host: sandbox.Host{Level: sandbox.Off},
			Limits: sandbox.Limits{Files: 4, Disk: 1 << 20}, Beyond: beyond,
		})
		require.NoError(t, err)
		exit, err := s.Run(t.Context(), sandbox.Command{Args: []string{"touch", "one", "two"}})
		require.NoError(t, err)
		require.Equal(t, ended, exit.Ended)
		require.NoError(t, s.Close())
	}
}
