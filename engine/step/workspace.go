package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/snapshot"
)

// peersDir is the directory, in a step's workspace, of the read-only workspaces of the
// answers shown and of the texts that are too long for the prompt.
const peersDir = "peers"

// workDir is the tools' directory inside the step's directory. Mounts are staged beside it,
// where tools and snapshots do not see them, and moved into it when they are complete.
const workDir = "files"

// workspace is the directory in which a step works.
type workspace struct {
	home   string // directory that contains dir
	dir    string // directory in which the tools work
	store  artifact.Store
	layout artifact.Layout
	tools  Tools
	copy   *artifact.WorkingCopy
	ports  Ports

	loans    []*snapshot.Loan // copies and mounts of bases, those inside others first
	whole    *snapshot.Loan   // mount at dir; nil if dir has copies
	unfilled string           // directory of the unchanged base while it is empty
	touched  touched
	lasted   bool // lasting has returned true

	peers   map[string]string         // hash of the manifest of agent<N>, for mounted answers
	answers map[string]*snapshot.Loan // files of agent<N>, if its answer has any
	worked  bool                      // a tool has been called

	unkept artifact.Delta // stored, but not journaled yet
}

// openWorkspace makes a workspace with the session's base and the peers' files in it.
func openWorkspace(ctx context.Context, p Ports, s Spec) (*workspace, error) {
	home, err := os.MkdirTemp(p.Scratch, "conclave-step-")
	if err != nil {
		return nil, fmt.Errorf("make a workspace in %s: %w", p.Scratch, err)
	}
	if p.Trees == nil {
		p.Trees = snapshot.NewTrees(p.Store, "", 0)
	}
	w := &workspace{home: home, dir: filepath.Join(home, workDir), store: p.Store, layout: s.Layout, ports: p, peers: map[string]string{}, answers: map[string]*snapshot.Loan{}}
	if err := w.fillWorkspace(ctx, s); err != nil {
		w.closeWorkspace(ctx)
		return nil, err
	}
	return w, nil
}

func (w *workspace) fillWorkspace(ctx context.Context, s Spec) (err error) {
	whole, err := w.lendWhole(ctx, s.Layout.Base())
	if err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	w.copy = artifact.OpenWorkingCopy(w.store, s.Layout, w.dir, w.home, s.displayDirs()...)
	w.copy.Track(whole.Identity, whole.Lent())
	err = w.mountMaterial(ctx, s.Shown.Context)
	w.loans = append(w.loans, whole)
	if err != nil {
		return err
	}
	for _, peer := range s.Shown.Peers {
		if err := w.mountPeer(ctx, peer); err != nil {
			return err
		}
	}
	if err := w.showPapers(s.Shown.Papers); err != nil {
		return fmt.Errorf("show an evaluation: %w", err)
	}
	if w.tools, err = w.ports.Tools.OpenTools(ctx, w.dir); err != nil {
		return fmt.Errorf("open the tools of the step: %w", err)
	}
	if w.mayLeaveProcess() { // a process of the tool may read it at any time
		if err := w.showBase(ctx); err != nil {
			return err
		}
	}
	if s.Adopts && s.Layout.Base() != nil {
		w.tools = adopting{opened: w.tools, workspace: w}
	}
	w.beginRecord(false)
	return nil
}

// lendWhole makes the tools' directory with the files of a base. It mounts them if it can, and
// copies them otherwise.
func (w *workspace) lendWhole(ctx context.Context, b *artifact.Base) (*snapshot.Loan, error) {
	if b != nil {
		if mounts := w.ports.Tools.Overlays(ctx); mounts != nil {
			if whole, err := w.ports.Trees.Mount(ctx, mounts, b, w.dir); err == nil {
				w.dir, w.whole = whole.Dir(), whole
				return whole, nil
			}
		}
	}
	return w.ports.Trees.Lend(ctx, b, w.dir, false)
}

// maxRead is how many bytes of a file the rules may read, from its beginning.
const maxRead = 256 << 10

// readFile returns the beginning of a regular file of the workspace.
func (w *workspace) readFile(name string) ([]byte, error) {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRead))
}

// closeWorkspace removes the workspace. Copies of bases and answers are kept for other steps if no process
// of the tools can be left.
func (w *workspace) closeWorkspace(ctx context.Context) {
	parent := ""
	if w.tools != nil {
		lasting := w.mayLeaveProcess()
		if err := w.tools.Close(); err == nil && !lasting {
			parent = w.ports.Scratch
		}
	}
	ctx = context.WithoutCancel(ctx)
	for _, loan := range slices.Concat(slices.Collect(maps.Values(w.answers)), w.loans) {
		_ = loan.GiveBack(ctx, parent)
	}
	_ = filelock.RemoveTree(w.home)
}

// mountPeer replaces peers/agent<N>/, peers/agent<N>.md and peers/agent<N>.diff with a peer's
// files, text and change; an empty manifest or text removes them. In a session with a base,
// the files are those that the peer added or changed. Tools see the old files, briefly none,
// or all of the new ones. If the new files cannot be restored, the old ones are kept.
func (w *workspace) mountPeer(ctx context.Context, peer Peer) error {
	name := fmt.Sprintf("agent%d", peer.Number)
	if err := w.replacePeer(ctx, name, peer); err != nil {
		return fmt.Errorf("mount the workspace of %s: %w", name, err)
	}
	w.peers[name] = peer.Manifest
	return nil
}

