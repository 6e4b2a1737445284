package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"

	"conclave/engine/text"
)

func (f *fileTools) copy(ctx context.Context, a arguments) (string, error) {
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
		return f.copyOne(from, to, strings.HasSuffix(a.To, "/"))
	}
	if from == "." || to == from || strings.HasPrefix(to, from+"/") {
		return "", refuse("%s cannot be copied into itself", quote(from))
	}
	return f.copyTree(ctx, from, to)
}

// copyOne copies a file to a path or, if directory is true, to the same name in a directory.
func (f *fileTools) copyOne(from, to string, directory bool) (string, error) {
	if info, err := f.root.Stat(to); directory || err == nil && info.IsDir() {
		to = path.Join(to, path.Base(from))
	}
	if to == from {
		return "", refuse("%s cannot be copied onto itself", quote(from))
	}
	f.written = append(f.written, to)
	n, err := f.copyFile(from, to)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("copied %s to %s (%s)", quote(from), quote(to), text.Size(n)), nil
}

// copyFile copies a file to a path that is already in written.
func (f *fileTools) copyFile(from, to string) (int64, error) {
	target, err := f.writable(to)
	if err != nil {
		return 0, err
	}
	if _, _, err := f.replaceable(target); err != nil {
		return 0, err
	}
	file, info, err := f.open(from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	if info.Size() > maxBytes {
		return 0, refuse("%s has %s; at most %s can be copied", quote(from), text.Size(info.Size()), text.Size(maxBytes))
	}
	// The files of peers are read-only, but copies must be writable.
	return info.Size(), f.place(target, io.LimitReader(file, maxBytes), info.Mode().Perm()|0o600)
}

// copyTree copies the files below a directory, after checking all of them.
func (f *fileTools) copyTree(ctx context.Context, from, to string) (string, error) {
	found, complete, err := f.walk(ctx, from, "")
	if err != nil {
		return "", err
	}
	plan, skipped, total, err := f.plan(found, from, to)
	switch {
	case err != nil:
		return "", err
	case !complete || len(plan) > maxCopied || total > maxBytes:
		return "", refuse("%s is too large: at most %d files of together %s can be copied; copy parts of it",
			quote(from), maxCopied, text.Size(maxBytes))
	case len(plan) == 0:
		return "", refuse("there are no files to copy in %s", quote(from))
	}
	if err := f.copyAll(ctx, plan); err != nil {
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

// copiers bounds the number of files that are copied concurrently.
const copiers = 4

// copyAll copies the files first and then creates the links, so that no file is written through a
// link.
func (f *fileTools) copyAll(ctx context.Context, plan []copying) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(copiers)
	for _, p := range plan {
		f.written = append(f.written, p.to)
		if p.link == "" {
			group.Go(func() error {
				if groupCtx.Err() != nil {
					return context.Cause(groupCtx)
				}
				_, err := f.copyFile(p.from, p.to)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, p := range plan {
		if p.link == "" {
			continue
		}
		if err := f.copyLink(p); err != nil {
			return err
		}
	}
	return nil
}

type copying struct {
	from, to string
	link     string // the target, for a link
}

// plan returns the entries to copy: files, and links whose targets are inside the tree.
func (f *fileTools) plan(found []entry, from, to string) (plan []copying, skipped []string, total int64, err error) {
	for _, e := range found {
		c := copying{from: e.path, to: path.Join(to, below(from, e.path))}
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
		_, err := f.writable(path.Join(path.Dir(c.to), "-"))
		return err
	}
	if _, err := f.writable(c.to); err != nil {
		return err
	}
	_, _, err := f.replaceable(c.to)
	return err
}

// staysInside reads a link into c and reports whether its target is inside the tree.
func (f *fileTools) staysInside(link, tree string, c *copying) bool {
	target, err := f.root.Readlink(link)
	if err != nil || target == "" || path.IsAbs(target) {
		return false
	}
	c.link = target
	return strings.HasPrefix(path.Join(path.Dir(link), target), tree+"/")
}

func (f *fileTools) copyLink(c copying) error {
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
