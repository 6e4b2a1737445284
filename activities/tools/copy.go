package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	target, err := f.writable(to)
	if err != nil {
		return "", err
	}
	if _, _, err := f.replaceable(target); err != nil {
		return "", err
	}
	file, info, err := f.open(from)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	if info.Size() > maxBytes {
		return "", refuse("%s has %s; at most %s can be copied", quote(from), text.Size(info.Size()), text.Size(maxBytes))
	}
	if err := f.put(target, io.LimitReader(file, maxBytes), copied(info)); err != nil {
		return "", err
	}
	return fmt.Sprintf("copied %s to %s (%s)", quote(from), quote(to), text.Size(info.Size())), nil
}

// copied returns the permissions of a copy. The files of peers are read-only, but copies must be
// writable.
func copied(info fs.FileInfo) fs.FileMode { return info.Mode().Perm() | 0o600 }

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

// copiers bounds the number of concurrent calls of copyFiles; together bounds the number of files
// in each of these calls.
const (
	copiers  = 4
	together = 32
)

// copyAll copies the files first and then creates the links, so that no file is written through a
// link.
func (f *fileTools) copyAll(ctx context.Context, plan []copying) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(copiers)
	for _, p := range plan {
		f.written = append(f.written, p.to)
	}
	for _, files := range neighbors(plan) {
		group.Go(func() error { return f.copyFiles(groupCtx, files) })
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

// neighbors divides the files of a plan into groups. The files of a group are in the same
// directory.
func neighbors(plan []copying) (parts [][]copying) {
	for _, p := range plan {
		last := len(parts) - 1
		switch {
		case p.link != "":
		case last >= 0 && len(parts[last]) < together && path.Dir(parts[last][0].from) == path.Dir(p.from):
			parts[last] = append(parts[last], p)
		default:
			parts = append(parts, []copying{p})
		}
	}
	return parts
}

// copyFiles copies files that plan has checked from one directory to another.
func (f *fileTools) copyFiles(ctx context.Context, files []copying) error {
	from, to := path.Dir(files[0].from), path.Dir(files[0].to)
	if err := f.root.MkdirAll(to, 0o755); err != nil {
		return explain(to, err)
	}
	source, err := f.root.OpenRoot(from)
	if err != nil {
		return explain(from, err)
	}
	defer func() { _ = source.Close() }()
	target, err := f.root.OpenRoot(to)
	if err != nil {
		return explain(to, err)
	}
	defer func() { _ = target.Close() }()
	for _, p := range files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := copyFile(source, target, p); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(source, target *os.Root, p copying) error {
	file, info, err := openRegular(source, path.Base(p.from), p.from)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return explained(p.to, place(target, path.Base(p.to), io.LimitReader(file, maxBytes), copied(info)))
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
