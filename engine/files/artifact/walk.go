package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"conclave/engine/files/patch"
)

// Warning reports a path that is left out of a manifest.
type Warning struct {
	Path    string `json:"path"`
	Problem string `json:"problem"`
}

func (w Warning) String() string { return fmt.Sprintf("%q was left out: %s", w.Path, w.Problem) }

// walk finds the files of a workspace in the order of their paths. It does not follow links.
type walk struct {
	root     *os.Root
	base     *Base                  // base of the workspace; nil for none
	mounts   []string               // paths that are left out
	usual    patterns               // patterns that count before all others
	ignoring patterns               // patterns of the directories above
	own      patterns               // those of them that are in a .conclaveignore
	inside   bool                   // whether the directory is ignored: only files to be kept are listed
	tracked  map[string]bool        // files that git tracks although they are ignored, and their parents
	nested   []string               // names of the ignore files that every directory may have
	limits   *limits                // nil for those of a workspace
	foreign  bool                   // the directory is not a workspace: .git is left out silently
	lenient  bool                   // warn instead of failing for entries that no answer can have
	infos    map[string]fs.FileInfo // filled unless it is nil
	files    []File                 // files without hashes
	warnings []Warning
	entries  int
	bytes    int64
	full     bool // a lenient walk reached the limit of files
}

// limits are the maximum sizes of a tree.
type limits struct {
	files     int // number of files, links and directories
	fileBytes int64
	bytes     int64
}

