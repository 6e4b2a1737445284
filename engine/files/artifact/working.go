package artifact

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"conclave/engine/files/patch"
)

// WorkingCopy stores the changes of a directory in which a step works. It reads a file again only when its
// size, mode or change time differ, and stores only content that the session does not have.
//
// It is not safe for concurrent use, and no process may write to the directory during a scan.
type WorkingCopy struct {
	store   Store
	layout  Layout
	dir     string
	scratch string
	mounts  []string // paths in the directory that belong to no answer

	files    map[string]tracked
	stored   map[string]bool // hashes of content that the session has
	warnings []Warning       // warnings of the last scan
}

// tracked is a file as it was stored, with the identity that it had then.
type tracked struct {
	file    File
	is      Identity
	settled bool // the identity shows every later change
}

// Within these times a file can change twice and keep its change time. fineGrain holds for
// file systems whose clock counts fractions of fineClock, coarseGrain for the others.
const (
	fineGrain   = 25 * time.Millisecond
	fineClock   = time.Millisecond
	coarseGrain = 2 * time.Second
)

// Delta is a change of a workspace, as journal entries record it.
type Delta struct {
	Changed []File `json:"changed,omitempty"`
	Removed paths  `json:"removed,omitempty"`
}

// OpenWorkingCopy tracks a directory. At first, only content of the layout's base counts as
// stored. Mounts are paths in the directory that, like peers/, belong to no answer. Copies of
// large files are kept in scratch while they are uploaded, or in the system's temporary
// directory if scratch is empty; a killed process leaves them there.
func OpenWorkingCopy(store Store, layout Layout, dir, scratch string, mounts ...string) *WorkingCopy {
	return &WorkingCopy{
		store: store, layout: layout, dir: dir, scratch: scratch, mounts: append([]string{peersDir}, mounts...),
		files: map[string]tracked{}, stored: map[string]bool{},
	}
}

// MarkStored marks the contents of m as already stored.
func (w *WorkingCopy) MarkStored(m Manifest) {
	for _, f := range m.Files {
		if f.isRegular() {
			w.stored[f.SHA256] = true
		}
	}
}

// Track records that the directory has the files of the layout's base. Identity returns the
// identity of a file at the given time, before anybody could change it.
func (w *WorkingCopy) Track(identity func(name string) Identity, at time.Time) {
	for _, f := range w.layout.base.Manifest().Files {
		t := tracked{file: f, settled: true}
		if f.isRegular() {
			t.is = identity(f.Path)
			t.settled = t.is.Settled(at.UnixNano())
		}
		w.files[f.Path] = t
	}
}

// Scan stores the changes since the last scan and returns them. Links that leave the
// workspace, special files, unreadable files and those with reserved names are left out with a
// warning; peers/ and ignored files are left out silently.
//
// Scan fails with a *LimitError if the workspace exceeds a limit, with a *NameError if no key
// can express a name, and with another error if a file's size changes while it is read.
// Content stored before a failure is reused.
func (w *WorkingCopy) Scan(ctx context.Context) (Delta, error) { return w.scanDir(ctx, false) }

// ScanStorable is Scan for unfinished work: it leaves out, with a warning, the entries for which Scan fails
// with a *LimitError or a *NameError. If there are too many files, it keeps the first ones by path.
func (w *WorkingCopy) ScanStorable(ctx context.Context) (Delta, error) { return w.scanDir(ctx, true) }

func (w *WorkingCopy) scanDir(ctx context.Context, lenient bool) (delta Delta, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("scan workspace %q: %w", w.dir, err)
		}
	}()
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return Delta{}, err
	}
	defer root.Close()
	began := time.Now()
	found, err := w.newWalk(root, lenient)
	if err != nil {
		return Delta{}, err
	}
	if err := found.findFiles(ctx); err != nil {
		return Delta{}, err
	}
	modified := w.filesToRead(found)
	read, err := w.storeContents(ctx, root, modified)
	if err != nil {
		return Delta{}, err
	}
	// An unreadable file is left out even if an earlier version was stored.
	found.files = slices.DeleteFunc(found.files, func(f File) bool {
		return hasPath(modified, f.Path) && !hasPath(read.files, f.Path)
	})
	w.warnings = append(found.warnings, read.warnings...)
	return w.trackFound(found, read.files, began), nil
}

