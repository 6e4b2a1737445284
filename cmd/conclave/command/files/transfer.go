package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/files/artifact"
	"conclave/engine/step"
)

// copyFile copies a file unless it is a write-once file that already exists. Files are created
// atomically, so an existing file is complete. It leaves out a file that the store cannot
// read, and one with a reserved name.
func (c *copier) copyFile(ctx context.Context, name string) error {
	if c.isLeftOut(name) {
		return nil
	}
	if problem := (artifact.File{Path: c.pathOf(name)}).Reserved(); problem != "" {
		return c.leaveOut(ctx, name, errors.New(problem))
	}
	if !isReplaced(name) {
		if exists, err := c.target.Exists(ctx, name); err != nil || exists {
			return err
		}
	}
	return c.fetchOrLeaveOut(ctx, name, func(ctx context.Context) (io.ReadCloser, error) {
		if isLastAction(name) {
			return c.openLastAction(ctx, name)
		}
		return c.run.Store.Open(ctx, c.run.Layout.File(name))
	})
}

// mendTranscript replaces the copied transcript of a step if its commit, the file with a name, names another:
// the store may have that of another attempt, and an earlier pull may have copied the file before the commit.
func mendTranscript(ctx context.Context, c *copier, name string) error {
	if !c.isCommit(name) {
		return nil
	}
	dir := path.Dir(name) + "/"
	file := dir + "transcript.jsonl"
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, c.target, name)
	if err != nil || commit.Transcript == "" || c.isLeftOut(file) {
		return nil //nolint:nilerr // --verify reports a damaged commit
	}
	if sum, err := fileSum(c.root, c.pathOf(file)); err == nil && sum == commit.Transcript {
		return nil
	}
	return c.fetchOrLeaveOut(ctx, file, func(ctx context.Context) (io.ReadCloser, error) {
		data, err := step.ReadCommitted(ctx, c.run.Store, c.run.Layout, c.run.Layout.File(dir), commit)
		return artifact.NewSection(data), err
	})
}

// sourceError is an error of the store rather than of the directory.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func (e *sourceError) Unwrap() error { return e.err }

// leaveOut records that the store cannot read a file. It returns the error if the store
// does not respond, because then no other file can be read either.
func (c *copier) leaveOut(ctx context.Context, name string, err error) error {
	if c.strict && !errors.Is(err, artifact.ErrNotFound) {
		return fmt.Errorf("copy %s: %w", c.run.Store.URL(c.run.Layout.File(name)), err)
	}
	_, malformed := errors.AsType[*artifact.MalformedError](err)
	if !malformed && !errors.Is(err, artifact.ErrNotFound) && !errors.Is(err, artifact.ErrCorrupt) {
		if ctx.Err() != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
		if _, down := c.run.Store.Exists(ctx, c.run.Layout.File(c.claimName())); down != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.LeftOut = append(c.result.LeftOut, problem{Path: c.pathOf(name), Problem: "was left out: " + readErrorText(err)})
	return nil
}

// readErrorText returns the text of a store's error, without the checksums that an SDK appends to a
// report of damaged content.
func readErrorText(err error) string {
	if before, _, damaged := strings.Cut(err.Error(), "checksum did not match"); damaged {
		return before + "its content does not match the checksum in the store"
	}
	return err.Error()
}

func (c *copier) isLeftOut(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.result.LeftOut, func(p problem) bool { return p.Path == c.pathOf(name) })
}

// pathOf returns the path, within the directory, of the file for a key.
func (c *copier) pathOf(name string) string {
	if c.target == nil { // the claim is read before the directory is opened
		return name
	}
	return filepath.ToSlash(strings.TrimPrefix(c.target.URL(name), c.dir+string(filepath.Separator)))
}

// isReplaced reports whether a file can change while the session runs.
func isReplaced(name string) bool {
	return name == "status.json" || name == "events.jsonl" || name == "result.json" || strings.HasPrefix(name, "final/") || isLastAction(name)
}

func isLastAction(name string) bool {
	top, rest, _ := strings.Cut(name, "/")
	return path.Base(name) == "last_action.json" && (strings.HasPrefix(top, "step-") || (top == "agents" || top == "steps") && strings.Count(rest, "/") == 1)
}

func (c *copier) fetchOrLeaveOut(ctx context.Context, name string, open func(context.Context) (io.ReadCloser, error)) error {
	err := c.fetchFile(ctx, name, open)
	if source, ok := errors.AsType[*sourceError](err); ok {
		return c.leaveOut(ctx, name, source.err)
	}
	return err
}

func (c *copier) fetchFile(ctx context.Context, name string, open func(context.Context) (io.ReadCloser, error)) error {
	body, err := open(ctx)
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, &sourceError{err})
	}
	defer func() { _ = body.Close() }()
	from := &source{Reader: body}
	n, err := c.target.PutStream(ctx, name, from)
	if err != nil && from.err != nil {
		err = &sourceError{from.err}
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Copied++
	c.result.Bytes += n
	return nil
}