func (w *workspace) replacePeer(ctx context.Context, name string, peer Peer) error {
	stage, err := w.openStage()
	if err != nil {
		return err
	}
	defer stage.closeStage()
	staged, err := w.stagePeer(ctx, stage, name, peer)
	if err != nil {
		return err
	}
	root, target, outgoing := stage.root, path.Join(stage.work, peersDir, name), path.Join(stage.at, name+".old")
	if err := swapTarget(root, target, staged.files, outgoing); err != nil {
		return err
	}
	delete(w.answers, name)
	if staged.loan != nil {
		if err := staged.loan.Moved(stage.pathOf(target)); err != nil {
			return err
		}
		w.answers[name] = staged.loan
	}
	if err := filelock.RemoveTree(stage.pathOf(outgoing)); err != nil {
		return err
	}
	return errors.Join(swapText(root, target+".md", staged.text), swapText(root, target+".diff", staged.diff))
}

// stage is a directory from which files can be moved to the tools' directory. The root confines
// links made in the workspace; at and work are paths of the two directories in it.
type stage struct {
	root     *os.Root
	at, work string
}

// openStage makes a directory for the parts of a peer. It is beside the tools' directory, or in it
// if that is a mount, into which nothing outside can be moved.
func (w *workspace) openStage() (*stage, error) {
	dir, s := w.home, &stage{at: ".", work: workDir}
	if w.whole != nil {
		at, err := os.MkdirTemp(w.dir, ".conclave-mount-")
		if err != nil {
			return nil, err
		}
		dir, s.at, s.work = w.dir, filepath.Base(at), "."
	}
	var err error
	s.root, err = os.OpenRoot(dir)
	return s, err
}

// pathOf returns the path of a file for this process.
func (s *stage) pathOf(name string) string { return filepath.Join(s.root.Name(), name) }

func (s *stage) closeStage() {
	if s.at != "." {
		_ = filelock.RemoveTree(s.pathOf(s.at))
	}
	s.root.Close()
}

// staged has the names of a peer's parts outside the tools' directory; the names of missing parts are empty.
type staged struct {
	files, text, diff string
	loan              *snapshot.Loan // loan of the files
}

// stagePeer restores all of a peer, or nothing, outside the tools' directory.
func (w *workspace) stagePeer(ctx context.Context, to *stage, name string, peer Peer) (s staged, err error) {
	root, name := to.root, path.Join(to.at, name)
	defer func() {
		for _, made := range []string{s.text, s.diff} {
			if err != nil && made != "" {
				err = errors.Join(err, root.RemoveAll(made))
			}
		}
	}()
	if peer.Text != "" {
		s.text = name + ".md"
		if err := root.WriteFile(s.text, []byte(peer.Text), 0o444); err != nil {
			return s, err
		}
	}
	if peer.Manifest == "" {
		return s, nil
	}
	change, err := artifact.LoadChange(ctx, w.store, w.layout, peer.Manifest)
	if err != nil {
		return s, err
	}
	s.files = name + ".new"
	if s.loan, err = w.restoreAnswer(ctx, peer.Manifest, change, to.pathOf(s.files)); err != nil || w.layout.Base() == nil {
		return s, err
	}
	diff, err := w.diffOf(ctx, change, to.pathOf(s.files))
	if err == nil {
		s.diff = name + ".diff"
		err = root.WriteFile(s.diff, diff, 0o444)
	}
	if err != nil {
		err = errors.Join(err, filelock.RemoveTree(to.pathOf(s.files)))
	}
	return s, err
}

// restoreAnswer makes dir with the files of an answer's change, all of them or nothing. The loan is nil
// in a mount, from which the files cannot be moved to be lent again.
func (w *workspace) restoreAnswer(ctx context.Context, manifest string, c artifact.Change, dir string) (*snapshot.Loan, error) {
	files := artifact.Manifest{Files: c.Files}
	w.copy.MarkStored(files)
	if w.whole != nil {
		if err := files.Restore(ctx, w.store, w.layout, dir, true); err != nil {
			return nil, errors.Join(err, filelock.RemoveTree(dir))
		}
		return nil, nil
	}
	loan, err := w.ports.Trees.LendAnswer(ctx, w.store, w.layout, manifest, c, dir)
	if err != nil {
		return nil, errors.Join(err, filelock.RemoveTree(dir))
	}
	return loan, nil
}

// swapTarget moves target, if it exists, to outgoing, and then incoming, unless it is empty, to
// target. It removes files and links among target's parents, which no mount leaves there.
func swapTarget(root *os.Root, target, incoming, outgoing string) error {
	for _, dir := range []string{path.Dir(target), target} {
		info, err := root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue
		}
		if err := errors.Join(err, root.Remove(dir)); err != nil {
			return err
		}
	}
	if err := moveReadOnly(root, target, outgoing); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if incoming == "" {
		return nil
	}
	if err := root.MkdirAll(path.Dir(target), 0o755); err != nil {
		return err
	}
	return moveReadOnly(root, incoming, target)
}

// moveReadOnly renames a read-only directory. It makes the directory writable during the rename,
// which changes its entry for the parent.
func moveReadOnly(root *os.Root, from, to string) error {
	if err := root.Chmod(from, 0o700); err != nil {
		return err
	}
	if err := root.Rename(from, to); err != nil {
		return err
	}
	return root.Chmod(to, 0o555)
}

// swapText moves incoming to target, or removes target if incoming is empty. If target is a
// directory, it is not a mount and is removed.
func swapText(root *os.Root, target, incoming string) error {
	existing, err := root.Lstat(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && (incoming == "" || existing.IsDir()) {
		if err := root.RemoveAll(target); err != nil {
			return err
		}
	}
	if incoming == "" {
		return nil
	}
	if err := root.MkdirAll(path.Dir(target), 0o755); err != nil {
		return err
	}
	return root.Rename(incoming, target)
}
