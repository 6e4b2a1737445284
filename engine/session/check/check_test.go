package check_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/session/check"
)

// tree stores files and returns their manifest. A name that ends in * is that of an executable.
func tree(t *testing.T, store artifact.Store, files map[string]string) artifact.Manifest {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		mode := os.FileMode(0o600)
		if strings.HasSuffix(name, "*") {
			name, mode = strings.TrimSuffix(name, "*"), 0o700
		}
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
	}
	working := artifact.OpenWorkingCopy(store, artifact.InBucket("s"), dir, t.TempDir())
	_, err := working.Scan(t.Context())
	require.NoError(t, err)
	return working.Manifest()
}

func open(t *testing.T) artifact.Store {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func find(t *testing.T, store artifact.Store, files artifact.Manifest, user bool) ([]check.Definition, error) {
	t.Helper()
	return check.Find(t.Context(), files, user, func(ctx context.Context, f artifact.File) ([]byte, error) {
		return artifact.ReadFile(ctx, store, artifact.InBucket("s"), f)
	})
}

func TestFind(t *testing.T) {
	t.Parallel()
	store := open(t)
	answer := tree(t, store, map[string]string{
		"add.sh*": "echo 3", ".conclave/checks/b test*": "exit 0", ".conclave/checks/helper.py": "x = 1",
		".conclave/checks/checks.yaml": "- {name: a, command: ./add.sh, stdout: \"3\"}\n- {command: 'false', exit_code: 1}\n",
		".conclave/checks/deep/run*":   "exit 0",
	})
	found, err := find(t, store, check.Handed(answer), false)
	require.NoError(t, err)
	require.Len(t, found, 3)
	require.Equal(t, []string{"a", "b test", "checks.yaml 2"}, []string{found[0].Name, found[1].Name, found[2].Name})
	require.Equal(t, "'./.conclave/checks/b test'", found[1].Command)
	require.Equal(t, 1, found[2].ExitCode)
	require.Len(t, found[0].Files.Files, 4)
	require.Len(t, check.Without(answer).Files, 1)
	again, err := find(t, store, check.Handed(answer), true)
	require.NoError(t, err)
	require.NotEqual(t, found[0].ID, again[0].ID, "a check of the user is another one")
}

func TestFind_mistakes(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"- {name: a}":                   "read checks.yaml: entry 1 has no command",
		"- {command: x, timeout: 3}":    "want a list of {name, command, exit_code, stdout}: yaml: construct errors: line 1: field timeout not found",
		"command: x":                    "want a list of",
		"- {command: \"a\\0b\"}":        "entry 1 has no command",
		strings.Repeat("# long\n", 1e4): "70000 bytes are too many",
	} {
		store := open(t)
		_, err := find(t, store, tree(t, store, map[string]string{".conclave/checks/checks.yaml": content}), false)
		require.ErrorContains(t, err, want)
	}
	store := open(t)
	found, err := find(t, store, tree(t, store, map[string]string{".conclave/checks/checks.yaml": ""}), false)
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestOfUser_refuses(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 101 {
		many[fmt.Sprintf("c%d*", i)] = fmt.Sprint("exit ", i)
	}
	for want, files := range map[string]map[string]string{
		"neither an executable file nor checks.yaml; links and subdirectories do not count": {"deep/run*": "exit 0", "notes.md": "x"},
		"101 are too many, at most 100 are accepted":                                        many,
		"read checks.yaml: entry 1 has no command":                                          {"checks.yaml": "- {name: a}"},
	} {
		store := open(t)
		_, err := check.OfUser(t.Context(), tree(t, store, files), func(ctx context.Context, f artifact.File) ([]byte, error) {
			return artifact.ReadFile(ctx, store, artifact.InBucket("s"), f)
		})
		require.ErrorContains(t, err, want)
	}
}

// unconfined runs a command without a sandbox.
func unconfined(ctx context.Context, c check.Confined) (check.Ended, error) {
	ctx, stop := context.WithTimeout(ctx, c.Time)
	defer stop()
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Command)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.Dir, c.Stdout, c.Stderr, time.Second
	for key, value := range c.Env {
		cmd.Env = append(os.Environ(), key+"="+value)
	}
	_ = cmd.Run()
	if ctx.Err() != nil {
		return check.Ended{Limit: "time"}, nil
	}
	return check.Ended{Code: cmd.ProcessState.ExitCode()}, nil
}

