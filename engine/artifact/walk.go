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
	"unicode/utf8"
)

// Warning is something of a workspace that a snapshot leaves out, and why.
type Warning struct {
	Path    string
	Problem string
}

func (w Warning) String() string { return fmt.Sprintf("%q was left out: %s", w.Path, w.Problem) }

// walk finds the files of a workspace. It follows no links.
type walk struct {
	root     *os.Root
	ignore   func(path string, dir bool) bool
	infos    map[string]fs.FileInfo // of the files, if it is not nil
	files    []File                 // without hashes
	warnings []Warning
	entries  int
	bytes    int64
}

func (w *walk) run(ctx context.Context) error {
	if err := w.dir(ctx, ".", 0); err != nil {
		return err
	}
	slices.SortFunc(w.files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return nil
}

func (w *walk) dir(ctx context.Context, dir string, depth int) error {
	if depth >= MaxDepth {
		return &LimitError{What: "names in a path", Path: dir, Max: MaxDepth}
	}
	subdirs, err := w.entriesOf(ctx, dir)
	if err != nil {
		return err
	}
	for _, sub := range subdirs {
		if err := w.dir(ctx, sub, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf takes the files of a directory and returns its directories.
func (w *walk) entriesOf(ctx context.Context, dir string) ([]string, error) {
	f, err := w.root.Open(dir)
	if err != nil {
		return nil, w.leftOut(dir, err)
	}
	defer f.Close()
	var subdirs []string
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// In batches: an endless directory must meet the limit, not the memory.
		batch, err := f.ReadDir(1024)
		for _, entry := range batch {
			sub, err := w.entry(path.Join(dir, entry.Name()), entry)
			if err != nil {
				return nil, err
			}
			if sub != "" {
				subdirs = append(subdirs, sub)
			}
		}
		if errors.Is(err, io.EOF) {
			return subdirs, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// entry takes one entry; it returns the path if that is a directory to enter.
func (w *walk) entry(name string, entry fs.DirEntry) (string, error) {
	if name == peersDir || w.ignore != nil && w.ignore(name, entry.IsDir()) {
		return "", nil
	}
	if w.entries++; w.entries > MaxFiles {
		return "", &LimitError{What: "files", Path: name, Max: MaxFiles}
	}
	switch {
	case !utf8.ValidString(name):
		w.warn(name, "its name is not valid UTF-8: rename it")
		return "", nil
	case entry.IsDir():
		return name, nil
	case entry.Type() == fs.ModeSymlink:
		return "", w.link(name)
	case !entry.Type().IsRegular():
		w.warn(name, "it is neither a file nor a link")
		return "", nil
	}
	return "", w.file(name, entry)
}

func (w *walk) file(name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return w.leftOut(name, err)
	}
	if info.Size() > MaxFileBytes {
		return &LimitError{What: "bytes in a file", Path: name, Max: MaxFileBytes}
	}
	if w.bytes += info.Size(); w.bytes > MaxBytes {
		return &LimitError{What: "bytes", Path: name, Max: MaxBytes}
	}
	if _, err := EscapePath(name); err != nil {
		return err
	}
	w.files = append(w.files, File{Path: name, Mode: uint32(info.Mode().Perm()), Size: info.Size()})
	if w.infos != nil {
		w.infos[name] = info
	}
	return nil
}

func (w *walk) link(name string) error {
	target, err := w.root.Readlink(name)
	if err != nil {
		return w.leftOut(name, err)
	}
	if !utf8.ValidString(target) || !linkInside(name, target) {
		w.warn(name, fmt.Sprintf("it is a link to %q, outside the workspace", target))
		return nil
	}
	// The text may lead through another link: the file system has the last word.
	// A target that does not exist harms nobody.
	if _, err := w.root.Stat(name); err != nil && !missing(err) {
		w.warn(name, fmt.Sprintf("it is a link to %q, which cannot be followed inside the workspace", target))
		return nil
	}
	if _, err := EscapePath(name); err != nil {
		return err
	}
	w.files = append(w.files, File{Path: name, Mode: 0o777, Link: target})
	return nil
}

// leftOut turns what makes a single name unusable into a warning.
func (w *walk) leftOut(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrNotFound): // removed or replaced meanwhile
		return nil
	case errors.Is(err, fs.ErrPermission) && name != ".":
		w.warn(name, "it cannot be read: permission denied")
		return nil
	}
	return fmt.Errorf("read workspace: %w", err)
}

func (w *walk) warn(name, problem string) {
	w.warnings = append(w.warnings, Warning{Path: strings.ToValidUTF8(name, "�"), Problem: problem})
}
