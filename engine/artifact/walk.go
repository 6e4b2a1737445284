package artifact

import (
	"bufio"
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
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// Warning reports a path that is left out of a manifest.
type Warning struct {
	Path    string
	Problem string
}

func (w Warning) String() string { return fmt.Sprintf("%q was left out: %s", w.Path, w.Problem) }

// walk finds the files of a workspace in the order of their paths. It does not
// follow links.
type walk struct {
	root     *os.Root
	ignore   func(path string, dir bool) bool
	lenient  bool                   // warn instead of failing for entries that no answer can have
	infos    map[string]fs.FileInfo // filled unless nil
	files    []File                 // without hashes
	warnings []Warning
	entries  int
	bytes    int64
	full     bool // a lenient walk reached maxFiles
}

func (w *walk) run(ctx context.Context) error { return w.dir(ctx, ".", 0) }

func (w *walk) dir(ctx context.Context, dir string, depth int) error {
	if depth >= maxDepth {
		return w.beyond(dir, &LimitError{What: "names in a path", Path: dir, Max: maxDepth})
	}
	entries, err := w.list(ctx, dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if w.full {
			return nil
		}
		if err := w.entry(ctx, path.Join(dir, entry.Name()), entry, depth); err != nil {
			return err
		}
	}
	return nil
}

// list returns the entries of a directory that are not ignored, in the order of
// the paths below them. Of a directory above the limit it returns the first
// maxFiles+1.
func (w *walk) list(ctx context.Context, dir string) ([]fs.DirEntry, error) {
	// Without blocking: the name may have been replaced by a FIFO.
	f, err := w.root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, w.leftOut(dir, err)
	}
	defer f.Close()
	var entries []fs.DirEntry
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// In batches, so that a huge directory does not fill the memory.
		batch, err := f.ReadDir(1024)
		for _, entry := range batch {
			if !w.ignored(path.Join(dir, entry.Name()), entry.IsDir()) {
				entries = append(entries, entry)
			}
		}
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return nil, err
		}
		if !w.lenient && len(entries) > maxFiles {
			return nil, &LimitError{What: "files", Path: path.Join(dir, entries[maxFiles].Name()), Max: maxFiles}
		}
		if ended || len(entries) > 2*maxFiles {
			slices.SortFunc(entries, byPath)
			entries = entries[:min(len(entries), maxFiles+1)]
		}
		if ended {
			return entries, nil
		}
	}
}

// byPath orders the entries of a directory as the paths below them are ordered:
// "a-b" comes before "a/b".
func byPath(a, b fs.DirEntry) int {
	key := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	return cmp.Compare(key(a), key(b))
}

// ignored reports an entry outside the manifest. The ignore file is always inside:
// a workspace restored without it would have other ignored files.
func (w *walk) ignored(name string, dir bool) bool {
	switch {
	case name == peersDir:
		return true
	case name == ignoreFile && !dir:
		return false
	}
	return w.ignore != nil && w.ignore(name, dir)
}

// entry adds one entry, a directory with everything below it.
func (w *walk) entry(ctx context.Context, name string, entry fs.DirEntry, depth int) error {
	if w.entries == maxFiles {
		w.full = true
		return w.beyond(name, &LimitError{What: "files", Path: name, Max: maxFiles})
	}
	w.entries++
	switch {
	case !utf8.ValidString(name):
		w.warn(name, "its name is not valid UTF-8: rename it")
		return nil
	case entry.IsDir():
		return w.dir(ctx, name, depth+1)
	case entry.Type() == fs.ModeSymlink:
		return w.link(name)
	case !entry.Type().IsRegular():
		w.warn(name, "it is neither a file nor a link")
		return nil
	}
	return w.file(name, entry)
}

func (w *walk) file(name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return w.leftOut(name, err)
	}
	if info.Size() > maxFileBytes {
		return w.beyond(name, &LimitError{What: "bytes in a file", Path: name, Max: maxFileBytes})
	}
	if w.bytes+info.Size() > maxBytes {
		return w.beyond(name, &LimitError{What: "bytes", Path: name, Max: maxBytes})
	}
	if _, err := EscapePath(name); err != nil {
		return w.beyond(name, err)
	}
	w.bytes += info.Size()
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
	// The target may lead out through another link. A missing target is harmless.
	if _, err := w.root.Stat(name); err != nil && !isMissing(err) {
		w.warn(name, fmt.Sprintf("it is a link to %q, which cannot be followed inside the workspace", target))
		return nil
	}
	if _, err := EscapePath(name); err != nil {
		return w.beyond(name, err)
	}
	w.files = append(w.files, File{Path: name, Mode: 0o777, Link: target})
	return nil
}

// beyond returns the error of an entry that no answer can have; a lenient walk
// turns it into a warning.
func (w *walk) beyond(name string, err error) error {
	if !w.lenient {
		return err
	}
	w.warn(name, err.Error())
	return nil
}

// leftOut turns an error that concerns a single entry into a warning.
func (w *walk) leftOut(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrNotFound): // removed or replaced during the walk
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

// ignoreFile, at the top of a workspace, excludes files from the answer in the
// syntax of .gitignore. It cannot exclude itself.
const ignoreFile = ".conclaveignore"

// maxIgnore limits the ignore file, in bytes: an agent writes it.
const maxIgnore = 64 << 10

// alwaysIgnored are directories that tools can make again, files of operating
// systems, and the long results of commands and MCP servers, which are for the
// step that asked for them. A line such as !node_modules/ in the ignore file
// includes one.
var alwaysIgnored = []string{
	".git/", "node_modules/", ".venv/", "venv/", "__pycache__/", "*.pyc", ".mypy_cache/", ".pytest_cache/",
	".ruff_cache/", ".tox/", ".npm/", ".cache/", ".gradle/", ".DS_Store", "Thumbs.db",
	"/command-output/", "/tool-results/",
}

// ignoring returns the function that reports ignored paths.
func ignoring(root *os.Root) (func(path string, dir bool) bool, error) {
	lines, err := ignoreLines(root)
	if err != nil {
		return nil, err
	}
	return matching(slices.Concat(alwaysIgnored, lines)), nil
}

// matching returns the function that reports paths that match lines of a
// .gitignore; of conflicting lines the last one counts.
func matching(lines []string) func(path string, dir bool) bool {
	var patterns []gitignore.Pattern
	for _, line := range lines {
		patterns = append(patterns, gitignore.ParsePattern(line, nil))
	}
	matcher := gitignore.NewMatcher(patterns)
	return func(path string, dir bool) bool { return matcher.Match(strings.Split(path, "/"), dir) }
}

// ignoreLines returns the patterns of the ignore file, none if it is not a regular
// file.
func ignoreLines(root *os.Root) ([]string, error) {
	f, err := openRegular(root, ignoreFile)
	if errors.Is(err, ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ignoreFile, err)
	}
	defer f.Close()
	var lines []string
	scanner := bufio.NewScanner(io.LimitReader(f, maxIgnore))
	for scanner.Scan() {
		line := strings.TrimRight(scanner.Text(), "\r")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	// A line too long for the scanner ends the list, as the limit does.
	return lines, nil
}
