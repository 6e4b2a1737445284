package artifact

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// WorkingCopy stores the changes of a directory in which a step works. It reads a
// file again only when its size, mode or change time differ, and stores only
// content that the session does not have.
//
// It is not safe for concurrent use, and no process may write to the directory
// during a scan.
type WorkingCopy struct {
	store   Store
	layout  Layout
	dir     string
	scratch string

	files    map[string]tracked
	stored   map[string]bool // hashes of content that the session has
	warnings []Warning       // of the last scan
}

// tracked is a file as it was stored, with the attributes that it had then.
type tracked struct {
	file    File
	size    int64
	changed int64 // change time in nanoseconds
	settled bool  // it was older than grain when it was read
}

// grain is the age below which a file may change again without a new change time.
const grain = time.Second

// Delta is a change of a workspace, as journal entries record it.
type Delta struct {
	Changed []File   `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// OpenWorkingCopy tracks a directory, none of whose files count as stored. Copies
// of large files are kept in scratch while they are uploaded, in the system's
// temporary directory if it is empty; a killed process leaves them there.
func OpenWorkingCopy(store Store, layout Layout, dir, scratch string) *WorkingCopy {
	return &WorkingCopy{
		store: store, layout: layout, dir: dir, scratch: scratch,
		files: map[string]tracked{}, stored: map[string]bool{},
	}
}

// Has records that the session has the content of m.
func (w *WorkingCopy) Has(m Manifest) {
	for _, f := range m.Files {
		if f.Link == "" {
			w.stored[f.SHA256] = true
		}
	}
}

// Scan stores the changes since the last scan and returns them. Links that leave
// the workspace, special files and unreadable files are left out with a warning;
// peers/ and ignored files are left out silently.
//
// A workspace above a limit fails with a *LimitError, one with a name that no key
// can express with a *NameError, and a file that changes its size while it is read
// is an error. Content stored before a failure is reused.
func (w *WorkingCopy) Scan(ctx context.Context) (Delta, error) { return w.scan(ctx, false) }

// ScanStorable is Scan for unfinished work: entries that make Scan fail with a
// *LimitError or a *NameError are left out with a warning. Of too many files the
// first by path are kept.
func (w *WorkingCopy) ScanStorable(ctx context.Context) (Delta, error) { return w.scan(ctx, true) }

func (w *WorkingCopy) scan(ctx context.Context, lenient bool) (delta Delta, err error) {
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
	ignore, err := ignoring(root)
	if err != nil {
		return Delta{}, err
	}
	began := time.Now()
	found := &walk{root: root, ignore: ignore, lenient: lenient, infos: map[string]fs.FileInfo{}}
	if err := found.run(ctx); err != nil {
		return Delta{}, err
	}
	modified := w.modified(found)
	read := &walk{root: root, files: modified}
	up := &upload{store: w.store, layout: w.layout, root: root, stored: w.stored, scratch: w.scratch}
	if err := up.run(ctx, read); err != nil {
		return Delta{}, err
	}
	// An unreadable file is left out even if an earlier version was stored.
	found.files = slices.DeleteFunc(found.files, func(f File) bool {
		return contains(modified, f.Path) && !contains(read.files, f.Path)
	})
	w.warnings = append(found.warnings, read.warnings...)
	return w.update(found, read.files, began), nil
}

// modified returns the files that have to be read.
func (w *WorkingCopy) modified(found *walk) []File {
	var modified []File
	for _, f := range found.files {
		if !w.unchanged(f, found.infos[f.Path]) {
			modified = append(modified, f)
		}
	}
	return modified
}

func (w *WorkingCopy) unchanged(f File, info fs.FileInfo) bool {
	old, ok := w.files[f.Path]
	switch {
	case !ok:
		return false
	case f.Link != "" || old.file.Link != "":
		return f.Link == old.file.Link
	}
	return old.settled && old.size == info.Size() && old.changed == changeTime(info) && old.file.Mode == f.Mode
}

// update tracks the found files and returns the difference to the last scan.
func (w *WorkingCopy) update(found *walk, read []File, began time.Time) Delta {
	var delta Delta
	for _, f := range read {
		if old, ok := w.files[f.Path]; !ok || old.file != f {
			delta.Changed = append(delta.Changed, f)
		}
		w.track(f, found.infos[f.Path], began)
		if f.Link == "" {
			w.stored[f.SHA256] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		if !contains(found.files, name) {
			delta.Removed = append(delta.Removed, name)
			delete(w.files, name)
		}
	}
	return delta
}

func (w *WorkingCopy) track(f File, info fs.FileInfo, began time.Time) {
	t := tracked{file: f, settled: true}
	if info != nil {
		t.size, t.changed = info.Size(), changeTime(info)
		t.settled = began.Sub(time.Unix(0, t.changed)) > grain
	}
	w.files[f.Path] = t
}

// contains reports whether files, sorted by path, have the path name.
func contains(files []File, name string) bool {
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

// Seal scans once more, stores the manifest and returns it with its hash, empty
// without files.
func (w *WorkingCopy) Seal(ctx context.Context) (Manifest, string, error) {
	if _, err := w.Scan(ctx); err != nil {
		return Manifest{}, "", err
	}
	m := w.Manifest()
	hash, err := storeManifest(ctx, w.store, w.layout, m)
	if err != nil {
		return Manifest{}, "", fmt.Errorf("seal workspace %q: %w", w.dir, err)
	}
	return m, hash, nil
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

// Apply brings the directory to the state after the deltas of earlier scans and
// tracks it from there.
func (w *WorkingCopy) Apply(ctx context.Context, deltas ...Delta) error {
	m := Manifest{Files: Delta{}.Join(deltas...).Changed}
	if err := m.Restore(ctx, w.store, w.layout, w.dir, false); err != nil {
		return err
	}
	w.Has(m)
	for _, f := range m.Files {
		// Not settled, because it was written just now: the next scan reads it once.
		w.files[f.Path] = tracked{file: f}
	}
	return nil
}

// Adopt stores the workspace of another program at root. Unlike Scan it leaves out
// entries that no answer can have, with a warning, and files that match ignored,
// in the syntax of .gitignore and at any depth, silently. Copies of large files are
// kept in scratch during the upload, in the system's temporary directory if it is
// empty.
func Adopt(ctx context.Context, store Store, layout Layout, root *os.Root, scratch string, ignored ...string) (hash string, warnings []Warning, err error) {
	ignore, err := ignoring(root)
	if err != nil {
		return "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	foreign := matching(ignored)
	found := &walk{root: root, lenient: true, ignore: func(path string, dir bool) bool {
		return ignore(path, dir) || foreign(path, dir)
	}}
	up := &upload{store: store, layout: layout, root: root, scratch: scratch}
	if err = found.run(ctx); err == nil {
		err = up.run(ctx, found)
	}
	if err == nil {
		hash, err = storeManifest(ctx, store, layout, Manifest{Files: found.files})
	}
	if err != nil {
		return "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	return hash, found.warnings, nil
}
