package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"conclave/engine/text"
)

func (f *fileTools) copyPath(ctx context.Context, a arguments) (string, error) {
	from, err := cleanPath(a.From)
	if err != nil {
		return "", err
	}
	to, err := cleanPath(a.To)
	if err != nil {
		return "", err
	}
	info, err := f.root.Stat(from)
	if err != nil {
		return "", explain(from, err)
	}
	if !info.IsDir() {
		return f.copySingle(from, to, strings.HasSuffix(a.To, "/"))
	}
	if from == "." || to == from || strings.HasPrefix(to, from+"/") {
		return "", refuse("%s cannot be copied into itself", quote(from))
	}
	return f.copyTree(ctx, from, to)
}

// copySingle copies a file to a path or, if directory is true, to the same name in a directory.
func (f *fileTools) copySingle(from, to string, directory bool) (string, error) {
	if info, err := f.root.Stat(to); directory || err == nil && info.IsDir() {
		to = path.Join(to, path.Base(from))
	}
	if to == from {
		return "", refuse("%s cannot be copied onto itself", quote(from))
	}
	target, err := f.writablePath(to)
	if err != nil {
		return "", err
	}
	if _, _, err := f.replaceableMode(target); err != nil {
		return "", err
	}
	size, err := f.copyFile(from, target)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("copied %s to %s (%s)", quote(from), quote(to), text.Size(size)), nil
}

// copyTree copies the files below a directory, after checking all of them.
func (f *fileTools) copyTree(ctx context.Context, from, to string) (string, error) {
	found, complete, err := f.walkTree(ctx, from, "")
	if err != nil {
		return "", err
	}
	plan, skipped, total, err := f.planCopy(found, from, to)
	switch {
	case err != nil:
		return "", err
	case !complete || len(plan) > maxCopied || total > maxBytes:
		return "", refuse("%s is too large: at most %d files of together %s can be copied; copy parts of it",
			quote(from), maxCopied, text.Size(maxBytes))
	case len(plan) == 0:
		return "", refuse("there are no files to copy in %s", quote(from))
	}
	if err := f.copyPlanned(ctx, plan); err != nil {
		return "", err
	}
	noun := "files"
	if len(plan) == 1 {
		noun = "file"
	}
	result := fmt.Sprintf("copied %d %s from %s to %s (%s)", len(plan), noun, quote(from), quote(to), text.Size(total))
	if len(skipped) > 0 {
		const limit = 10
		result += fmt.Sprintf("; left out %d that are not files inside it: %s", len(skipped), strings.Join(skipped[:min(limit, len(skipped))], ", "))
	}
	return result, nil
}

// copyPlanned copies the files first and then creates the links, so that no file is written through a link.
func (f *fileTools) copyPlanned(ctx context.Context, plan []copying) error {
	for _, p := range plan {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.link == "" {
			if _, err := f.copyFile(p.from, p.to); err != nil {
				return err
			}
		}
	}
	for _, p := range plan {
		if p.link != "" {
			if err := f.copyLink(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fileTools) copyFile(from, to string) (size int64, err error) {
	file, info, err := f.openRegular(from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	size = info.Size()
	if size > maxBytes {
		return 0, refuse("%s has %s; at most %s can be copied", quote(from), text.Size(size), text.Size(maxBytes))
	}
	mode := info.Mode().Perm() | 0o600 // the files of peers are read-only, but copies must be writable
	return size, f.putFile(to, io.LimitReader(file, maxBytes), mode)
}

type copying struct {
	from, to string
	link     string // the target, for a link
}

func (f *fileTools) planCopy(found []entry, from, to string) (plan []copying, skipped []string, total int64, err error) {
	for _, e := range found {
		c := copying{from: e.path, to: path.Join(to, relativePath(from, e.path))}
		switch mode := e.info.Mode(); {
		case mode.IsRegular():
			total += e.info.Size()
		case mode&fs.ModeSymlink != 0 && f.staysInside(e.path, from, &c):
		default:
			skipped = append(skipped, quote(e.path))
			continue
		}
		if err := f.checkTarget(c); err != nil {
			return nil, nil, 0, err
		}
		plan = append(plan, c)
	}
	return plan, skipped, total, nil
}

// checkTarget returns an error if a copy may not be written. A link may only replace a link.
func (f *fileTools) checkTarget(c copying) error {
	if info, err := f.root.Lstat(c.to); c.link != "" && err == nil && info.Mode()&fs.ModeSymlink != 0 {
		_, err := f.writablePath(path.Join(path.Dir(c.to), "-"))
		return err
	}
	if _, err := f.writablePath(c.to); err != nil {
		return err
	}
	_, _, err := f.replaceableMode(c.to)
	return err
}

func (f *fileTools) staysInside(link, tree string, c *copying) bool {
	target, err := f.root.Readlink(link)
	if err != nil || target == "" || path.IsAbs(target) {
		return false
	}
	c.link = target
	return strings.HasPrefix(path.Join(path.Dir(link), target), tree+"/")
}

func (f *fileTools) copyLink(c copying) error {
	f.written = append(f.written, c.to)
	if err := f.root.MkdirAll(path.Dir(c.to), 0o755); err != nil {
		return explain(c.to, err)
	}
	if err := f.root.Remove(c.to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain(c.to, err)
	}
	if err := f.root.Symlink(c.link, c.to); err != nil {
		return explain(c.to, err)
	}
	return nil
}

func (f *fileTools) listFiles(ctx context.Context, a arguments) (string, error) {
	name, pattern, info, err := f.resolveScope(a)
	if err != nil {
		return "", err
	}
	var found []entry
	complete := true
	switch {
	case !info.IsDir():
		found = []entry{{path: name, info: info}}
	case pattern == "":
		found, err = f.readDirectory(name)
	default:
		found, complete, err = f.walkTree(ctx, name, pattern)
	}
	if err != nil {
		return "", err
	}
	return f.formatEntries(name, found, complete), nil
}

// resolveScope returns the file or directory named by path (the workspace if path is empty) and the
// pattern of glob.
func (f *fileTools) resolveScope(a arguments) (name, pattern string, info fs.FileInfo, err error) {
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

func (f *fileTools) readDirectory(name string) ([]entry, error) {
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

// walkTree returns the matching files below a directory, sorted, and false if it stopped after
// maxVisited entries. It skips the unchanged base unless it starts inside it.
func (f *fileTools) walkTree(ctx context.Context, name, pattern string) ([]entry, bool, error) {
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
		case at != name && f.repeatsBase(at):
			return fs.SkipDir
		case err != nil || d.IsDir() || pattern != "" && !doublestar.MatchUnvalidated(pattern, relativePath(name, at)):
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

func relativePath(name, at string) string {
	if name == "." {
		return at
	}
	return strings.TrimPrefix(at, name+"/")
}

func (f *fileTools) formatEntries(name string, found []entry, complete bool) string {
	if len(found) == 0 && complete {
		return fmt.Sprintf("[nothing found in %s]", quote(name))
	}
	var b strings.Builder
	shown := 0
	for _, e := range found {
		line := f.entryLine(e)
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

func (f *fileTools) entryLine(e entry) string {
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
