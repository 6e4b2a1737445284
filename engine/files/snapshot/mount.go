package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/overlay"
)

// mount has the fields of a loan that is not a copy.
type mount struct {
	mounts   *overlay.Mounts
	at, name string      // the overlay, and the directory in it if the loan is not the overlay itself
	is       os.FileInfo // directory as it is in the mount
	tree     string      // unpacked base
	lock     *os.File    // keeps the unpacked base from being removed; nil for a copy in an overlay
}

// Mount creates dir, which must not exist, and mounts the unpacked base on it, so that only
// changes take space. The loan's directory is the path at which this process sees the mount. The
// caller removes dir, and the directories beside it whose names begin with its name, after the loan
// has been given back. If mounting fails, Mount removes them.
func (t *Trees) Mount(ctx context.Context, mounts *overlay.Mounts, b *artifact.Base, dir string) (*Loan, error) {
	l := t.newLoan(b, dir, false)
	err := t.mountOn(ctx, mounts, l)
	if err != nil {
		return nil, fmt.Errorf("mount base %s on %s: %w", b.Hash(), dir, err)
	}
	return l, nil
}

func (t *Trees) mountOn(ctx context.Context, mounts *overlay.Mounts, l *Loan) (err error) {
	// A link in the path would lead out of the namespace of the mounts.
	parent, err := filepath.EvalSymlinks(filepath.Dir(l.dir))
	if err != nil {
		return err
	}
	dir := filepath.Join(parent, filepath.Base(l.dir))
	m, is, err := t.useUnpacked(ctx, l.base)
	if err != nil {
		return err
	}
	m.mounts, m.at = mounts, dir
	made := []string{dir, dir + ".upper", dir + ".work"}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.removeMount())
			for _, dir := range made {
				err = errors.Join(err, filelock.RemoveTree(dir))
			}
		}
	}()
	for _, dir := range made {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mounts.Overlay(m.tree, made[1], made[2], dir); err != nil {
		return err
	}
	l.dir, l.is, l.mount, l.lent = mounts.Path(dir), is, m, time.Now()
	return m.noteDir(l.dir)
}

// MountIn mounts a base, read-only, on a new directory in the mount of another loan. If mounting
// fails, it makes a writable copy there, which is removed with the other loan.
func (t *Trees) MountIn(ctx context.Context, whole *Loan, b *artifact.Base, name string) (*Loan, error) {
	l := t.newLoan(b, filepath.Join(whole.dir, name), true)
	if t.mountReadOnly(ctx, whole, l, name) == nil {
		return l, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l.mount = &mount{}
	if err := errors.Join(filelock.RemoveTree(l.dir), t.Place(ctx, b, l.dir)); err != nil {
		return nil, err
	}
	return l, l.mount.noteDir(l.dir)
}

func (t *Trees) mountReadOnly(ctx context.Context, whole, l *Loan, name string) (err error) {
	if l.base.Hash() == whole.base.Hash() { // its files are known
		l.is, l.mount = whole.is, &mount{tree: whole.mount.tree}
		l.mount.lock, err = lockTree(whole.mount.tree)
	} else {
		l.mount, l.is, err = t.useUnpacked(ctx, l.base)
	}
	if err != nil {
		return err
	}
	l.mount.mounts, l.mount.at, l.mount.name = whole.mount.mounts, whole.mount.at, name
	if err = os.Mkdir(l.dir, 0o755); err == nil {
		err = l.mount.mounts.ReadOnly(l.mount.tree, l.mount.at, name)
	}
	if err == nil {
		err = l.mount.noteDir(l.dir)
	}
	if err != nil {
		err = errors.Join(err, l.mount.removeMount())
	}
	return err
}

// useUnpacked keeps an unpacked base from being removed. It returns the identities of its files, and fails
// if they are not those of the base.
func (t *Trees) useUnpacked(ctx context.Context, b *artifact.Base) (*mount, map[string]artifact.Identity, error) {
	if t.dir == "" {
		return nil, nil, errors.New("there is no directory for unpacked bases")
	}
	dir, err := filepath.Abs(t.dir)
	if err != nil {
		return nil, nil, err
	}
	unlock := t.lockTree(b.Hash())
	defer unlock()
	if err := t.unpackOnce(ctx, b); err != nil {
		return nil, nil, err
	}
	m := &mount{}
	if m.tree, err = filepath.EvalSymlinks(filepath.Join(dir, b.Hash())); err != nil {
		return nil, nil, err
	}
	if m.lock, err = lockTree(m.tree); err != nil {
		return nil, nil, err
	}
	is, err := m.claimFiles(b)
	if err == nil {
		return m, is, nil
	}
	err = errors.Join(err, m.lock.Close())
	if errors.Is(err, errUnequal) { // the next step gets a new tree
		_, gone := removeUnused(m.tree)
		err = errors.Join(err, gone)
	}
	return nil, nil, err
}

// Keep returns the directory of a hash that names no base, such as one of build products, and a function
// that lets go of it: before, it is not removed. If it is missing, fill makes it; without fill the error
// is fs.ErrNotExist. Its files belong to the owner that mounts require, and nothing may change them.
func (t *Trees) Keep(hash string, fill func(dir string) error) (dir string, letGo func(), err error) {
	defer t.lockTree(hash)()
	_, err = os.Stat(t.treePath(hash))
	if err == nil || fill != nil {
		err = t.makeOnce(hash, func(dir string) error { return errors.Join(fill(dir), giveTree(dir)) })
	}
	if err == nil {
		dir, err = filepath.Abs(t.treePath(hash))
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", nil, err
	}
	lock, err := lockTree(dir)
	if err != nil {
		return "", nil, err
	}
	return dir, func() { _ = lock.Close() }, nil
}

// giveTree gives a directory to the owner that mounts require.
func giveTree(dir string) error {
	user, group := overlay.Owner()
	if user == os.Geteuid() {
		return nil
	}
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, user, group))
	})
}

