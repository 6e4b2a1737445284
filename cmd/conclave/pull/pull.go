package pull

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

// parallel is the number of files copied at a time.
const parallel = 8

// result is the JSON output of a pull.
type result struct {
	SessionID string `json:"session_id"`
	Dir       string `json:"dir"` // absolute
	Status    string `json:"status"`
	Files     int    `json:"files"`  // of the session
	Copied    int    `json:"copied"` // by this pull
	Bytes     int64  `json:"bytes"`  // copied by this pull

	// LeftOut are the files that are damaged or missing in the store.
	LeftOut []problem `json:"left_out"`

	// Verified is nil unless the copy was verified.
	Verified *verification `json:"verified,omitempty"`
}

// errNoSession reports that the store has neither a session nor a pipeline run with the ID.
var errNoSession = errors.New("no such session")

// The claims that identify the directory of a session or of a pipeline's run.
const (
	sessionClaim  = "session.json"
	pipelineClaim = "pipeline.json"
)

// checkDir refuses a directory that is neither empty nor a copy of some session.
func checkDir(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("copy into %s: %w; name a new or an empty directory", dir, err)
	case len(entries) == 0:
		return nil
	}
	for _, e := range entries {
		if e.Name() == sessionClaim || e.Name() == pipelineClaim {
			return nil
		}
	}
	return fmt.Errorf("copy into %s: it is not empty and holds no session; name a new or an empty directory", dir)
}

// copier copies one session or one run of a pipeline.
type copier struct {
	store  artifact.Store
	layout artifact.Layout
	claim  string // sessionClaim or pipelineClaim
	target *artifact.Dir
	root   *os.Root // of target
	dir    string   // of target, absolute

	copied map[string]bool // before the files were listed

	mu     sync.Mutex
	result result
}

// copySession copies a session, or else the pipeline run with the ID, to dir: everything but
// blobs, journals and claims. Progress is called after each file, once at a time. Files that
// the store cannot give are left out and named in the result. The error is errNoSession if
// the store has neither.
func copySession(ctx context.Context, store artifact.Store, id, dir string, progress func(done, total int)) (result, error) {
	c := &copier{store: store, result: result{SessionID: id, LeftOut: []problem{}}}
	session, err := c.find(ctx, id)
	if err != nil {
		return c.result, err
	}
	if err := checkDir(dir); err != nil {
		return c.result, err
	}
	if err := c.open(ctx, dir, session); err != nil {
		return c.result, fmt.Errorf("copy into %s: %w", dir, err)
	}
	defer c.close()
	c.result.Dir = c.dir
	if err := c.copyRecords(ctx); err != nil {
		return c.result, err
	}
	names, err := c.list(ctx)
	if err != nil {
		return c.result, err
	}
	c.result.Files = len(names)
	if err := c.copyAll(ctx, names, progress); err != nil {
		return c.result, err
	}
	err = c.restoreWorkspaces(ctx, names)
	c.result.Status = c.status(ctx)
	slices.SortFunc(c.result.LeftOut, func(a, b problem) int { return cmp.Compare(a.Path, b.Path) })
	return c.result, err
}

// find locates the session or pipeline run and reads its claim. The claim is nil if it cannot
// be read, but the store has other files.
func (c *copier) find(ctx context.Context, id string) (*artifact.Session, error) {
	for _, place := range []struct {
		claim  string
		layout artifact.Layout
	}{
		{sessionClaim, artifact.InBucket(id)},
		{pipelineClaim, artifact.InPipeline(id)}, // its claim has the same fields
	} {
		c.claim, c.layout = place.claim, place.layout
		session, err := artifact.ReadJSON[artifact.Session](ctx, c.store, c.layout.File(c.claim))
		if err == nil {
			return &session, nil
		}
		if errors.Is(err, artifact.ErrNotFound) {
			names, err := c.list(ctx)
			if err != nil {
				return nil, err
			}
			if len(names) == 0 {
				continue
			}
		}
		return nil, c.leaveOut(ctx, c.claim, err)
	}
	return nil, fmt.Errorf("%w: %w", errNoSession, artifact.ErrNotFound)
}

// open opens or creates the directory, which must be empty or an earlier copy.
func (c *copier) open(ctx context.Context, dir string, session *artifact.Session) (err error) {
	if c.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if c.target, err = artifact.NewDir(c.dir); err != nil {
		return err
	}
	if c.root, err = os.OpenRoot(c.dir); err != nil {
		return errors.Join(err, c.target.Close())
	}
	if err := c.checkClaims(ctx, session); err != nil {
		return errors.Join(err, c.target.Close(), c.root.Close())
	}
	return nil
}

// checkClaims refuses a directory that holds another session or run, and without a claim to
// compare any that is not empty.
func (c *copier) checkClaims(ctx context.Context, session *artifact.Session) error {
	if session == nil {
		if entries, err := fs.ReadDir(c.root.FS(), "."); err != nil || len(entries) > 0 {
			return fmt.Errorf("it is not empty, and without a %s in the store an earlier copy cannot be told from another session's; name a new or an empty directory", c.claim)
		}
		return nil
	}
	other := sessionClaim
	if c.claim == sessionClaim {
		other = pipelineClaim
	}
	if _, err := c.root.Lstat(other); err == nil {
		return fmt.Errorf("it holds something else (%s); name a new or an empty directory", other)
	}
	existing, err := artifact.ReadJSON[artifact.Session](ctx, c.target, c.claim)
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("its %s is not one of conclave's (%w); name a new or an empty directory", c.claim, cause(err))
	case existing.Owner != session.Owner:
		return fmt.Errorf("it holds another session (%s); name a new or an empty directory", existing.WorkflowID)
	}
	return nil
}

