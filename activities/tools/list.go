package tools

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"conclave/engine/text"
)

func (f *fileTools) list(ctx context.Context, a arguments) (string, error) {
	name, pattern, info, err := f.scope(a)
	if err != nil {
		return "", err
	}
	var found []entry
	complete := true
	switch {
	case !info.IsDir():
		found = []entry{{path: name, info: info}}
	case pattern == "":
		found, err = f.directory(name)
	default:
		found, complete, err = f.walk(ctx, name, pattern)
	}
	if err != nil {
		return "", err
	}
	return f.listing(name, found, complete), nil
}

// scope returns the file or directory named by path (the workspace if path is empty) and the
// pattern of glob.
func (f *fileTools) scope(a arguments) (name, pattern string, info fs.FileInfo, err error) {
	if name, err = cleanPath(cmp.Or(a.Path, ".")); err != nil {
		return "", "", nil, err
	}
	if pattern, err = cleanGlob(a.Glob); err != nil {
		return "", "", nil, err
	}
	if info, err = f.root.Stat(name); err != nil {
		return "", "", nil, explain(name, err)
	}
	return name, pattern, info, nil
}

type entry struct {
	path string
	info fs.FileInfo
}

func (f *fileTools) directory(name string) ([]entry, error) {
	children, err := fs.ReadDir(f.root.FS(), name)
	if err != nil {
		return nil, explain(name, err)
	}
	var found []entry
	for _, child := range children {
		info, err := child.Info()
		if err != nil {
			continue // removed in the meantime
		}
		found = append(found, entry{path: path.Join(name, child.Name()), info: info})
	}
	return found, nil
}

// walk returns the matching files below a directory, sorted, and false if it stopped after
// maxVisited entries. It skips the unchanged base unless it starts inside it.
func (f *fileTools) walk(ctx context.Context, name, pattern string) ([]entry, bool, error) {
	var (
		found    []entry
		visited  int
		complete = true
	)
	err := fs.WalkDir(f.root.FS(), name, func(at string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if visited++; visited > maxVisited {
			complete = false
			return fs.SkipAll
		}
		switch {
		case err != nil && at == name:
			return err
		case at != name && f.repeats(at):
			return fs.SkipDir
		case err != nil || d.IsDir() || pattern != "" && !doublestar.MatchUnvalidated(pattern, below(name, at)):
			return nil // continue after an unreadable directory
		}
		if info, err := d.Info(); err == nil {
			found = append(found, entry{path: at, info: info})
		}
		return nil
	})
	if err != nil {
		return nil, false, explain(name, err)
	}
	slices.SortFunc(found, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	return found, complete, nil
}

// below returns the path of at relative to the directory name.
func below(name, at string) string {
	if name == "." {
		return at
	}
	return strings.TrimPrefix(at, name+"/")
}

func (f *fileTools) listing(name string, found []entry, complete bool) string {
	if len(found) == 0 && complete {
		return fmt.Sprintf("[nothing found in %s]", quote(name))
	}
	var b strings.Builder
	shown := 0
	for _, e := range found {
		line := f.line(e)
		if shown == maxEntries || b.Len()+len(line) > maxOutput {
			break
		}
		b.WriteString(line)
		shown++
	}
	switch {
	case !complete:
		fmt.Fprintf(&b, "[%d shown of a tree too large to go through; list a directory further down]\n", shown)
	case shown < len(found):
		fmt.Fprintf(&b, "[%d of %d shown; list a directory further down, or use a narrower glob]\n", shown, len(found))
	}
	return b.String()
}

func (f *fileTools) line(e entry) string {
	switch mode := e.info.Mode(); {
	case mode.IsDir():
		return printable(e.path) + "/\n"
	case mode&fs.ModeSymlink != 0:
		target, err := f.root.Readlink(e.path)
		if err != nil {
			target = "?"
		}
		return fmt.Sprintf("%s -> %s\n", printable(e.path), printable(target))
	case !mode.IsRegular():
		return fmt.Sprintf("%s (not a regular file)\n", printable(e.path))
	default:
		return fmt.Sprintf("%s (%s)\n", printable(e.path), text.Size(e.info.Size()))
	}
}

// cleanGlob validates a pattern. A pattern without a slash matches names at any depth.
func cleanGlob(pattern string) (string, error) {
	if pattern == "" {
		return "", nil
	}
	clean := strings.TrimPrefix(pattern, "./")
	if !strings.Contains(clean, "/") {
		clean = "**/" + clean
	}
	for segment := range strings.SplitSeq(clean, "/") {
		if segment == "" || segment == ".." || !doublestar.ValidatePattern(clean) {
			return "", refuse("glob %s is not a pattern; give one such as *.go or src/**/*.md, relative to path", quote(pattern))
		}
	}
	return clean, nil
}
