//go:build e2e

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goLibrary is a Go module that conclave itself uses.
func goLibrary(t *testing.T, module string, sources ...string) library {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	require.NoError(t, err)
	return library{
		name: filepath.Base(module), dir: strings.TrimSpace(string(dir)), sources: sources,
		test: []string{"go", "test", "-count=1", "-vet=off", "-timeout=60s", "."}, env: []string{"GOWORK=off", "GOFLAGS=-mod=mod"},
	}
}

// unpacked is a package that `make mend` has downloaded and unpacked.
func unpacked(name string, test []string, sources ...string) library {
	return library{name: name, dir: filepath.Join(os.Getenv("CONCLAVE_PACKAGES"), name), sources: sources, test: test, env: []string{"PYTHONDONTWRITEBYTECODE=1"}}
}

// A team mends bugs of public packages: one of a Go package, and with `make mend` twenty of five
// packages in Go, Python and JavaScript.
func TestMend(t *testing.T) {
	t.Parallel()
	sandboxed(t)
	packages, each := []library{goLibrary(t, "github.com/aymanbagabas/go-udiff", "unified.go", "diff.go", "ndiff.go", "merge.go")}, 1
	if os.Getenv("CONCLAVE_PACKAGES") != "" {
		minimist := unpacked("minimist", []string{"sh", "-c", "for f in test/*.js; do node $f || exit 1; done"}, "index.js")
		minimist.env = append(minimist.env, "NODE_PATH="+filepath.Join(os.Getenv("CONCLAVE_PACKAGES"), "node_modules"))
		packages, each = append(packages,
			goLibrary(t, "github.com/spf13/pflag", "flag.go", "string_slice.go", "count.go", "duration_slice.go"),
			unpacked("idna", []string{"python3", "-m", "unittest", "-q", "-f", "tests.test_idna", "tests.test_intranges"}, "idna/core.py", "idna/intranges.py"),
			unpacked("jsonpointer", []string{"python3", "-m", "unittest", "-q", "-f", "tests"}, "jsonpointer.py"),
			minimist), 4
	}
	for _, l := range packages {
		for i, b := range l.bugs(t, each) {
			t.Run(fmt.Sprintf("%s/%d", l.name, i+1), func(t *testing.T) {
				t.Parallel()
				mend(t, l, b)
			})
		}
	}
}

// before are files that every project gets besides the library's, and changing is the command
// that changes them in each way that a patch can.
var before = map[string]string{
	"old name.txt": strings.Repeat("This file moves.\n", 20), "gone.txt": "This file goes.\n", "crlf.txt": "one\r\ntwo\r\n", "tail.txt": "no newline",
	"image.bin": "\x00\x01\x02", "script": "#!/bin/sh\n",
}

const changing = `mkdir -p moved && mv 'old name.txt' 'moved/new name.txt' && echo 'And changes.' >> 'moved/new name.txt' && rm gone.txt
printf 'one\r\nTWO\r\nthree' > crlf.txt && printf 'still no newline' > tail.txt && printf '\000\377\002' > image.bin && printf '\000' > new.bin
chmod +x script && printf '#!/bin/sh\nexit 0\n' > run && chmod +x run && ln -s run link && echo new > new.txt`

// mend has a scripted team fix the bug, then brings the change into the project, once with git
// and once with apply.
func mend(t *testing.T, l library, b bug) {
	model := newModelServer(t, map[string][]reply{
		"model-a": {
			{tool: "edit_file", arguments: map[string]any{"path": b.file, "old_string": b.broken, "new_string": b.right}},
			runs(changing), answer("Mended."), vote("agent1", "The test passes."),
		},
		"model-b": {answer("Nothing found."), vote("agent1", "The test passes.")},
	})
	c := newCLI(t)
	project, patched, neighbour := filepath.Join(c.home, "project"), filepath.Join(c.home, "patched"), filepath.Join(c.home, "neighbour")
	for _, dir := range []string{project, patched} {
		l.place(t, dir, b)
		for name, content := range before {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
		}
	}
	require.NoError(t, os.MkdirAll(neighbour, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(neighbour, "gone.txt"), []byte("It stays.\n"), 0o644))
	broken, outside := snapshot(t, project), snapshot(t, neighbour)
	passes, _ := l.passes(t, project)
	require.False(t, passes, "the bug is real")

	team := c.file("team.yaml", withShell(model.team("agent_a", "agent_b")))
	out := c.conclave("run", "--config", team, "--base", project, "--session-id", "mend", "Mend the failing test.")
	require.Equal(t, 0, out.code, out.stderr)
	require.Equal(t, broken, snapshot(t, project), "nothing changes before apply")

	git := exec.Command("git", "apply", "--whitespace=nowarn", c.file("change.patch", c.conclave("diff", "mend").stdout))
	git.Dir, git.Env = patched, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+c.home)
	output, err := git.CombinedOutput()
	require.NoError(t, err, string(output))
	out = c.conclave("apply", "mend")
	require.Equal(t, 0, out.code, out.stderr)
	applied := snapshot(t, project)
	require.Equal(t, snapshot(t, patched), applied)
	require.Equal(t, "-rwxr-xr-x #!/bin/sh\n", applied["script"])
	require.Equal(t, "-rw-r--r-- one\r\nTWO\r\nthree", applied["crlf.txt"])
	require.Equal(t, outside, snapshot(t, neighbour))
	passes, result := l.passes(t, project)
	require.True(t, passes, result)
}

// withShell gives all agents of a team file the shell.
func withShell(team string) string {
	return strings.ReplaceAll(team, `"backend":`, `"tools": {"files": true, "shell": true}, "backend":`)
}

// snapshot returns the mode and content of all files below a directory.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		switch {
		case d.IsDir():
			return nil
		case info.Mode().Type() == fs.ModeSymlink:
			found[name], err = os.Readlink(path)
			return err
		}
		content, err := os.ReadFile(path)
		found[name] = info.Mode().String() + " " + string(content)
		return err
	}))
	return found
}
