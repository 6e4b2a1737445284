package pull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

// parallel is how many files are copied at a time.
const parallel = 8

// Summary says what a pull did.
type Summary struct {
	SessionID string `json:"session_id"`
	Dir       string `json:"dir"` // absolute
	Status    string `json:"status"`
	Files     int    `json:"files"`  // of the session
	Copied    int    `json:"copied"` // by this pull
	Bytes     int64  `json:"bytes"`  // copied by this pull

	// Verified is set by whoever verifies the copy.
	Verified *Verified `json:"verified,omitempty"`
}

// ErrNoSession says that the store has no session, and no run of a pipeline, with
// that ID.
var ErrNoSession = errors.New("no such session")

// The claims by which a directory is known to be one of a session or of a run.
const (
	sessionClaim  = "session.json"
	pipelineClaim = "pipeline.json"
)

// CheckDir refuses, without a look at what is pulled, a directory that cannot be
// its copy: one with content that is neither a session nor a run of a pipeline.
func CheckDir(dir string) error {
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

// copier copies one session, or one run of a pipeline.
type copier struct {
	store  artifact.Store
	layout artifact.Layout
	claim  string // the file by which it was claimed
	root   *os.Root
	dir    string // absolute

	mu      sync.Mutex
	summary Summary
}

// Session copies the session to dir: everything of the contract's layout, not
// the blobs and journals. If there is no such session, the run of a pipeline with
// that ID is copied. It fails with ErrNoSession if the store has neither, with
// a *DamageError when it has copied everything and not all of it is what it should
// be, and refuses a directory that holds another session. The callback is told of
// every file that is dealt with, from one goroutine at a time.
func Session(ctx context.Context, store artifact.Store, id, dir string, tell func(done, total int)) (Summary, error) {
	c := &copier{store: store, layout: artifact.InBucket(id), claim: sessionClaim}
	session, err := artifact.ReadJSON[artifact.Session](ctx, store, c.layout.File(c.claim))
	if errors.Is(err, artifact.ErrNotFound) {
		// The claim of a run names its owner in the same words.
		c.layout, c.claim = artifact.InPipeline(id), pipelineClaim
		session, err = artifact.ReadJSON[artifact.Session](ctx, store, c.layout.File(c.claim))
	}
	if errors.Is(err, artifact.ErrNotFound) {
		return Summary{}, fmt.Errorf("%w: %w", ErrNoSession, err)
	}
	if err != nil {
		return Summary{}, err
	}
	if err := c.open(dir, session); err != nil {
		return Summary{}, err
	}
	defer func() { _ = c.root.Close() }()
	c.summary = Summary{SessionID: id, Dir: c.dir}
	names, err := c.list(ctx)
	if err != nil {
		return c.summary, err
	}
	c.summary.Files = len(names)
	if err := c.copyAll(ctx, names, tell); err != nil {
		return c.summary, err
	}
	err = c.restoreWorkspaces(ctx, names)
	c.summary.Status = c.status()
	// Empty unless another pull is at work.
	_ = c.root.Remove(tempDir)
	return c.summary, err
}

// open makes the directory and takes it for this session. The claim is copied
// first, so that whatever else is found there later belongs to it.
func (c *copier) open(dir string, session artifact.Session) error {
	if err := CheckDir(dir); err != nil {
		return err
	}
	var err error
	if c.dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("copy into %s: %w", dir, err)
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("copy into %s: %w; name a directory that can be written", dir, err)
	}
	if c.root, err = os.OpenRoot(c.dir); err != nil {
		return fmt.Errorf("copy into %s: %w", dir, err)
	}
	other := map[string]string{sessionClaim: pipelineClaim, pipelineClaim: sessionClaim}[c.claim]
	if _, err := c.root.Lstat(other); err == nil {
		return errors.Join(fmt.Errorf("copy into %s: it holds something else (%s); name a new or an empty directory", dir, other), c.root.Close())
	}
	there, err := readDocument[artifact.Session](c.root, c.claim)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return errors.Join(fmt.Errorf("copy into %s: its %s: %w", dir, c.claim, err), c.root.Close())
	case there.WorkflowID != session.WorkflowID || there.FirstRunID != session.FirstRunID:
		return errors.Join(fmt.Errorf("copy into %s: it holds another session (%s); name a new or an empty directory", dir, there.WorkflowID), c.root.Close())
	}
	return nil
}

