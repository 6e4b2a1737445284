package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/filelock"
	"conclave/engine/redact"
	"conclave/engine/step"
)

// Local provides models and tools to steps that run outside a worker, as in `conclave step`.
type Local struct {
	scratch *scratch
	models  Models
	tools   *Tools
}

// OpenLocal creates a temporary directory for workspaces. The caller must close the Local.
func OpenLocal(m Models, t *Tools) (*Local, error) {
	s, err := openScratch("")
	if err != nil {
		return nil, err
	}
	return &Local{scratch: s, models: m, tools: t}, nil
}

// Ports returns the ports for a step of an agent, except the store. It returns the error of
// Models.Model.
func (l *Local) Ports(a config.Agent) (step.Ports, error) {
	model, err := l.models.Model(a)
	if err != nil {
		return step.Ports{}, err
	}
	none, unread := l.models.NoCalls(a)
	return step.Ports{
		Model: model, Window: l.models.Window(a), NoCalls: none, UnreadCalls: unread, Now: time.Now, Scratch: l.scratch.dir,
		Tools: func(ctx context.Context, workspace string) (step.Tools, error) {
			return l.tools.Open(ctx, a, workspace, activities.Sharing{})
		},
		Repeatable: l.tools.repeatable,
		Redact:     redact.New(redact.Environment(slices.Concat(os.Environ(), l.tools.secrets()))).Bytes,
	}, nil
}

// SharedServers returns the names of the agent's MCP servers with scope session. Local steps do not
// share them: each step starts its own.
func (l *Local) SharedServers(a config.Agent) []string {
	servers, err := l.tools.serversOf(a)
	if err != nil {
		return nil // Open reports the error
	}
	var names []string
	for _, s := range servers {
		if s.Shared {
			names = append(names, s.Name)
		}
	}
	return names
}

// Close removes remaining workspaces and the HOMEs of MCP servers.
func (l *Local) Close() {
	l.scratch.close()
	l.tools.release()
}

// scratch is a temporary directory of this process, for the workspaces of running steps or for the
// HOMEs of MCP servers with their browser profiles. The process holds a lock file beside it; the
// next worker removes directories whose lock is free.
type scratch struct {
	dir  string
	lock *os.File
}

const (
	scratchName = "conclave-worker-"
	lockSuffix  = ".lock"
)

// openScratch creates a directory in parent or, if that is empty, in the system's temporary
// directory.
func openScratch(parent string) (*scratch, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("making a directory for the workspaces of steps: %w", err)
	}
	sweep(parent)
	for {
		dir, err := os.MkdirTemp(parent, scratchName)
		if err != nil {
			return nil, fmt.Errorf("making a directory for the workspaces of steps: %w", err)
		}
		lock, err := filelock.Wait(context.Background(), dir+lockSuffix, filelock.Exclusive)
		if err != nil {
			_ = artifact.RemoveTree(dir)
			return nil, fmt.Errorf("locking the directory for the workspaces of steps: %w", err)
		}
		s := &scratch{dir: dir, lock: lock}
		// Before it was locked, another worker's sweep may have removed the file.
		if _, err := os.Stat(lock.Name()); err == nil {
			return s, nil
		}
		s.close()
	}
}

// close removes the directory. If a step is still running, its next attempt restores the workspace.
func (s *scratch) close() {
	_ = artifact.RemoveTree(s.dir)
	_ = os.Remove(s.lock.Name())
	_ = s.lock.Close()
}

// sweep removes directories that belong to this user's dead processes.
func sweep(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, scratchName+"*"+lockSuffix))
	for _, name := range locks {
		lock, err := filelock.Try(name, filelock.Exclusive)
		if err != nil || lock == nil {
			continue
		}
		(&scratch{dir: strings.TrimSuffix(name, lockSuffix), lock: lock}).close()
	}
}
