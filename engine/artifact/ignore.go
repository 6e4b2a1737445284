package artifact

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
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
// line such as !node_modules/ in the ignore file includes one.
var alwaysIgnored = []string{
	gitDir + "/", "node_modules/", ".venv/", "venv/", "__pycache__/", "*.pyc", ".mypy_cache/", ".pytest_cache/",
	".ruff_cache/", ".tox/", ".npm/", ".cache/", ".gradle/", ".DS_Store", "Thumbs.db",
	"/command-output/", "/tool-results/",
}

// gitDir is the directory of a git repository.
const gitDir = ".git"

// ignoring is a list of ignore patterns.
type ignoring struct {
	above    string // path of the tree in its repository; empty, or ending in "/"
	patterns []pattern
}

// pattern is one line of an ignore file.
type pattern struct {
	dir     string // of the file; empty, or ending in "/"
	include bool   // the line begins with "!"
	dirs    bool   // it matches only directories
	base    bool   // it matches the last element of a path
	literal string // the pattern, if it has no wildcards
	glob    *regexp.Regexp
}

// ignored reports whether the last pattern that matches a path excludes it. The parents
// of the path must not be ignored.
func (i *ignoring) ignored(name string, dir bool) bool {
	for at := len(i.patterns) - 1; at >= 0; at-- {
		if p := &i.patterns[at]; p.matches(i.above+name, dir) {
			return !p.include
		}
	}
	return false
}

func (p *pattern) matches(name string, dir bool) bool {
	if p.dirs && !dir || !strings.HasPrefix(name, p.dir) {
		return false
	}
	name = name[len(p.dir):]
	if p.base {
		name = path.Base(name)
	}
	if p.glob == nil {
		return name == p.literal
	}
	return p.glob.MatchString(bytewise(name))
}

// add appends the lines of an ignore file in dir, a path within the tree.
func (i *ignoring) add(dir string, lines []string) {
	dir = i.above + dir
	if dir != "" && !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	for _, line := range lines {
		if p, ok := parsePattern(line); ok {
			p.dir = dir
			i.patterns = append(i.patterns, p)
		}
	}
}

// read appends the patterns of the file name in dir, if that is a regular file.
func (i *ignoring) read(root *os.Root, dir, name string) error {
	lines, err := readLines(root, path.Join(dir, name))
	if err != nil {
		return err
	}
	if dir == "." {
		dir = ""
	}
	i.add(dir, lines)
	return nil
}

// readLines returns the lines of an ignore file; none if it is not a regular file.
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

// repository adds the patterns that apply to a directory inside a git repository: those of
// the files in excludes, of .git/info/exclude and of the .gitignore files above the
// directory.
func (i *ignoring) repository(dir string, excludes []string) error {
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
		i.add("", lines)
	}
	if info, err := root.Lstat(gitDir); err == nil && info.IsDir() {
		if err := i.read(root, "", gitDir+"/info/exclude"); err != nil {
			return err
		}
	}
	relative, err := filepath.Rel(top, dir)
	if err != nil || relative == "." {
		return err
	}
	below := "."
	for element := range strings.SplitSeq(filepath.ToSlash(relative), "/") {
		if err := i.read(root, below, gitignoreFile); err != nil {
			return err
		}
		below = path.Join(below, element)
	}
	i.above = below + "/"
	return nil
}

// parsePattern translates a line as git does. Blank lines, comments and malformed
// patterns match nothing.
func parsePattern(line string) (p pattern, ok bool) {
	line = trimSpaces(strings.TrimSuffix(line, "\r"))
	if line == "" || line[0] == '#' {
		return p, false
	}
	line, p.include = strings.CutPrefix(line, "!")
	line, p.dirs = strings.CutSuffix(line, "/")
	if line == "" {
		return p, false
	}
	p.base = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if !strings.ContainsAny(line, `*?[\`) {
		p.literal = line
		return p, line != ""
	}
	expression, ok := translate(line)
	if !ok {
		return p, false
	}
	compiled, err := regexp.Compile("(?s)^" + expression + "$")
	p.glob = compiled
	return p, err == nil
}

// trimSpaces removes trailing spaces that are not escaped.
func trimSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	escapes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if escapes%2 == 1 && len(trimmed) < len(line) {
		return trimmed + " "
	}
	return trimmed
}

// ignoreAsWorkspace sets the patterns of a workspace: the defaults and those of
// .conclaveignore at the top. In a session with a base, .gitignore and .conclaveignore apply
// in every directory, to keep build output out of the change.
func (w *walk) ignoreAsWorkspace() error {
	w.ignoring.add("", alwaysIgnored)
	if w.base != nil {
		w.nested = []string{gitignoreFile, ignoreFile}
		return nil
	}
	return w.ignoring.read(w.root, ".", ignoreFile)
}