func TestRun(t *testing.T) {
	t.Parallel()
	store := open(t)
	runner := check.Runner{Store: store, Layout: artifact.InBucket("s"), Scratch: t.TempDir(), Confine: unconfined, Time: 10 * time.Second}
	answer := check.Answer{Text: "The sum is 3.", Files: tree(t, store, map[string]string{
		"add.sh*": "#!/bin/sh\necho $(($1 + $2))\n", ".conclave/checks/own*": "exit 1",
	})}
	for command, want := range map[string]struct {
		user, passed bool
		stdout       *string
		code         int
	}{
		"./add.sh 1 2":                   {passed: true},
		"./add.sh 1 2; true":             {passed: true, stdout: new("3")},
		"echo 4":                         {stdout: new("3")},
		"exit 3":                         {},
		"(exit 3)":                       {passed: true, code: 3},
		"test ! -e .conclave/checks/own": {passed: true},
		"grep -q 'sum is 3' \"$CONCLAVE_ANSWER\"": {user: true, passed: true},
		"test -e .conclave/answer.md":             {},
		"sleep 600":                               {},
		"echo PASS >&2; exit 1":                   {stdout: new("PASS")},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			d := check.Definition{ID: "x", Name: "n", Command: command, User: want.user, Stdout: want.stdout, ExitCode: want.code}
			r, err := runner.Run(t.Context(), answer, d)
			require.NoError(t, err)
			require.Equal(t, want.passed, r.Passed, "%+v", r)
			require.Equal(t, command == "sleep 600", r.ExitCode == nil)
		})
	}
}

// A run leaves nothing behind, and does not see the files of another.
func TestRun_freshCopies(t *testing.T) {
	t.Parallel()
	store, scratch := open(t), t.TempDir()
	runner := check.Runner{Store: store, Layout: artifact.InBucket("s"), Scratch: scratch, Confine: unconfined}
	answer := check.Answer{Files: tree(t, store, map[string]string{"a": "1"})}
	d := check.Definition{ID: "x", Command: "test -e mark && exit 1; echo x > mark; echo 2 > a; ls .."}
	for range 2 {
		r, err := runner.Run(t.Context(), answer, d)
		require.NoError(t, err)
		require.True(t, r.Passed, r.Output)
	}
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRun_longOutput(t *testing.T) {
	t.Parallel()
	store := open(t)
	runner := check.Runner{Store: store, Layout: artifact.InBucket("s"), Scratch: t.TempDir(), Confine: unconfined}
	d := check.Definition{ID: "x", Command: "head -c 200000 /dev/zero | tr '\\0' 'x'", Stdout: new(strings.Repeat("x", 200000))}
	r, err := runner.Run(t.Context(), check.Answer{}, d)
	require.NoError(t, err)
	require.False(t, r.Passed, "an output that is not kept whole equals nothing")
	require.LessOrEqual(t, len(r.Output), 2<<10)
}

func TestPlace(t *testing.T) {
	t.Parallel()
	placed := check.Place(artifact.Manifest{Files: []artifact.File{{Path: "a/b"}}})
	require.Equal(t, ".conclave/checks/a/b", placed.Files[0].Path)
	require.NotEqual(t, check.ResultKey(artifact.InBucket("s"), "m", "a", "x"), check.ResultKey(artifact.InBucket("s"), "m", "b", "x"))
}

func TestTitle(t *testing.T) {
	t.Parallel()
	require.Equal(t, "sum", check.Result{Check: "c1", Name: "sum"}.Title())
	require.Equal(t, "c1", check.Result{Check: "c1"}.Title())
}