func (w *walk) findFiles(ctx context.Context) error {
	if w.limits == nil {
		w.limits = &limits{files: maxFiles, fileBytes: maxFileBytes, bytes: maxBytes}
		for _, f := range w.base.Manifest().Files {
			w.limits.files += 1 + strings.Count(f.Path, "/")
			w.limits.bytes += f.Size
		}
	}
	err := w.addDir(ctx, ".", 0)
	// The walk visits an empty directory "a" after "a-b"; a manifest lists it before.
	slices.SortFunc(w.files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return err
}

func (w *walk) addDir(ctx context.Context, dir string, depth int) error {
	if depth >= maxDepth {
		return w.unsupportedEntry(dir, &LimitError{What: "names in a path", Path: dir, Max: maxDepth})
	}
	defer w.restorePatterns(w.ignoring, w.own, w.inside)
	if err := w.addPatterns(dir); err != nil {
		return err
	}
	entries, empty, err := w.listDir(ctx, dir)
	if err != nil {
		return err
	}
	if empty && dir != "." {
		return w.emptyDir(dir)
	}
	for _, entry := range entries {
		if w.full {
			return nil
		}
		if err := w.addEntry(ctx, path.Join(dir, entry.Name()), entry, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) addPatterns(dir string) error {
	w.inside = w.inside || dir != "." && w.ignoring.ignoresPath(dir, true)
	for _, name := range w.nested {
		if err := w.readIgnored(w.root, dir, name); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) restorePatterns(ignoring, own patterns, inside bool) {
	w.ignoring, w.own, w.inside = ignoring, own, inside
}

// listDir returns the entries of a directory that are not ignored, in the order of the paths
// below them, and reports whether the directory is empty. If it exceeds the limit, list
// returns only the first entries, one more than the limit.
func (w *walk) listDir(ctx context.Context, dir string) (entries []fs.DirEntry, empty bool, err error) {
	// O_NONBLOCK keeps the open from hanging if the name has been replaced by a FIFO.
	f, err := w.root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, w.leftOut(dir, err)
	}
	defer f.Close()
	most := w.limits.files
	for empty = true; ; {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		// In batches, so that a huge directory does not fill the memory.
		batch, err := f.ReadDir(1024)
		empty = empty && len(batch) == 0
		for _, entry := range batch {
			if !w.isIgnored(path.Join(dir, entry.Name()), entry.IsDir()) {
				entries = append(entries, entry)
			}
		}
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended { // a directory may be readable while its entries are not
			return nil, false, w.leftOut(dir, err)
		}
		if !w.lenient && len(entries) > most {
			return nil, false, &LimitError{What: "files", Path: path.Join(dir, entries[most].Name()), Max: int64(most)}
		}
		if ended || len(entries) > 2*most {
			slices.SortFunc(entries, byPath)
			entries = entries[:min(len(entries), most+1)]
		}
		if ended {
			return entries, empty, nil
		}
	}
}

// byPath orders the entries of a directory as the paths below them are ordered: "a-b" comes before "a/b".
func byPath(a, b fs.DirEntry) int {
	key := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	return cmp.Compare(key(a), key(b))
}

// isIgnored reports whether an entry is left out of the manifest. Files of the base never are, and
// files that git tracks only by a .conclaveignore.
func (w *walk) isIgnored(name string, dir bool) bool {
	switch {
	case slices.Contains(w.mounts, name), w.foreign && path.Base(name) == gitDir:
		return true
	case name == ignoreFile && !dir || w.base.Has(name):
		return false
	case w.tracked[name]:
		return w.own.ignoresPath(name, dir)
	case w.inside:
		return true
	}
	ignored, matched := w.ignoring.matchPath(name, dir)
	return ignored || !matched && w.usual.ignoresPath(name, dir)
}

func (w *walk) addEntry(ctx context.Context, name string, entry fs.DirEntry, depth int) error {
	if w.entries == w.limits.files {
		w.full = true
		return w.unsupportedEntry(name, &LimitError{What: "files", Path: name, Max: int64(w.limits.files)})
	}
	w.entries++
	if problem := patch.Reserved(entry.Name(), ""); problem != "" {
		w.addWarning(name, problem)
		return nil
	}
	switch {
	case w.foreign && name == peersDir:
		w.addWarning(name, "agents see the files of others under that name: rename it")
		return nil
	case entry.IsDir():
		return w.addDir(ctx, name, depth+1)
	case entry.Type() == fs.ModeSymlink:
		return w.addLink(name)
	case !entry.Type().IsRegular():
		w.addWarning(name, "it is neither a file nor a link")
		return nil
	}
	return w.addFile(name, entry)
}

func (w *walk) addFile(name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return w.leftOut(name, err)
	}
	if info.Size() > w.limits.fileBytes {
		return w.unsupportedEntry(name, &LimitError{What: "bytes in a file", Path: name, Max: w.limits.fileBytes})
	}
	if w.bytes+info.Size() > w.limits.bytes {
		return w.unsupportedEntry(name, &LimitError{What: "bytes", Path: name, Max: w.limits.bytes})
	}
	if err := w.checkName(name); err != nil {
		return w.unsupportedEntry(name, err)
	}
	w.bytes += info.Size()
	w.files = append(w.files, File{Path: name, Mode: uint32(info.Mode().Perm()), Size: info.Size()})
	if w.infos != nil {
		w.infos[name] = info
	}
	return nil
}

func (w *walk) addLink(name string) error {
	target, err := w.root.Readlink(name)
	if err != nil {
		return w.leftOut(name, err)
	}
	if !linkInside(name, target) {
		w.addWarning(name, fmt.Sprintf("it is a link to %q, outside the workspace", target))
		return nil
	}
	if problem := patch.Reserved(name, target); problem != "" {
		w.addWarning(name, problem)
		return nil
	}
	// The target may lead out through another link. A missing target is harmless.
	if _, err := w.root.Stat(name); err != nil && !isMissing(err) {
		w.addWarning(name, fmt.Sprintf("it is a link to %q, which cannot be followed inside the workspace", target))
		return nil
	}
	if err := w.checkName(name); err != nil {
		return w.unsupportedEntry(name, err)
	}
	w.files = append(w.files, File{Path: name, Mode: 0o777, Link: target})
	return nil
}

func (w *walk) emptyDir(name string) error {
	if err := w.checkName(name); err != nil {
		return w.unsupportedEntry(name, err)
	}
	w.files = append(w.files, File{Path: name, Dir: true, Mode: 0o755})
	return nil
}

// checkName refuses a name that no key can express, unless the base has it: the files of a
// base never become keys.
func (w *walk) checkName(name string) error {
	if w.foreign || w.base.hasEntry(name) {
		return nil
	}
	_, err := EscapePath(name)
	return err
}

// unsupportedEntry reports an entry that cannot be stored: an error, or a warning if the walk is lenient.
func (w *walk) unsupportedEntry(name string, err error) error {
	if !w.lenient {
		return err
	}
	w.addWarning(name, err.Error())
	return nil
}

// leftOut turns an error that concerns a single entry into a warning.
func (w *walk) leftOut(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrNotFound): // removed or replaced during the walk
		return nil
	case errors.Is(err, fs.ErrPermission) && name != ".":
		w.addWarning(name, "it cannot be read: permission denied")
		return nil
	}
	return fmt.Errorf("read workspace: %w", err)
}

func (w *walk) addWarning(name, problem string) {
	w.warnings = append(w.warnings, Warning{Path: strings.ToValidUTF8(name, "�"), Problem: problem})
}

// Adopt stores the workspace of another program at root. It is a Scan that leaves out, with a
// warning, the entries that no answer can have. It silently leaves out files at any depth
// that match ignored, which has the syntax of .gitignore. Large files are copied to scratch
// during the upload, or to the system's temporary directory if scratch is empty.
func Adopt(ctx context.Context, store Store, layout Layout, root *os.Root, scratch string, ignored ...string) (hash string, warnings []Warning, err error) {
	found := &walk{root: root, base: layout.base, mounts: []string{peersDir}, lenient: true}
	if err := found.ignoreAsWorkspace(); err != nil {
		return "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	found.ignoring.addLines("", ignored)
	up := &upload{store: store, layout: layout, root: root, scratch: scratch}
	if err = found.findFiles(ctx); err == nil {
		err = up.storeFiles(ctx, found)
	}
	if err == nil {
		hash, err = Manifest{Files: found.files}.Since(layout.base).storeBlob(ctx, store, layout)
	}
	if err != nil {
		return "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	return hash, found.warnings, nil
}