func (w *WorkingCopy) newWalk(root *os.Root, lenient bool) (*walk, error) {
	found := &walk{root: root, base: w.layout.base, mounts: w.mounts, lenient: lenient, infos: map[string]fs.FileInfo{}}
	return found, found.ignoreAsWorkspace()
}

func (w *WorkingCopy) storeContents(ctx context.Context, root *os.Root, files []File) (*walk, error) {
	read := &walk{root: root, files: files}
	up := &upload{store: w.store, layout: w.layout, root: root, stored: w.stored, scratch: w.scratch}
	return read, up.storeFiles(ctx, read)
}

func (w *WorkingCopy) filesToRead(found *walk) []File {
	var modified []File
	for _, f := range found.files {
		if !w.isUnchanged(f, found.infos[f.Path]) {
			modified = append(modified, f)
		}
	}
	return modified
}

func (w *WorkingCopy) isUnchanged(f File, info fs.FileInfo) bool {
	old, ok := w.files[f.Path]
	switch {
	case !ok:
		return false
	case !f.isRegular() || !old.file.isRegular():
		return f == old.file
	}
	return old.settled && old.is == Identify(info) && old.file.Mode == f.Mode
}

func (w *WorkingCopy) trackFound(found *walk, read []File, began time.Time) Delta {
	delta := Delta{Changed: w.trackRead(found, read, began)}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		if !hasPath(found.files, name) {
			delta.Removed = append(delta.Removed, name)
			delete(w.files, name)
		}
	}
	return delta
}

func (w *WorkingCopy) trackRead(found *walk, read []File, began time.Time) (changed []File) {
	for _, f := range read {
		if old, ok := w.files[f.Path]; !ok || old.file != f {
			changed = append(changed, f)
		}
		w.trackFile(f, found.infos[f.Path], began)
		if f.isRegular() {
			w.stored[f.SHA256] = true
		}
	}
	return changed
}

func (w *WorkingCopy) trackFile(f File, info fs.FileInfo, began time.Time) {
	t := tracked{file: f, settled: true}
	if info != nil {
		t.is = Identify(info)
		t.settled = t.is.Settled(began.UnixNano())
	}
	w.files[f.Path] = t
}

func hasPath(files []File, name string) bool {
	_, found := slices.BinarySearchFunc(files, name, func(f File, name string) int { return strings.Compare(f.Path, name) })
	return found
}

// Manifest describes the workspace at the last scan.
func (w *WorkingCopy) Manifest() Manifest {
	m := Manifest{Files: make([]File, 0, len(w.files))}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		m.Files = append(m.Files, w.files[name].file)
	}
	return m
}

// Warnings returns the warnings of the last scan.
func (w *WorkingCopy) Warnings() []Warning { return slices.Clone(w.warnings) }

// Change returns the difference between the base of the layout and the workspace at the last scan.
func (w *WorkingCopy) Change() Change { return w.Manifest().Since(w.layout.base) }

// Seal is Scan followed by SealScanned.
func (w *WorkingCopy) Seal(ctx context.Context) (Change, string, error) {
	if _, err := w.Scan(ctx); err != nil {
		return Change{}, "", err
	}
	return w.SealScanned(ctx)
}

// SealScanned stores the difference between the base and the workspace at the last scan. It
// returns this change and its hash, which is empty for an empty change.
func (w *WorkingCopy) SealScanned(ctx context.Context) (Change, string, error) {
	c := w.Change()
	hash, err := c.storeBlob(ctx, w.store, w.layout)
	if err != nil {
		return Change{}, "", fmt.Errorf("seal workspace %q: %w", w.dir, err)
	}
	return c, hash, nil
}

// Join merges a delta with the ones after it.
func (d Delta) Join(later ...Delta) Delta {
	files, removed := map[string]File{}, map[string]bool{}
	for _, d := range append([]Delta{d}, later...) {
		for _, f := range d.Changed {
			files[f.Path] = f
			delete(removed, f.Path)
		}
		for _, name := range d.Removed {
			delete(files, name)
			removed[name] = true
		}
	}
	joined := Delta{Removed: slices.Sorted(maps.Keys(removed))}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		joined.Changed = append(joined.Changed, files[name])
	}
	return joined
}

