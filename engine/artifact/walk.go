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

// Warning is something of a workspace that a snapshot leaves out, and why.
type Warning struct {
	Path    string
	Problem string
}

func (w Warning) String() string { return fmt.Sprintf("%q was left out: %s", w.Path, w.Problem) }

// walk finds the files of a workspace, in the order of their paths. It follows
// no links.
type walk struct {
	root     *os.Root
	ignore   func(path string, dir bool) bool
	lenient  bool                   // what no answer can have is left out with a warning, instead of an error
	infos    map[string]fs.FileInfo // of the files, if it is not nil
	files    []File                 // without hashes
	warnings []Warning
	entries  int
	bytes    int64
	full     bool // it ended at MaxFiles
}

func (w *walk) run(ctx context.Context) error { return w.dir(ctx, ".", 0) }

func (w *walk) dir(ctx context.Context, dir string, depth int) error {
	if depth >= MaxDepth {
		return w.beyond(dir, &LimitError{What: "names in a path", Path: dir, Max: MaxDepth})
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
// the paths below them: no more than it takes to meet the limit, the first ones.
func (w *walk) list(ctx context.Context, dir string) ([]fs.DirEntry, error) {
	// Without waiting: the name may have been exchanged for a FIFO.
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
		// In batches: an endless directory must meet the limit, not the memory.
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
		if !w.lenient && len(entries) > MaxFiles {
			return nil, &LimitError{What: "files", Path: path.Join(dir, entries[MaxFiles].Name()), Max: MaxFiles}
		}
		if ended || len(entries) > 2*MaxFiles {
			slices.SortFunc(entries, byPath)
			entries = entries[:min(len(entries), MaxFiles+1)]
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

// ignored reports that an entry is no part of the workspace. The ignore file
// always is: restored without it, the workspace would be another one.
func (w *walk) ignored(name string, dir bool) bool {
	switch {
	case name == peersDir:
		return true
	case name == IgnoreFile && !dir:
		return false
	}
	return w.ignore != nil && w.ignore(name, dir)
}

// entry takes one entry, of a directory with what is below it.
func (w *walk) entry(ctx context.Context, name string, entry fs.DirEntry, depth int) error {
	if w.entries == MaxFiles {
		w.full = true // here ends a lenient walk
		return w.beyond(name, &LimitError{What: "files", Path: name, Max: MaxFiles})
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
	if info.Size() > MaxFileBytes {
		return w.beyond(name, &LimitError{What: "bytes in a file", Path: name, Max: MaxFileBytes})
	}
	if w.bytes+info.Size() > MaxBytes {
		return w.beyond(name, &LimitError{What: "bytes", Path: name, Max: MaxBytes})
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
	// The text may lead through another link: the file system has the last word.
	// A target that does not exist harms nobody.
	if _, err := w.root.Stat(name); err != nil && !missing(err) {
		w.warn(name, fmt.Sprintf("it is a link to %q, which cannot be followed inside the workspace", target))
		return nil
	}
	if _, err := EscapePath(name); err != nil {
		return w.beyond(name, err)
	}
	w.files = append(w.files, File{Path: name, Mode: 0o777, Link: target})
	return nil
}

// beyond is what comes of an entry that no answer can have: the error, or in a
// lenient walk a warning.
func (w *walk) beyond(name string, err error) error {
	if !w.lenient {
		return err
	}
	w.warn(name, err.Error())
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

// IgnoreFile is the file that, at the top of a workspace, says in the syntax of .gitignore what
// of it is not part of an answer. It is part of it itself, whatever it says.
const IgnoreFile = ".conclaveignore"

// maxIgnore bounds the ignore file, in bytes: an agent writes it.
const maxIgnore = 64 << 10

// alwaysIgnored are directories that tools make and can make again, and the
// litter of operating systems; and the long results of commands and of MCP
// servers, which are kept for the step that asked for them. A line such as !node_modules/ in the ignore file
// keeps one.
var alwaysIgnored = []string{
	".git/", "node_modules/", ".venv/", "venv/", "__pycache__/", "*.pyc", ".mypy_cache/", ".pytest_cache/",
	".ruff_cache/", ".tox/", ".npm/", ".cache/", ".gradle/", ".DS_Store", "Thumbs.db",
	"/command-output/", "/tool-results/",
}

// ignoring reads what is left out of the workspace.
func ignoring(root *os.Root) (func(path string, dir bool) bool, error) {
	patterns := make([]gitignore.Pattern, 0, len(alwaysIgnored))
	for _, line := range alwaysIgnored {
		patterns = append(patterns, gitignore.ParsePattern(line, nil))
	}
	lines, err := ignoreLines(root)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		patterns = append(patterns, gitignore.ParsePattern(line, nil))
	}
	return matching(patterns), nil
}

func matching(patterns []gitignore.Pattern) func(path string, dir bool) bool {
	matcher := gitignore.NewMatcher(patterns)
	return func(path string, dir bool) bool { return matcher.Match(strings.Split(path, "/"), dir) }
}

// ignoreLines are the patterns of the ignore file. One that is no regular file
// has none.
func ignoreLines(root *os.Root) ([]string, error) {
	f, err := openRegular(root, IgnoreFile)
	if errors.Is(err, ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", IgnoreFile, err)
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
	// A line that is too long for a pattern ends the list, as the limit does.
	return lines, nil
}
