package step

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"conclave/engine/artifact"
)

// workDir is where the tools work, below the directory that the step has for
// itself. What is mounted arrives beside it, where no tool sees it and no
// snapshot finds it, and is moved in when it is whole.
const workDir = "files"

// workspace is the directory in which a step works.
type workspace struct {
	base   string // holds dir
	dir    string // where the tools work
	store  artifact.Store
	layout artifact.Layout
	tools  Tools
	copy   *artifact.WorkingCopy

	unkept artifact.Delta // stored, but in no journal entry yet

	toldLeftOut bool // the agent knows which files its answer leaves out
}

// openWorkspace makes an empty workspace with the peers' files in it.
func openWorkspace(ctx context.Context, p Ports, s Spec) (*workspace, error) {
	base, err := os.MkdirTemp(p.Scratch, "conclave-step-")
	if err != nil {
		return nil, fmt.Errorf("making a workspace in %s: %w", p.Scratch, err)
	}
	w := &workspace{base: base, dir: filepath.Join(base, workDir), store: p.Store, layout: s.Layout}
	if err := w.fill(ctx, p, s); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *workspace) fill(ctx context.Context, p Ports, s Spec) (err error) {
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		return fmt.Errorf("making a workspace: %w", err)
	}
	w.copy = artifact.OpenWorkingCopy(p.Store, s.Layout, w.dir, w.base)
	for _, peer := range s.Peers {
		if err := w.mount(ctx, peer); err != nil {
			return err
		}
	}
	if w.tools, err = p.Tools(ctx, w.dir); err != nil {
		return fmt.Errorf("opening the tools of the step: %w", err)
	}
	return nil
}

// changes stores what changed in the workspace since it was asked last, and
// returns it. A file that no answer can have is the agent's to mend before it
// answers; until then it alone is not kept.
func (w *workspace) changes(ctx context.Context) (artifact.Delta, error) {
	delta, err := w.copy.ScanStorable(ctx)
	if err != nil {
		return artifact.Delta{}, err
	}
	delta = artifact.Join(w.unkept, delta)
	w.unkept = artifact.Delta{}
	return delta, nil
}

// check stores the workspace as an answer has it. If the files themselves are
// why that cannot be done, it returns what is wrong with them, in terms of the
// workspace.
func (w *workspace) check(ctx context.Context) (problem, err error) {
	delta, err := w.copy.Scan(ctx)
	if err == nil {
		// The answer may be turned down: then these changes are the next entry's.
		w.unkept = artifact.Join(w.unkept, delta)
		return nil, nil
	}
	var limit *artifact.LimitError
	var name *artifact.NameError
	switch {
	case errors.As(err, &limit):
		return limit, nil
	case errors.As(err, &name):
		return name, nil
	}
	return nil, err
}

// close removes the workspace. What it held is either committed or void.
func (w *workspace) close() {
	if w.tools != nil {
		_ = w.tools.Close()
	}
	_ = artifact.RemoveTree(w.base)
}