// Apply applies the deltas of earlier scans to the directory, which must be empty or have the
// files of the base, and tracks the result.
func (w *WorkingCopy) Apply(ctx context.Context, deltas ...Delta) error {
	joined := Delta{}.Join(deltas...)
	if err := w.removeFiles(joined.Removed); err != nil {
		return err
	}
	m := Manifest{Files: joined.Changed}
	if err := m.Restore(ctx, w.store, w.layout, w.dir, false); err != nil {
		return err
	}
	w.MarkStored(m)
	for _, f := range m.Files {
		// The file was written just now, so it is not settled: the next scan reads it once.
		w.files[f.Path] = tracked{file: f}
	}
	return nil
}

// removeFiles deletes tracked files, and the parent directories that this leaves empty.
func (w *WorkingCopy) removeFiles(names []string) error {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return fmt.Errorf("remove files of workspace %q: %w", w.dir, err)
	}
	defer root.Close()
	for _, name := range slices.Backward(names) {
		if _, tracked := w.files[name]; !tracked {
			continue
		}
		delete(w.files, name)
		if err := root.Remove(name); err != nil && !isMissing(err) {
			return fmt.Errorf("remove files of workspace %q: %w", w.dir, err)
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if root.Remove(dir) != nil {
				break
			}
		}
	}
	return nil
}

// ScanFiles is ScanStorable for a workspace in which only the named files, and the
// directories above them, have changed since the last scan. It reads only those files, unless
// one of them requires a walk of the whole directory.
func (w *WorkingCopy) ScanFiles(ctx context.Context, names []string) (Delta, error) {
	delta, ok, err := w.scanFiles(ctx, names)
	if err != nil {
		return Delta{}, fmt.Errorf("scan workspace %q: %w", w.dir, err)
	}
	if !ok {
		return w.ScanStorable(ctx)
	}
	return delta, nil
}

// scanFiles returns false if the directory has to be walked.
func (w *WorkingCopy) scanFiles(ctx context.Context, names []string) (delta Delta, ok bool, err error) {
	if len(w.files)-len(w.layout.base.Manifest().Files)+len(names) > maxFiles {
		return Delta{}, false, nil
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return Delta{}, false, err
	}
	defer root.Close()
	began := time.Now()
	found, err := w.newWalk(root, true)
	if err != nil {
		return Delta{}, false, err
	}
	ignoring, own, inside := found.ignoring, found.own, found.inside
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		found.restorePatterns(ignoring, own, inside)
		ignored, err := found.wouldIgnore(name)
		if err != nil {
			return Delta{}, false, err
		}
		if ignored {
			continue
		}
		info, err := root.Lstat(name)
		if err != nil || !found.isPlainFile(name, info) {
			return Delta{}, false, nil //nolint:nilerr // a walk reports the error if it persists
		}
		found.infos[name] = info
		found.files = append(found.files, File{Path: name, Mode: uint32(info.Mode().Perm()), Size: info.Size()})
	}
	read, err := w.storeContents(ctx, root, found.files)
	if err != nil || len(read.files) < len(found.files) {
		return Delta{}, false, err
	}
	delta.Changed = w.trackRead(found, read.files, began)
	delta.Removed = w.forgetFilled(read.files)
	return delta, true, nil
}

// wouldIgnore reports whether a walk would leave out a file, or a directory above it. It adds
// the patterns of those directories.
func (w *walk) wouldIgnore(name string) (bool, error) {
	dir := "."
	for element := range strings.SplitSeq(name, "/") {
		if err := w.addPatterns(dir); err != nil {
			return false, err
		}
		dir = path.Join(dir, element)
		if w.isIgnored(dir, dir != name) {
			return true, nil
		}
	}
	return false, nil
}

// isPlainFile reports whether a path is a regular file that every workspace accepts and that is not
// an ignore file.
func (w *walk) isPlainFile(name string, info fs.FileInfo) bool {
	lists := path.Base(name) == ignoreFile || path.Base(name) == gitignoreFile
	return info.Mode().IsRegular() && !lists && info.Size() <= maxFileBytes && patch.Reserved(name, "") == "" && w.checkName(name) == nil
}

func (w *WorkingCopy) forgetFilled(files []File) []string {
	gone := map[string]bool{}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if _, tracked := w.files[dir]; tracked {
				gone[dir] = true
				delete(w.files, dir)
			}
		}
	}
	return slices.Sorted(maps.Keys(gone))
}