// source records the error of a reader, because a copy function does not distinguish it
// from an error of the writer.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// openLastAction reads a last_action.json and adapts its paths to this directory.
func (c *copier) openLastAction(ctx context.Context, name string) (io.ReadCloser, error) {
	last, err := artifact.ReadJSON[artifact.LastAction](ctx, c.run.Store, c.run.Layout.File(name))
	if err != nil {
		return nil, err
	}
	dir := path.Dir(name) + "/" // directory of the step
	if top, agent, _ := strings.Cut(path.Dir(name), "/"); top == "agents" {
		dir = artifact.Layout{}.Step(agent, last.StepNumber, "")
	}
	if last.WorkspacePath != nil {
		last.WorkspacePath = new(c.target.URL(dir + "workspace"))
	}
	if last.PartialPath != nil {
		last.PartialPath = new(c.target.URL(dir + "partial"))
	}
	data, err := artifact.EncodeJSON(last)
	return artifact.NewSection(data), err
}

// restoreWorkspaces sets file modes and creates links, which only manifests record. It copies
// files again that differ from their manifest. Unavailable files are left out.
func (c *copier) restoreWorkspaces(ctx context.Context) error {
	listed := make(map[string]bool, len(c.names))
	for _, name := range c.names {
		listed[name] = true
	}
	for _, name := range c.names {
		if !c.isManifest(name) || c.isLeftOut(name) {
			continue
		}
		m, err := c.workspaceManifest(ctx, name)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			c.result.LeftOut = append(c.result.LeftOut, problem{Path: name, Problem: "cannot be used, links and modes were left out: " + causeWithoutPath(err).Error()})
			if patch := strings.Replace(name, "workspace.json", "change.patch", 1); patch != name && listed[patch] && c.root.Remove(patch) == nil {
				c.result.LeftOut = append(c.result.LeftOut, problem{Path: patch, Problem: "was left out, as " + name})
			}
			continue
		}
		dir := workspaceOf(name)
		for _, f := range m.Files {
			if escaped, err := artifact.EscapePath(f.Path); err == nil && f.SHA256 != "" && !listed[dir+escaped] {
				c.result.Files++ // a blob of the session, or a file of its base
			}
			if err := c.restoreOrLeaveOut(ctx, dir, f); err != nil {
				return fmt.Errorf("restore %s%s: %w", dir, f.Path, err)
			}
		}
	}
	return nil
}

// restoreOrLeaveOut restores a file. If the store cannot provide its content, it removes the
// file and records it as left out.
func (c *copier) restoreOrLeaveOut(ctx context.Context, dir string, f artifact.File) error {
	escaped, err := artifact.EscapePath(f.Path)
	if err != nil || c.isLeftOut(dir+escaped) {
		return err
	}
	err = c.restoreFile(ctx, dir, escaped, f)
	source, unavailable := errors.AsType[*sourceError](err)
	if !unavailable && !errors.Is(err, artifact.ErrCorrupt) {
		return err
	}
	if unavailable {
		err = source.err
	}
	if err := c.root.Remove(dir + f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.leaveOut(ctx, dir+escaped, err)
}

func (c *copier) isManifest(name string) bool {
	file := c.stepFile(name)
	final, _ := path.Match("final/*/workspace.json", name) // the pattern is valid
	return final || file == "workspace.json" || file == "partial.json"
}

func (c *copier) isCommit(name string) bool { return path.Base(c.stepFile(name)) == "action.json" }

// stepFile returns the path of a record in the directory of its step, and "" for the content of a
// workspace and for evidence.
func (c *copier) stepFile(name string) string {
	d, ok := c.run.Kind.StepOf(name)
	file := strings.TrimPrefix(name, d.Dir)
	if top, _, _ := strings.Cut(file, "/"); !ok || top == "workspace" || top == "partial" || strings.Contains(file, "evidence/") {
		return ""
	}
	return file
}

func workspaceOf(manifest string) string { return strings.TrimSuffix(manifest, ".json") + "/" }

func (c *copier) restoreFile(ctx context.Context, dir, escaped string, f artifact.File) error {
	switch {
	case f.Link != "":
		return c.target.Link(ctx, dir+escaped, f.Link)
	case f.Dir:
		return c.root.MkdirAll(dir+f.Path, 0o755)
	}
	name := dir + f.Path
	matches, err := c.matchesManifest(name, f)
	if err == nil && !matches {
		if err := c.fetchFile(ctx, dir+escaped, func(ctx context.Context) (io.ReadCloser, error) {
			return artifact.OpenFile(ctx, c.run.Store, c.run.Layout, f)
		}); err != nil {
			return err
		}
		if matches, err = c.matchesManifest(name, f); err == nil && !matches {
			return artifact.ErrCorrupt
		}
	}
	if err != nil {
		return err
	}
	return c.root.Chmod(name, fs.FileMode(f.Mode).Perm())
}

// matchesManifest reports whether a file has the content in its manifest. An unreadable file does
// not match and is copied again.
func (c *copier) matchesManifest(name string, f artifact.File) (bool, error) {
	sum, err := fileSum(c.root, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	return sum == f.SHA256, err
}

// fileSum returns the SHA-256 of a regular file in hex, or fs.ErrNotExist.
func fileSum(root *os.Root, name string) (string, error) {
	switch info, err := root.Lstat(name); {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fs.ErrNotExist
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// problem is a file of a copy that was left out or fails the verification.
type problem struct {
	Path    string `json:"path"` // relative to the directory
	Problem string `json:"problem"`
}

func (p problem) String() string {
	name := p.Path
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		name = quoted
	}
	return name + " " + p.Problem
}

// causeWithoutPath removes file names from an error, because the problem already has the path.
func causeWithoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
