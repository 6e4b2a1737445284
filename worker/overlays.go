package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"conclave/activities/sandbox"
	"conclave/engine/config"
	"conclave/engine/files/filelock"
	"conclave/engine/files/overlay"
	"conclave/engine/files/snapshot"
)

// overlays decides how the files of bases get into workspaces: as mounts, if the file system has no
// reflinks and this host allows mounts, and as copies otherwise. It tries the mounts once, and once
// more with a command.
type overlays struct {
	tools      *Tools
	workspaces string       // directory of workspaces
	trees      string       // directory of unpacked bases; empty to copy every base from the store
	log        *slog.Logger // nil to log nothing

	opened   sync.Once
	mounts   atomic.Pointer[overlay.Mounts] // nil if bases are copied
	ran      sync.Once
	commands bool // commands can use the mounts
}

// mountsFor returns the mounts for an agent's workspaces, or nil if its tools need copies. Only
// commands in the sandbox see mounts; MCP servers do not.
func (o *overlays) mountsFor(ctx context.Context, a config.Agent) *overlay.Mounts {
	if len(a.MCPServers) > 0 || o.trees == "" {
		return nil
	}
	o.opened.Do(func() { o.logOutcome("files of bases", o.openMounts()) })
	if !a.Tools.Shell.On() || o.mounts.Load() == nil {
		return o.mounts.Load()
	}
	o.ran.Do(func() {
		err := o.tryCommand(context.WithoutCancel(ctx))
		o.commands = err == nil
		o.logOutcome("files of bases for agents with a shell", err)
	})
	if !o.commands {
		return nil
	}
	return o.mounts.Load()
}

// logOutcome logs how files get into workspaces. The error is the reason for copies.
func (o *overlays) logOutcome(files string, err error) {
	switch {
	case o.log == nil:
	case err != nil:
		o.log.Info(files+" are copied into workspaces", "reason", err)
	default:
		o.log.Info(files + " are mounted in workspaces")
	}
}

func (o *overlays) openMounts() error {
	if err := os.MkdirAll(o.trees, 0o700); err != nil {
		return fmt.Errorf("make the directory of unpacked bases: %w", err)
	}
	switch shared, err := snapshot.Clones(o.trees, o.workspaces); {
	case err != nil:
		return err
	case shared:
		return errors.New("the file system has reflinks, so copies take no space")
	}
	mounts, err := overlay.Open()
	if err != nil {
		return err
	}
	t := &trial{mounts: mounts}
	defer t.removeDirs()
	if err := t.mountOverlay(o.workspaces, o.trees); err != nil {
		mounts.Close()
		return err
	}
	o.mounts.Store(mounts)
	return nil
}

func (o *overlays) tryCommand(ctx context.Context) error {
	if level := o.tools.settings.Sandbox.Level; level != string(sandbox.Full) {
		return fmt.Errorf("commands run at sandbox level %q, and only level %q sees mounts", level, sandbox.Full)
	}
	if err := o.tools.requireConfinement(ctx); err != nil {
		return err
	}
	t := &trial{mounts: o.mounts.Load()}
	defer t.removeDirs()
	if err := t.mountOverlay(o.workspaces, o.trees); err != nil {
		return err
	}
	return t.runCommand(ctx, o.tools.sandboxOptions())
}

// trial is a small overlay that shows whether this host allows mounts.
type trial struct {
	mounts         *overlay.Mounts
	dir, at, lower string
}

func (t *trial) makeDirs(workspaces, trees string) (err error) {
	workspaces, err = filepath.EvalSymlinks(workspaces)
	if err != nil {
		return err
	}
	if trees, err = filepath.EvalSymlinks(trees); err != nil {
		return err
	}
	if t.lower, err = os.MkdirTemp(trees, "trial-"); err != nil {
		return err
	}
	if t.dir, err = os.MkdirTemp(workspaces, "conclave-trial-"); err != nil {
		return err
	}
	t.at = filepath.Join(t.dir, "files")
	user, group := overlay.Owner()
	for _, dir := range []string{filepath.Join(t.lower, "base"), t.at, t.at + ".upper", t.at + ".work"} {
		err = errors.Join(err, os.Mkdir(dir, 0o755))
	}
	for _, name := range []string{"file", "tool"} {
		name = filepath.Join(t.lower, name)
		err = errors.Join(err, os.WriteFile(name, []byte("lower"), 0o644), os.Lchown(name, user, group))
	}
	return errors.Join(err, os.Chmod(t.lower, 0o755), os.Lchown(t.lower, user, group))
}

func (t *trial) removeDirs() {
	if t.at != "" {
		_ = t.mounts.Unmount(t.at, "") // fails if the mounts are closed
	}
	for _, dir := range []string{t.lower, t.dir} {
		if dir != "" {
			_ = filelock.RemoveTree(dir)
		}
	}
}

func (t *trial) mountOverlay(workspaces, trees string) error {
	if err := t.makeDirs(workspaces, trees); err != nil {
		return err
	}
	if err := t.mounts.Overlay(t.lower, t.at+".upper", t.at+".work", t.at); err != nil {
		return err
	}
	if err := t.mounts.ReadOnly(t.lower, t.at, "base"); err != nil {
		return err
	}
	if err := os.WriteFile(t.mounts.Path(filepath.Join(t.at, "tool")), []byte("upper"), 0o644); err != nil {
		return err
	}
	return t.requireUnchanged("tool")
}

func (t *trial) runCommand(ctx context.Context, o sandbox.Options) (err error) {
	o.Workspace, o.Temp, o.ReadOnly = t.mounts.Path(t.at), t.dir, []string{"base"}
	o.Tree = t.mounts.Tree(o.Workspace)
	box, err := sandbox.Open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	var out strings.Builder
	exit, err := box.Run(ctx, sandbox.Command{
		Args: []string{"sh", "-c", "echo changed > file && echo changed > tool && rm base/file; test -e base/file && cat file tool"},
		Time: time.Minute, Stdout: &out, Stderr: &out,
	})
	if err != nil {
		return err
	}
	if exit.Code != 0 || !strings.Contains(out.String(), "changed\nchanged\n") {
		return fmt.Errorf("a command in a mounted workspace exited with code %d: %s", exit.Code, out.String())
	}
	return t.requireUnchanged("file")
}

func (t *trial) requireUnchanged(name string) error {
	content, err := os.ReadFile(filepath.Join(t.lower, name))
	if err == nil && string(content) != "lower" {
		err = fmt.Errorf("a change in an overlay has changed %s below it", name)
	}
	return err
}

// treeOpener returns a function that copies the mount of a workspace for the sandbox, or nil if the
// workspace is no mount.
func (o *overlays) treeOpener(workspace string) func(owner int) (*os.File, error) {
	if o == nil {
		return nil
	}
	return o.mounts.Load().Tree(workspace)
}

func (o *overlays) closeMounts() {
	if mounts := o.mounts.Load(); mounts != nil {
		mounts.Close()
	}
}
