package step

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"conclave/engine/artifact"
)

// PeersDir is where the workspaces of the answers shown lie, read-only, inside
// a step's workspace.
const PeersDir = "peers"

// workspace is the directory in which a step works.
type workspace struct {
	dir   string
	tools Tools
}

// openWorkspace makes an empty workspace with the peers' files in it.
func openWorkspace(ctx context.Context, p Ports, s Spec) (*workspace, error) {
	dir, err := os.MkdirTemp(p.Scratch, "conclave-step-")
	if err != nil {
		return nil, fmt.Errorf("making a workspace in %s: %w", p.Scratch, err)
	}
	w := &workspace{dir: dir}
	if err := w.mount(ctx, p.Store, s); err != nil {
		w.close()
		return nil, err
	}
	if w.tools, err = p.Tools(dir); err != nil {
		w.close()
		return nil, fmt.Errorf("opening the tools of the step: %w", err)
	}
	return w, nil
}

// mount restores the peers' workspaces.
func (w *workspace) mount(ctx context.Context, store artifact.Store, s Spec) error {
	for _, peer := range s.Peers {
		m, err := artifact.LoadManifest(ctx, store, s.Layout, peer.Manifest)
		if err != nil {
			return fmt.Errorf("reading the workspace of agent%d: %w", peer.Number, err)
		}
		dest := filepath.Join(w.dir, PeersDir, fmt.Sprintf("agent%d", peer.Number))
		if err := artifact.Restore(ctx, store, s.Layout, m, dest, true); err != nil {
			return fmt.Errorf("restoring the workspace of agent%d: %w", peer.Number, err)
		}
	}
	return nil
}

// close removes the workspace. What it held is either committed or void.
func (w *workspace) close() {
	if w.tools != nil {
		_ = w.tools.Close()
	}
	_ = artifact.RemoveTree(w.dir)
}