// unread are the directories that are not for readers.
var unread = []string{"blobs", "journal", "claims"}

// list returns the session's files, as keys relative to it, the claim first.
func (c *copier) list(ctx context.Context) ([]string, error) {
	names := []string{c.claim}
	for key, err := range c.store.List(ctx, c.layout.Root()) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", c.store.URL(c.layout.Root()), err)
		}
		name := strings.TrimPrefix(key, c.layout.Root())
		top, _, _ := strings.Cut(name, "/")
		if name != c.claim && !slices.Contains(unread, top) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (c *copier) copyAll(ctx context.Context, names []string, tell func(done, total int)) error {
	if err := c.copy(ctx, names[0]); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	done := 1
	for _, name := range names[1:] {
		group.Go(func() error {
			if err := c.copy(ctx, name); err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			done++
			tell(done, len(names))
			return nil
		})
	}
	return group.Wait()
}

// copy copies one file, unless it is one of those that never change and is
// there. Files appear whole, so being there is enough.
func (c *copier) copy(ctx context.Context, name string) error {
	file, err := artifact.UnescapePath(name)
	if err != nil {
		return err
	}
	if !replaced(name) {
		if info, err := c.root.Lstat(file); err == nil && info.Mode().IsRegular() {
			return nil
		}
	}
	return c.fetch(ctx, name, file)
}

// replaced reports the files that change while a session goes on.
func replaced(name string) bool {
	return name == "status.json" || name == "events.jsonl" || name == "result.json" || strings.HasPrefix(name, "final/") || isLastAction(name)
}

func isLastAction(name string) bool {
	return (strings.HasPrefix(name, "agents/") || strings.HasPrefix(name, "steps/")) &&
		strings.Count(name, "/") == 2 && strings.HasSuffix(name, "/last_action.json")
}

// fetch copies one file, whatever is there.
func (c *copier) fetch(ctx context.Context, name, file string) error {
	var n int64
	var err error
	if isLastAction(name) {
		n, err = c.fetchLastAction(ctx, name, file)
	} else {
		n, err = c.stream(ctx, name, file)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", file, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.summary.Copied++
	c.summary.Bytes += n
	return nil
}

func (c *copier) stream(ctx context.Context, name, file string) (int64, error) {
	body, err := c.store.Open(ctx, c.layout.File(name))
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }()
	return writeFile(c.root, file, func(w io.Writer) (int64, error) { return io.Copy(w, body) })
}

// fetchLastAction copies an agent's last_action.json. Its workspace path is a
// link into the bucket there and a path of this directory here.
func (c *copier) fetchLastAction(ctx context.Context, name, file string) (int64, error) {
	last, err := artifact.ReadJSON[artifact.LastAction](ctx, c.store, c.layout.File(name))
	if err != nil {
		return 0, err
	}
	if last.WorkspacePath != nil {
		at := path.Dir(name) + "/workspace" // of a pipeline's step, which has its last action beside it
		if top, agent, _ := strings.Cut(path.Dir(name), "/"); top == "agents" {
			at = artifact.InDir().Step(agent, last.StepNumber, "workspace")
		}
		local := filepath.Join(c.dir, filepath.FromSlash(at))
		last.WorkspacePath = &local
	}
	data, err := artifact.EncodeJSON(last)
	if err != nil {
		return 0, err
	}
	return writeFile(c.root, file, func(w io.Writer) (int64, error) {
		n, err := w.Write(data)
		return int64(n), err
	})
}

// status reads how the session stood when it was copied; empty before its
// first record.
func (c *copier) status() string {
	state, err := readDocument[struct {
		Status string `json:"status"`
	}](c.root, "status.json")
	if err != nil {
		return ""
	}
	return state.Status
}
