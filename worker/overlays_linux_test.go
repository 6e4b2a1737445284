package worker

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
	"conclave/engine/config"
	"conclave/engine/files/filelock"
	"conclave/engine/files/overlay"
	"conclave/engine/files/snapshot"
)

func overlaysOf(t *testing.T, level sandbox.Level) (*overlays, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { require.NoError(t, filelock.RemoveTree(dir)) })
	s := DefaultSettings()
	s.Sandbox.Level = string(level)
	o := &overlays{tools: NewTools(s), workspaces: filepath.Join(dir, "workspaces"), trees: filepath.Join(dir, "trees")}
	require.NoError(t, os.MkdirAll(o.workspaces, 0o700))
	var log bytes.Buffer
	o.log = slog.New(slog.NewTextHandler(&log, nil))
	t.Cleanup(o.closeMounts)
	return o, &log
}

func needMounts(t *testing.T) {
	t.Helper()
	if sandbox.Probe(t.Context()).Level != sandbox.Full {
		t.Skip("this machine does not give level full")
	}
	mounts, err := overlay.Open()
	if err != nil {
		t.Skip("this machine has no namespaces for this user: ", err)
	}
	mounts.Close()
	if shared, err := snapshot.Clones(t.TempDir(), t.TempDir()); err != nil || shared {
		t.Skip("this file system has reflinks, which workers prefer")
	}
}

// A worker mounts bases for the agents whose tools can see mounts.
func TestOverlays_ofAgents(t *testing.T) {
	t.Parallel()
	needMounts(t)
	o, log := overlaysOf(t, sandbox.Full)
	require.Nil(t, o.mountsFor(t.Context(), named(config.MCPServer{Name: "browser"})))
	require.Nil(t, o.mounts.Load(), "nothing is tried for an agent that cannot use mounts")
	mounts := o.mountsFor(t.Context(), shell())
	require.NotNil(t, mounts, log.String())
	require.Same(t, mounts, o.mountsFor(t.Context(), named()))
	require.Contains(t, log.String(), `msg="files of bases are mounted in workspaces"`)
	require.Contains(t, log.String(), `msg="files of bases for agents with a shell are mounted in workspaces"`)
	require.NotNil(t, o.treeOpener(mounts.Path(o.workspaces)))
	require.Nil(t, o.treeOpener(o.workspaces))
	require.Nil(t, (*overlays)(nil).treeOpener(o.workspaces))
	left, err := os.ReadDir(o.workspaces)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Below level full, only agents without a shell get mounts, and the log says why.
func TestOverlays_withoutLevelFull(t *testing.T) {
	t.Parallel()
	needMounts(t)
	o, log := overlaysOf(t, sandbox.Off)
	require.Nil(t, o.mountsFor(t.Context(), shell()))
	require.NotNil(t, o.mountsFor(t.Context(), named()))
	require.Contains(t, log.String(), `files of bases for agents with a shell are copied`)
	require.Contains(t, log.String(), `only level \"full\" sees mounts`)
}

// Without a directory for unpacked bases, there is nothing to mount. If mounting fails, bases are
// copied, and the log says why.
func TestOverlays_copies(t *testing.T) {
	t.Parallel()
	o, log := overlaysOf(t, sandbox.Full)
	o.trees = ""
	require.Nil(t, o.mountsFor(t.Context(), named()))
	require.Empty(t, log.String())
	o, log = overlaysOf(t, sandbox.Full)
	require.NoError(t, os.WriteFile(o.trees, nil, 0o600))
	require.Nil(t, o.mountsFor(t.Context(), named()))
	require.Contains(t, log.String(), "files of bases are copied into workspaces")
	require.Contains(t, log.String(), "make the directory of unpacked bases")
}
