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

	"conclave/engine/patch"
)

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
	found, err := w.walk(root, true)
	if err != nil {
		return Delta{}, false, err
	}
	ignoring, own, inside := found.ignoring, found.own, found.inside
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		found.leave(ignoring, own, inside)
		ignored, err := found.ignores(name)
		if err != nil {
			return Delta{}, false, err
		}
		if ignored {
			continue
		}
		info, err := root.Lstat(name)
		if err != nil || !found.plain(name, info) {
			return Delta{}, false, nil //nolint:nilerr // a walk reports the error if it persists
		}
		found.infos[name] = info
		found.files = append(found.files, File{Path: name, Mode: uint32(info.Mode().Perm()), Size: info.Size()})
	}
	read, err := w.read(ctx, root, found.files)
	if err != nil || len(read.files) < len(found.files) {
		return Delta{}, false, err
	}
	delta.Changed = w.trackAll(found, read.files, began)
	delta.Removed = w.filled(read.files)
	return delta, true, nil
}

// ignores reports whether a walk would leave out a file, or a directory above it. It adds
// the patterns of those directories.
func (w *walk) ignores(name string) (bool, error) {
	dir := "."
	for element := range strings.SplitSeq(name, "/") {
		if err := w.enter(dir); err != nil {
			return false, err
		}
		dir = path.Join(dir, element)
		if w.ignored(dir, dir != name) {
			return true, nil
		}
	}
	return false, nil
}

// plain reports whether a path is a regular file that every workspace accepts and that is not
// an ignore file.
func (w *walk) plain(name string, info fs.FileInfo) bool {
	lists := path.Base(name) == ignoreFile || path.Base(name) == gitignoreFile
	return info.Mode().IsRegular() && !lists && info.Size() <= maxFileBytes && patch.Reserved(name, "") == "" && w.checkName(name) == nil
}

// filled forgets the empty directories that now have files, and returns them.
func (w *WorkingCopy) filled(files []File) []string {
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
