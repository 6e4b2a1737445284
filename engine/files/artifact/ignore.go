package artifact

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// The files of ignore patterns. Both have the syntax of .gitignore. The last matching line
// wins, and .conclaveignore is read after .gitignore.
const (
	gitignoreFile = ".gitignore"

	// ignoreFile, at the top of a directory, cannot exclude itself: a workspace restored
	// without it would ignore other files.
	ignoreFile = ".conclaveignore"
)

// maxIgnore limits an ignore file, in bytes: an agent may write it.
const maxIgnore = 64 << 10

// alwaysIgnored lists directories that tools can recreate, files of operating systems, and
// long results of commands and MCP servers, which only the step that asked for them needs. A
// line such as !node_modules/ in the ignore file includes one; .git/ is left out with a warning then.
var alwaysIgnored = []string{
	gitDir + "/", "node_modules/", ".venv/", "venv/", "__pycache__/", "*.pyc", ".mypy_cache/", ".pytest_cache/",
	".ruff_cache/", ".tox/", ".npm/", ".cache/", ".gradle/", ".DS_Store", "Thumbs.db",
	"/command-output/", "/tool-results/",
}

// gitDir is the directory of a git repository.
const gitDir = ".git"

// readIgnored appends the patterns of the file name in dir, if that is a regular file.
func (w *walk) readIgnored(root *os.Root, dir, name string) error {
	lines, err := readLines(root, path.Join(dir, name))
	if err != nil {
		return err
	}
	if dir == "." {
		dir = ""
	}
	w.ignoring.addLines(dir, lines)
	if name == ignoreFile {
		w.own.addLines(dir, lines)
	}
	return nil
}

func readLines(root *os.Root, name string) ([]string, error) {
	f, err := openRegular(root, name)
	if errors.Is(err, ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIgnore))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var lines []string
	scanner := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	// A line too long for the scanner ends the list, as the limit does.
	return lines, nil
}

// readOutside returns the lines of an ignore file outside the tree.
func readOutside(name string) ([]string, error) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer root.Close()
	return readLines(root, filepath.Base(name))
}

// ignoreAsRepository adds the patterns that apply to a directory inside a git repository: those of the files
// in excludes, of .git/info/exclude and of the .gitignore files above the directory.
func (w *walk) ignoreAsRepository(dir string, excludes []string) error {
	top := dir
	for {
		if _, err := os.Lstat(filepath.Join(top, gitDir)); err == nil {
			break
		}
		parent := filepath.Dir(top)
		if parent == top {
			return nil
		}
		top = parent
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return fmt.Errorf("read the repository of %s: %w", dir, err)
	}
	defer root.Close()
	for _, name := range excludes {
		lines, err := readOutside(name)
		if err != nil {
			return err
		}
		w.ignoring.addLines("", lines)
	}
	if info, err := root.Lstat(gitDir); err == nil && info.IsDir() {
		if err := w.readIgnored(root, "", gitDir+"/info/exclude"); err != nil {
			return err
		}
	}
	relative, err := filepath.Rel(top, dir)
	if err != nil || relative == "." {
		return err
	}
	below := "."
	for element := range strings.SplitSeq(filepath.ToSlash(relative), "/") {
		if err := w.readIgnored(root, below, gitignoreFile); err != nil {
			return err
		}
		below = path.Join(below, element)
	}
	w.ignoring.above = below + "/"
	w.own.above = w.ignoring.above
	return nil
}

// ignoreAsWorkspace sets the patterns of a workspace: the defaults and those of
// .conclaveignore at the top. In a session with a base, .gitignore and .conclaveignore apply
// in every directory, to keep build output out of the change.
func (w *walk) ignoreAsWorkspace() error {
	w.usual.addLines("", alwaysIgnored)
	if w.base != nil {
		w.nested = []string{gitignoreFile, ignoreFile}
		return nil
	}
	return w.readIgnored(w.root, ".", ignoreFile)
}

// Found is a file of a directory, without its hash.
type Found struct {
	File
	Info fs.FileInfo // nil for directories
}

// Git has the settings of git for a directory in a repository.
type Git struct {
	// Excludes are files of ignore patterns that apply before those of the directory.
	Excludes []string

	// Tracked are files that git tracks although a pattern matches them.
	Tracked []string
}

// Find lists the files of a directory that a session may start from: those that git tracks or would add,
// without .git and the files that .conclaveignore excludes. Special files, links that lead out and unreadable
// directories are left out with a warning. A directory above the limits of a base fails with a *LimitError.
func Find(ctx context.Context, dir string, git Git) ([]Found, []Warning, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", dir, err)
	}
	defer root.Close()
	w := &walk{
		root: root, foreign: true, nested: []string{gitignoreFile, ignoreFile}, infos: map[string]fs.FileInfo{}, tracked: withParents(git.Tracked),
		limits: &limits{files: maxBaseEntries, fileBytes: MaxBaseFileBytes, bytes: MaxBaseBytes},
	}
	if err := w.ignoreAsRepository(dir, git.Excludes); err != nil {
		return nil, nil, err
	}
	err = w.findFiles(ctx)
	if err == nil && len(w.files) > maxBaseFiles {
		err = &LimitError{What: "files", Path: w.files[maxBaseFiles].Path, Max: maxBaseFiles}
	}
	if limit, ok := errors.AsType[*LimitError](err); ok {
		limit.Base = true
	}
	if err != nil {
		return nil, nil, err
	}
	found := make([]Found, 0, len(w.files))
	for _, f := range w.files {
		found = append(found, Found{File: f, Info: w.infos[f.Path]})
	}
	return found, w.warnings, nil
}

func withParents(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		for ; name != "." && !set[name]; name = path.Dir(name) {
			set[name] = true
		}
	}
	return set
}

// maxBaseEntries limits the files, links and directories that Find visits.
const maxBaseEntries = 2 * maxBaseFiles

// Open opens the regular file of a directory that Find has listed.
func Open(root *os.Root, f File) (*os.File, error) { return openRegular(root, f.Path) }

// Identity identifies the content of a file without reading it: every change of the content
// changes one of its fields.
type Identity struct {
	Size     int64  `json:"size"`
	Modified int64  `json:"mtime"` // time in nanoseconds
	Changed  int64  `json:"ctime"` // time in nanoseconds
	Inode    uint64 `json:"inode"`
}

// Identify returns the identity of a file.
func Identify(info fs.FileInfo) Identity {
	return Identity{Size: info.Size(), Modified: info.ModTime().UnixNano(), Changed: changeTime(info), Inode: inodeOf(info)}
}

// Settled reports whether a change of the file after the given time, in nanoseconds, gives it
// another identity. File systems record the time of a change in ticks.
func (i Identity) Settled(at int64) bool {
	grain := int64(coarseGrain)
	if i.Changed%int64(fineClock) != 0 {
		grain = int64(fineGrain)
	}
	return at-i.Changed > grain
}