func (c *copier) close() {
	_ = c.root.Remove(artifact.TempDir) // not empty if another pull is running
	_ = errors.Join(c.target.Close(), c.root.Close())
}

// internal are the directories that are not copied.
var internal = []string{"blobs", "journal", "claims"}

// errDeleting reports a session whose files are being deleted.
var errDeleting = errors.New("it is being deleted")

// list returns the keys of the session's files relative to its root. The ledger is listed
// first: the steps that it counts are in the list, also while the session runs.
func (c *copier) list(ctx context.Context) ([]string, error) {
	var names []string
	listed := map[string]bool{}
	for _, prefix := range []string{c.layout.File("ledger/"), c.layout.Root()} {
		for key, err := range c.store.List(ctx, prefix) {
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", c.store.URL(prefix), err)
			}
			name := strings.TrimPrefix(key, c.layout.Root())
			top, _, _ := strings.Cut(name, "/")
			if name == artifact.Deleted {
				return nil, errDeleting
			}
			if !listed[name] && !slices.Contains(internal, top) {
				listed[name] = true
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// copyRecords copies the claim, from which a later pull recognizes the directory, the status
// and the events. It precedes the listing, which then has every file that they mention, also
// while the session runs.
func (c *copier) copyRecords(ctx context.Context) error {
	c.copied = map[string]bool{}
	for _, name := range []string{c.claim, "status.json", "events.jsonl"} {
		if c.isLeftOut(name) {
			continue
		}
		there, err := c.store.Exists(ctx, c.layout.File(name))
		if err != nil {
			return err
		}
		if there {
			if err := c.copy(ctx, name); err != nil {
				return err
			}
			c.copied[name] = true
		}
	}
	return nil
}

func (c *copier) copyAll(ctx context.Context, names []string, progress func(done, total int)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	done := len(c.copied)
	for _, name := range names {
		if c.copied[name] {
			continue
		}
		group.Go(func() error {
			if err := c.copy(ctx, name); err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			done++
			progress(done, len(names))
			return nil
		})
	}
	return group.Wait()
}

// copy copies one file, unless it is a write-once file that exists already. Files appear
// whole, so existing is enough. A file that the store cannot give is left out.
func (c *copier) copy(ctx context.Context, name string) error {
	if c.isLeftOut(name) {
		return nil
	}
	if !isReplaced(name) {
		if exists, err := c.target.Exists(ctx, name); err != nil || exists {
			return err
		}
	}
	err := c.fetch(ctx, name, c.layout.File(name))
	if source, ok := errors.AsType[*sourceError](err); ok {
		return c.leaveOut(ctx, name, source.err)
	}
	return err
}

// sourceError is an error of the store, rather than of the directory.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func (e *sourceError) Unwrap() error { return e.err }

// leaveOut records a file that the store cannot give. It returns the error if the store
// itself does not answer: then no other file can be had either.
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
	c.result.LeftOut = append(c.result.LeftOut, problem{Path: c.path(name), Problem: "was left out: " + err.Error()})
	return nil
}

func (c *copier) isLeftOut(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.result.LeftOut, func(p problem) bool { return p.Path == c.path(name) })
}

// path returns the path of a key's file in the directory.
func (c *copier) path(name string) string {
	if c.target == nil { // the claim's, before the directory is opened
		return name
	}
	return filepath.ToSlash(strings.TrimPrefix(c.target.URL(name), c.dir+string(filepath.Separator)))
}

// isReplaced reports a file that changes while the session runs.
func isReplaced(name string) bool {
	return name == "status.json" || name == "events.jsonl" || name == "result.json" || strings.HasPrefix(name, "final/") || isLastAction(name)
}

func isLastAction(name string) bool {
	return (strings.HasPrefix(name, "agents/") || strings.HasPrefix(name, "steps/")) &&
		strings.Count(name, "/") == 2 && strings.HasSuffix(name, "/last_action.json")
}

// fetch copies the object with a key to one file, and replaces an existing one.
func (c *copier) fetch(ctx context.Context, name, key string) error {
	n, err := c.transfer(ctx, name, key)
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Copied++
	c.result.Bytes += n
	return nil
}

func (c *copier) transfer(ctx context.Context, name, key string) (int64, error) {
	if isLastAction(name) {
		return c.transferLastAction(ctx, name)
	}
	body, err := c.store.Open(ctx, key)
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

// source notes the error of a reader, which a copy does not tell from that of its writer.
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

// transferLastAction copies a last_action.json with the paths of files in this directory.
func (c *copier) transferLastAction(ctx context.Context, name string) (int64, error) {
	last, err := artifact.ReadJSON[artifact.LastAction](ctx, c.store, c.layout.File(name))
	if err != nil {
		return 0, &sourceError{err}
	}
	step := path.Dir(name) + "/" // of a pipeline
	if top, agent, _ := strings.Cut(path.Dir(name), "/"); top == "agents" {
		step = artifact.Layout{}.Step(agent, last.StepNumber, "")
	}
	if last.WorkspacePath != nil {
		last.WorkspacePath = new(c.target.URL(step + "workspace"))
	}
	if last.PartialPath != nil {
		last.PartialPath = new(c.target.URL(step + "partial"))
	}
	data, err := artifact.EncodeJSON(last)
	if err != nil {
		return 0, err
	}
	return c.target.PutStream(ctx, name, bytes.NewReader(data))
}

// status reads the copied status of the session, empty before its first record.
func (c *copier) status(ctx context.Context) string {
	state, err := artifact.ReadJSON[struct {
		Status string `json:"status"`
	}](ctx, c.target, "status.json")
	if err != nil {
		return ""
	}
	return state.Status
}
