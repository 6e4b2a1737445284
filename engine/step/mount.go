package step

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"conclave/engine/artifact"
)

// PeersDir is where the workspaces of the answers shown lie, read-only, inside
// a step's workspace.
const PeersDir = "peers"

// mount restores a peer's workspace to peers/agent<N>/, in place of an older
// one; without a manifest the older one goes. A tool finds the old files, or none
// for a moment, or the new ones, never a part of them. What cannot be restored
// leaves the old ones there.
func (w *workspace) mount(ctx context.Context, peer Peer) error {
	name := fmt.Sprintf("agent%d", peer.Number)
	if err := w.replace(ctx, name, peer.Manifest); err != nil {
		return fmt.Errorf("mounting the workspace of %s: %w", name, err)
	}
	return nil
}

func (w *workspace) replace(ctx context.Context, name, manifest string) error {
	incoming, outgoing := "", name+".old"
	if manifest != "" {
		incoming = name + ".new"
		if err := w.restore(ctx, manifest, filepath.Join(w.base, incoming)); err != nil {
			return err
		}
	}
	// In a root, so that no link made in the workspace leads out of it.
	root, err := os.OpenRoot(w.base)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := swap(root, path.Join(workDir, PeersDir, name), incoming, outgoing); err != nil {
		return err
	}
	return artifact.RemoveTree(filepath.Join(w.base, outgoing))
}

// restore writes a workspace to dir, all of it or nothing.
func (w *workspace) restore(ctx context.Context, manifest, dir string) error {
	m, err := artifact.LoadManifest(ctx, w.store, w.layout, manifest)
	if err != nil {
		return err
	}
	w.copy.Has(m)
	if err := artifact.Restore(ctx, w.store, w.layout, m, dir, true); err != nil {
		return errors.Join(err, artifact.RemoveTree(dir))
	}
	return nil
}

// swap moves what lies at place, if anything, to outgoing, and then incoming, if
// not empty, to place. What is no directory where one has to be was not put
// there by a mount, and goes.
func swap(root *os.Root, place, incoming, outgoing string) error {
	for _, dir := range []string{path.Dir(place), place} {
		info, err := root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue
		}
		if err := errors.Join(err, root.Remove(dir)); err != nil {
			return err
		}
	}
	if err := move(root, place, outgoing); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if incoming == "" {
		return nil
	}
	if err := root.MkdirAll(path.Dir(place), 0o755); err != nil {
		return err
	}
	return move(root, incoming, place)
}

// move renames a read-only directory. Its entry for its parent changes, for
// which it has to be writable meanwhile.
func move(root *os.Root, from, to string) error {
	if err := root.Chmod(from, 0o700); err != nil {
		return err
	}
	if err := root.Rename(from, to); err != nil {
		return err
	}
	return root.Chmod(to, 0o555)
}
