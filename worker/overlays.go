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
	"time"

	"conclave/activities/sandbox"
	"conclave/engine/artifact"
	"conclave/engine/base"
	"conclave/engine/config"
	"conclave/engine/overlay"
)

// overlays decides how the files of bases get into workspaces: as mounts, if the file system has no
// reflinks and this host allows mounts, and as copies otherwise. It tries the mounts once.
type overlays struct {
	tools      *Tools
	workspaces string       // directory of workspaces
	trees      string       // directory of unpacked bases; empty if there is none
	log        *slog.Logger // nil to log nothing

	tried    sync.Once
	mounts   *overlay.Mounts // nil if bases are copied
	commands bool            // agents' commands can use the mounts
}

// of returns the mounts for an agent's workspaces, or nil if its tools need copies. Only commands in
// the sandbox see mounts; MCP servers do not.
func (o *overlays) of(ctx context.Context, a config.Agent) *overlay.Mounts {
	if len(a.MCPServers) > 0 || o.trees == "" {
		return nil
	}
	o.tried.Do(func() { o.decide(context.WithoutCancel(ctx)) })
	if a.Tools.Shell && !o.commands {
		return nil
	}
	return o.mounts
}

func (o *overlays) decide(ctx context.Context) {
	err := o.try(ctx)
	switch {
	case o.log == nil:
	case o.mounts == nil:
		o.log.Info("the files of bases are copied into workspaces", "reason", err)
	case !o.commands:
		o.log.Info("the files of bases are mounted in workspaces, but copied for agents with a shell", "reason", err)
	default:
		o.log.Info("the files of bases are mounted in workspaces")
	}
}

// try returns the reason why files are copied, or nil.
func (o *overlays) try(ctx context.Context) error {
	if err := os.MkdirAll(o.trees, 0o700); err != nil {
		return fmt.Errorf("make the directory of unpacked bases: %w", err)
	}
	switch shared, err := base.Clones(o.trees, o.workspaces); {
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
	defer t.remove()
	if err = t.makeDirs(o.workspaces, o.trees); err == nil {
		err = t.mount()
	}
	if err != nil {
		mounts.Close()
		return err
	}
	o.mounts = mounts
	err = t.command(ctx, o.tools)
	o.commands = err == nil
	return err
}

// trial is a small overlay with which the host is tried.
type trial struct {
	mounts         *overlay.Mounts
	dir, at, lower string
}

// makeDirs makes the directories of the overlay where a worker has them.
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

func (t *trial) remove() {
	if t.at != "" {
		_ = t.mounts.Unmount(t.at, "") // fails if the mounts are closed
	}
	for _, dir := range []string{t.lower, t.dir} {
		if dir != "" {
			_ = artifact.RemoveTree(dir)
		}
	}
}

// mount mounts the overlay and changes a file in it.
func (t *trial) mount() error {
	if err := t.mounts.Overlay(t.lower, t.at+".upper", t.at+".work", t.at); err != nil {
		return err
	}
	if err := t.mounts.ReadOnly(t.lower, t.at, "base"); err != nil {
		return err
	}
	if err := os.WriteFile(t.mounts.Path(filepath.Join(t.at, "tool")), []byte("upper"), 0o644); err != nil {
		return err
	}
	return t.unchanged("tool")
}

// command runs a command that changes files in the overlay.
func (t *trial) command(ctx context.Context, tools *Tools) (err error) {
	if level := tools.settings.Sandbox.Level; level != string(sandbox.Full) {
		return fmt.Errorf("commands run at sandbox level %q, and only level %q sees mounts", level, sandbox.Full)
	}
	if err := tools.confines(ctx); err != nil {
		return err
	}
	o := tools.options()
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
	if exit.Code != 0 || !strings.HasSuffix(out.String(), "changed\nchanged\n") {
		return fmt.Errorf("a command in a mounted workspace ended with %d: %s", exit.Code, out.String())
	}
	return t.unchanged("file")
}

// unchanged requires that a file below the overlay is as it was.
func (t *trial) unchanged(name string) error {
	content, err := os.ReadFile(filepath.Join(t.lower, name))
	if err == nil && string(content) != "lower" {
		err = fmt.Errorf("a change in an overlay has changed %s below it", name)
	}
	return err
}

// tree returns a function that copies the mount of a workspace for the sandbox, or nil if the
// workspace is no mount.
func (o *overlays) tree(workspace string) func(owner int) (*os.File, error) {
	if o == nil {
		return nil
	}
	return o.mounts.Tree(workspace)
}

// close ends the mounts.
func (o *overlays) close() {
	if o.mounts != nil {
		o.mounts.Close()
	}
}