// claimFiles returns the identities of the files of the base. It first gives them to the owner that mounts
// require, if no mount has done so before.
func (m *mount) claimFiles(b *artifact.Base) (map[string]artifact.Identity, error) {
	is, err := identifyFiles(b, m.tree)
	if !errors.Is(err, errOwner) || !canGive(m.lock) {
		return is, err
	}
	if alone, err := filelock.TryFile(m.lock, filelock.Exclusive); err != nil || !alone {
		return nil, errors.Join(errOwner, err)
	}
	if err := giveTree(m.tree); err != nil {
		return nil, err
	}
	if shared, err := filelock.TryFile(m.lock, filelock.Shared); err != nil || !shared {
		return nil, errors.Join(errOwner, err)
	}
	return identifyFiles(b, m.tree)
}

var (
	errOwner   = errors.New("files of the unpacked base belong to another user")
	errUnequal = errors.New("the files of the unpacked base have been changed")
)

// identifyFiles returns the identities of the files and links in an unpacked base. It fails with
// errUnequal if there are others than those of the base, or if one has another type, size or mode,
// and with errOwner if one does not belong to the owner of mounts.
func identifyFiles(b *artifact.Base, tree string) (map[string]artifact.Identity, error) {
	files, dirs := splitEntries(b.Manifest())
	is := make(map[string]artifact.Identity, len(files))
	found := 0
	err := filepath.WalkDir(tree, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if name, err = filepath.Rel(tree, name); err != nil {
			return err
		}
		f, listed := files[name]
		switch {
		case e.IsDir() && !dirs[name], !e.IsDir() && !(listed && isSame(f, info)):
			return fmt.Errorf("%w: %q", errUnequal, name)
		case !HasOwner(info):
			return errOwner
		case !e.IsDir():
			is[name] = artifact.Identify(info)
		}
		found++
		return nil
	})
	if err == nil && found != len(files)+len(dirs) {
		err = fmt.Errorf("%w: there are %d of %d", errUnequal, found, len(files)+len(dirs))
	}
	return is, err
}

func splitEntries(m artifact.Manifest) (files map[string]artifact.File, dirs map[string]bool) {
	files, dirs = make(map[string]artifact.File, len(m.Files)), map[string]bool{".": true}
	for _, f := range m.Files {
		dir := f.Path
		if !f.Dir {
			files[f.Path], dir = f, filepath.Dir(f.Path)
		}
		for ; !dirs[dir]; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	return files, dirs
}

func isSame(f artifact.File, info fs.FileInfo) bool {
	if f.Link != "" {
		return info.Mode().Type() == fs.ModeSymlink && info.Size() == int64(len(f.Link))
	}
	return info.Mode().IsRegular() && info.Size() == f.Size && info.Mode().Perm() == fs.FileMode(f.Mode).Perm()
}

// Intact returns an error if the base below a mount has changed since it was lent, so that the
// files of the workspace may be wrong.
func (l *Loan) Intact() error {
	if l.mount == nil || l.mount.lock == nil {
		return nil
	}
	is, err := identifyFiles(l.base, l.mount.tree)
	if err == nil && !maps.Equal(is, l.is) {
		err = errUnequal
	}
	if err != nil {
		return fmt.Errorf("read the files of base %s in %s: %w; do not change that directory while steps run", l.base.Hash(), l.mount.tree, err)
	}
	return nil
}

// Mounted reports whether the loan is a mount.
func (l *Loan) Mounted() bool { return l.mount != nil }

func (m *mount) noteDir(dir string) (err error) {
	m.is, err = os.Lstat(dir)
	return err
}

// inPlace reports whether a path still names the mount.
func (m *mount) inPlace(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && os.SameFile(info, m.is)
}

func (m *mount) removeMount() error {
	if m.lock == nil {
		return nil
	}
	var err error
	if m.mounts != nil {
		err = m.mounts.Unmount(m.at, m.name)
	}
	return errors.Join(err, m.lock.Close())
}
