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
// a step's workspace, and beside them the texts that are too long to be shown.
const PeersDir = "peers"

// mount restores a peer's workspace to peers/agent<N>/ and its text to
// peers/agent<N>.md, in place of older ones; without a manifest or a text the
// older one goes. A tool finds the old files, or none for a moment, or the new
// ones, never a part of them. What cannot be restored leaves the old ones there.
func (w *workspace) mount(ctx context.Context, peer Peer) error {
	name := fmt.Sprintf("agent%d", peer.Number)
	if err := w.replace(ctx, name, peer); err != nil {
		return fmt.Errorf("mounting the workspace of %s: %w", name, err)
	}
	return nil
}

func (w *workspace) replace(ctx context.Context, name string, peer Peer) error {
	// In a root, so that no link made in the workspace leads out of it.
	root, err := os.OpenRoot(w.base)
	if err != nil {
		return err
	}
	defer root.Close()
	files, text, err := w.stage(ctx, root, name, peer)
	if err != nil {
		return err
	}
	place, outgoing := path.Join(workDir, PeersDir, name), name+".old"
	if err := swap(root, place, files, outgoing); err != nil {
		return err
	}
	if err := artifact.RemoveTree(filepath.Join(w.base, outgoing)); err != nil {
		return err
	}
	return swapText(root, place+".md", text)
}

// stage puts what a peer has where no tool sees it, all of it or nothing, and
// returns the names there; empty for what the peer does not have.
func (w *workspace) stage(ctx context.Context, root *os.Root, name string, peer Peer) (files, text string, err error) {
	if peer.Text != "" {
		text = name + ".md"
		if err := root.WriteFile(text, []byte(peer.Text), 0o444); err != nil {
			return "", "", errors.Join(err, root.RemoveAll(text))
		}
	}
	if peer.Manifest != "" {
		files = name + ".new"
		err = w.restore(ctx, peer.Manifest, filepath.Join(w.base, files))
	}
	if err != nil && text != "" {
		err = errors.Join(err, root.RemoveAll(text))
	}
	return files, text, err
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

// swapText moves incoming, if not empty, to place, and else removes what lies
// there. A directory was not put there by a mount, and goes in any case.
func swapText(root *os.Root, place, incoming string) error {
	there, err := root.Lstat(place)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && (incoming == "" || there.IsDir()) {
		if err := root.RemoveAll(place); err != nil {
			return err
		}
	}
	if incoming == "" {
		return nil
	}
	if err := root.MkdirAll(path.Dir(place), 0o755); err != nil {
		return err
	}
	return root.Rename(incoming, place)
}
