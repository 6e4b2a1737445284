package sandbox_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

// host is probed once for all tests.
var host = sync.OnceValue(func() sandbox.Host { return sandbox.Probe(context.Background()) })

// confining returns the levels, except off, that this host supports.
func confining(t *testing.T) []sandbox.Level {
	t.Helper()
	switch host().Level {
	case sandbox.Full:
		return []sandbox.Level{sandbox.Full, sandbox.Landlock}
	case sandbox.Landlock:
		return []sandbox.Level{sandbox.Landlock}
	default:
		t.Skip("nothing confines here: ", host().Missing)
		return nil
	}
}

// perLevel runs a test at each confining level.
func perLevel(t *testing.T, test func(t *testing.T, level sandbox.Level)) {
	t.Helper()
	for _, level := range confining(t) {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			test(t, level)
		})
	}
}

type box struct {
	*sandbox.Sandbox
	workspace, temp string
}

// openBox opens a sandbox at a level in a new workspace.
func openBox(t *testing.T, level sandbox.Level, change ...func(*sandbox.Options)) box {
	t.Helper()
	if level != sandbox.Off && !slices.Contains(confining(t), level) {
		t.Skipf("this machine does not give level %s: %v", level, host().Missing)
	}
	dir := t.TempDir()
	o := sandbox.Options{Workspace: filepath.Join(dir, "workspace"), Temp: filepath.Join(dir, "temp"), Level: level, Host: host()}
	require.NoError(t, os.Mkdir(o.Workspace, 0o700))
	require.NoError(t, os.Mkdir(o.Temp, 0o700))
	for _, c := range change {
		c(&o)
	}
	s, err := sandbox.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return box{Sandbox: s, workspace: o.Workspace, temp: o.Temp}
}

func limitedTo(limits sandbox.Limits) func(*sandbox.Options) {
	return func(o *sandbox.Options) { o.Limits = limits }
}

// sh runs a script and returns its output.
func (b box) sh(t *testing.T, script string) (sandbox.Exit, string) {
	t.Helper()
	var out bytes.Buffer
	exit, err := b.Run(t.Context(), sandbox.Command{Args: []string{"/bin/sh", "-c", script}, Stdout: &out, Stderr: &out})
	require.NoError(t, err, out.String())
	return exit, out.String()
}

// must runs a script that has to succeed.
func (b box) must(t *testing.T, script string) string {
	t.Helper()
	exit, out := b.sh(t, script)
	require.Equal(t, sandbox.Exit{}, sandbox.Exit{Code: exit.Code, Signal: exit.Signal, Ended: exit.Ended}, out)
	return out
}
