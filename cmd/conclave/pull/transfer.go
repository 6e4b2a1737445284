package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/step"
)

// copy copies a file unless it is a write-once file that already exists. Files are created
// atomically, so an existing file is complete. It leaves out a file that the store cannot
// read, and one with a reserved name.
func (c *copier) copy(ctx context.Context, name string) error {
	if c.isLeftOut(name) {
		return nil
	}
	if problem := (artifact.File{Path: c.path(name)}).Reserved(); problem != "" {
		return c.leaveOut(ctx, name, errors.New(problem))
	}
	if !isReplaced(name) {
		if exists, err := c.target.Exists(ctx, name); err != nil || exists {
			return err
		}
	}
	err := c.fetch(ctx, name, func(ctx context.Context) (io.ReadCloser, error) { return c.store.Open(ctx, c.layout.File(name)) })
	if source, ok := errors.AsType[*sourceError](err); ok {
		return c.leaveOut(ctx, name, source.err)
	}
	return err
}

// mendTranscript replaces the copied transcript of a step if its commit, the file with a name, names
// another: the store may have that of another attempt, and an earlier pull may have copied the file
// before the commit.
func mendTranscript(ctx context.Context, c *copier, name string) error {
	dir, file := path.Split(name)
	if file != "action.json" || strings.Contains(dir, "/workspace/") {
		return nil
	}
	file = dir + "transcript.jsonl"
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, c.target, name)
	if err != nil || commit.Transcript == "" || c.isLeftOut(file) {
		return nil //nolint:nilerr // --verify reports a damaged commit
	}
	if sum, err := fileSum(c.root, c.path(file)); err == nil && sum == commit.Transcript {
		return nil
	}
	err = c.fetch(ctx, file, func(ctx context.Context) (io.ReadCloser, error) {
		data, err := step.ReadCommitted(ctx, c.store, c.layout, c.layout.File(dir), commit)
		return artifact.NewSection(data), err
	})
	if source, ok := errors.AsType[*sourceError](err); ok {
		return c.leaveOut(ctx, file, source.err)
	}
	return err
}

// sourceError is an error of the store rather than of the directory.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func (e *sourceError) Unwrap() error { return e.err }

// leaveOut records that the store cannot read a file. It returns the error if the store
// does not respond, because then no other file can be read either.
func (c *copier) leaveOut(ctx context.Context, name string, err error) error {
	_, malformed := errors.AsType[*artifact.MalformedError](err)
	if !malformed && !errors.Is(err, artifact.ErrNotFound) && !errors.Is(err, artifact.ErrCorrupt) {
		if ctx.Err() != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
		if _, down := c.store.Exists(ctx, c.layout.File(c.claim)); down != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.LeftOut = append(c.result.LeftOut, problem{Path: c.path(name), Problem: "was left out: " + unread(err)})
	return nil
}

// unread returns the text of a store's error, without the checksums that an SDK appends to a
// report of damaged content.
func unread(err error) string {
	if before, _, damaged := strings.Cut(err.Error(), "checksum did not match"); damaged {
		return before + "its content does not match the checksum in the store"
	}
	return err.Error()
}

func (c *copier) isLeftOut(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.result.LeftOut, func(p problem) bool { return p.Path == c.path(name) })
}

// path returns the path, within the directory, of the file for a key.
func (c *copier) path(name string) string {
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
	return (strings.HasPrefix(name, "agents/") || strings.HasPrefix(name, "steps/")) &&
		strings.Count(name, "/") == 2 && strings.HasSuffix(name, "/last_action.json")
}

// fetch copies a content to a file and replaces an existing one.
func (c *copier) fetch(ctx context.Context, name string, open func(context.Context) (io.ReadCloser, error)) error {
	n, err := c.transfer(ctx, name, open)
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Copied++
	c.result.Bytes += n
	return nil
}

func (c *copier) transfer(ctx context.Context, name string, open func(context.Context) (io.ReadCloser, error)) (int64, error) {
	if isLastAction(name) {
		return c.transferLastAction(ctx, name)
	}
	body, err := open(ctx)
	if err != nil {
		return 0, &sourceError{err}
	}
	defer func() { _ = body.Close() }()
	from := &source{Reader: body}
	n, err := c.target.PutStream(ctx, name, from)
	if err != nil && from.err != nil {
		err = &sourceError{from.err}
	}
	return n, err
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

// transferLastAction copies a last_action.json and adapts its paths to this directory.
func (c *copier) transferLastAction(ctx context.Context, name string) (int64, error) {
	last, err := artifact.ReadJSON[artifact.LastAction](ctx, c.store, c.layout.File(name))
	if err != nil {
		return 0, &sourceError{err}
	}
	dir := path.Dir(name) + "/" // directory of a pipeline's step
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
	if err != nil {
		return 0, err
	}
	return c.target.PutStream(ctx, name, bytes.NewReader(data))
}
