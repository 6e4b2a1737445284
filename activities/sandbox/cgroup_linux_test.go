package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

func TestRun_inItsOwnCgroup(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		groups := cgroupDir(t)
		b := openBox(t, level, func(o *sandbox.Options) { o.Host.Cgroup = groups })
		var members string
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		enough := errors.New("enough")
		out := &watchful{until: "ready\n", then: func() {
			found, _ := filepath.Glob(filepath.Join(groups, "*", "cgroup.procs"))
			for _, name := range found {
				data, _ := os.ReadFile(name)
				members += string(data)
			}
			cancel(enough)
		}}
		_, err := b.Run(ctx, sandbox.Command{Args: []string{"/bin/sh", "-c", daemon + "echo ready; sleep 600"}, Stdout: out})
		require.ErrorIs(t, err, enough)
		require.GreaterOrEqual(t, strings.Count(members, "\n"), 5, "the child, the shell and its daemons")
		left, err := filepath.Glob(filepath.Join(groups, "*", "cgroup.procs"))
		require.NoError(t, err)
		require.Empty(t, left)
		silent(t, b.workspace)
		b.must(t, "true")
	})
}

// cgroupDir makes a directory in the v2 tree, if this machine allows it.
func cgroupDir(t *testing.T) string {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(mount, "sandbox-test-") //nolint:usetesting // it has to lie in the cgroup tree
		if err != nil {
			continue
		}
		t.Cleanup(func() { require.NoError(t, os.Remove(dir)) })
		return dir
	}
	t.Skip("no cgroup v2 tree can be written to here")
	return ""
}
