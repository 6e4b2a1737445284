package artifact

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// WorkingCopy follows a directory in which a step works, so that what travels
// follows what changed: a file is read and hashed again only when the file
// system says that it was touched, and stored only when the session does not
// have its content.
//
// It is not safe for concurrent use, and nothing that runs may write to the
// directory while it is scanned.
type WorkingCopy struct {
	store   Store
	layout  Layout
	dir     string
	scratch string

	files    map[string]followed
	have     map[string]bool // content that the session is known to have
	warnings []Warning       // of the last scan
}

// followed is a file as it was stored, and how the file system described it then.
type followed struct {
	file    File
	size    int64
	changed int64 // in nanoseconds
	settled bool  // it was older than the clock's grain when it was read
}

// grain is the age below which a file may have changed once more without
// another change of its times.
const grain = time.Second

// Delta is what changed in a workspace: an entry of a journal.
type Delta struct {
	Changed []File   `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// OpenWorkingCopy begins to follow a directory that holds nothing yet. Copies of
// large files lie in scratch while they are stored, in the system's temporary
// directory if that is empty; a process that is killed leaves them there.
func OpenWorkingCopy(store Store, layout Layout, dir, scratch string) *WorkingCopy {
	return &WorkingCopy{
		store: store, layout: layout, dir: dir, scratch: scratch,
		files: map[string]followed{}, have: map[string]bool{},
	}
}

// Has tells of content that the session has: the files of an answer.
func (w *WorkingCopy) Has(m Manifest) {
	for _, f := range m.Files {
		if f.Link == "" {
			w.have[f.SHA256] = true
		}
	}
}

// Scan stores what changed since the last one and returns it. The errors are
// those of Snapshot; content stored before a failure is found again.
func (w *WorkingCopy) Scan(ctx context.Context) (Delta, error) {
	return w.described(w.scan(ctx, false))
}

// ScanStorable is Scan for a workspace that is not finished: what would make
// Scan fail with a *LimitError or a *NameError is left out with a warning, and
// all else is kept. Of more files than there may be, the first by path are kept.
func (w *WorkingCopy) ScanStorable(ctx context.Context) (Delta, error) {
	return w.described(w.scan(ctx, true))
}

func (w *WorkingCopy) described(delta Delta, err error) (Delta, error) {
	if err != nil {
		return Delta{}, fmt.Errorf("scan workspace %q: %w", w.dir, err)
	}
	return delta, nil
}

func (w *WorkingCopy) scan(ctx context.Context, lenient bool) (Delta, error) {
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
	reading := w.touched(found)
	touched := &walk{root: root, files: reading}
	up := &upload{store: w.store, layout: w.layout, root: root, have: w.have, scratch: w.scratch}
	if err := up.run(ctx, touched); err != nil {
		return Delta{}, err
	}
	// What could not be opened is left out, also if it was stored as it once was.
	found.files = slices.DeleteFunc(found.files, func(f File) bool {
		return contains(reading, f.Path) && !contains(touched.files, f.Path)
	})
	w.warnings = append(found.warnings, touched.warnings...)
	return w.take(found, touched.files, began), nil
}

// touched are the files that have to be read.
func (w *WorkingCopy) touched(found *walk) []File {
	var touched []File
	for _, f := range found.files {
		if !w.unchanged(f, found.infos[f.Path]) {
			touched = append(touched, f)
		}
	}
	return touched
}

func (w *WorkingCopy) unchanged(f File, info fs.FileInfo) bool {
	known, ok := w.files[f.Path]
	switch {
	case !ok:
		return false
	case f.Link != "" || known.file.Link != "":
		return f.Link == known.file.Link
	}
	return known.settled && known.size == info.Size() && known.changed == changeTime(info) && known.file.Mode == f.Mode
}

// take makes what was found the state of the copy, and says what is new in it.
func (w *WorkingCopy) take(found *walk, read []File, began time.Time) Delta {
	var delta Delta
	for _, f := range read {
		if known, ok := w.files[f.Path]; !ok || known.file != f {
			delta.Changed = append(delta.Changed, f)
		}
		w.follow(f, found.infos[f.Path], began)
		if f.Link == "" {
			w.have[f.SHA256] = true
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

func (w *WorkingCopy) follow(f File, info fs.FileInfo, began time.Time) {
	one := followed{file: f, settled: true}
	if info != nil {
		one.size, one.changed = info.Size(), changeTime(info)
		one.settled = began.Sub(time.Unix(0, one.changed)) > grain
	}
	w.files[f.Path] = one
}

// contains looks for a path in files, which are sorted by it.
func contains(files []File, name string) bool {
	_, found := slices.BinarySearchFunc(files, name, func(f File, name string) int {
		switch {
		case f.Path < name:
			return -1
		case f.Path > name:
			return 1
		}
		return 0
	})
	return found
}

// Manifest describes the workspace as the last scan found it.
func (w *WorkingCopy) Manifest() Manifest {
	m := Manifest{Files: make([]File, 0, len(w.files))}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		m.Files = append(m.Files, w.files[name].file)
	}
	return m
}

// Warnings are what the last scan left out, and why.
func (w *WorkingCopy) Warnings() []Warning { return slices.Clone(w.warnings) }

// Seal scans once more, stores the manifest and returns it with its hash, ""
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

// Join is what deltas, in order, come to.
func Join(deltas ...Delta) Delta {
	files, removed := map[string]File{}, map[string]bool{}
	for _, d := range deltas {
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

// Apply brings the directory to the state that the deltas of earlier scans
// lead to, and follows it from there.
func (w *WorkingCopy) Apply(ctx context.Context, deltas ...Delta) error {
	m := Manifest{Files: Join(deltas...).Changed}
	if err := Restore(ctx, w.store, w.layout, m, w.dir, false); err != nil {
		return err
	}
	w.Has(m)
	for _, f := range m.Files {
		// Not settled: it was written just now. The next scan reads it once.
		w.files[f.Path] = followed{file: f}
	}
	return nil
}

// Adopt is Snapshot for a workspace that somebody else has left at root, and
// that nobody can be asked to mend: what no answer can have is left out with a
// warning, and all else is kept. What the ignored patterns name, in the syntax of
// .gitignore and at any depth, is left out without one. Copies of large files
// lie in scratch while they are stored, in the system's temporary directory if
// that is empty.
func Adopt(ctx context.Context, store Store, layout Layout, root *os.Root, scratch string, ignored ...string) (Manifest, string, []Warning, error) {
	ignore, err := ignoring(root)
	if err != nil {
		return Manifest{}, "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	patterns := make([]gitignore.Pattern, 0, len(ignored))
	for _, line := range ignored {
		patterns = append(patterns, gitignore.ParsePattern(line, nil))
	}
	also := matching(patterns)
	found := &walk{root: root, lenient: true, ignore: func(path string, dir bool) bool {
		return ignore(path, dir) || also(path, dir)
	}}
	if err := found.run(ctx); err != nil {
		return Manifest{}, "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	up := &upload{store: store, layout: layout, root: root, scratch: scratch}
	if err := up.run(ctx, found); err != nil {
		return Manifest{}, "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	m := Manifest{Files: found.files}
	hash, err := storeManifest(ctx, store, layout, m)
	if err != nil {
		return Manifest{}, "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	return m, hash, found.warnings, nil
}
