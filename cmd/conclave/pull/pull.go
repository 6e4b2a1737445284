package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

	mu     sync.Mutex
	result result
}

// copySession copies a session, or else the pipeline run with the ID, to dir: everything but
// blobs, journals and claims. Progress is called after each file, once at a time. The error is
// errNoSession if the store has neither, and a *damageError if all was copied and some of it
// is damaged in the store.
func copySession(ctx context.Context, store artifact.Store, id, dir string, progress func(done, total int)) (result, error) {
	c := &copier{store: store, layout: artifact.InBucket(id), claim: sessionClaim}
	session, err := artifact.ReadJSON[artifact.Session](ctx, store, c.layout.File(c.claim))
	if errors.Is(err, artifact.ErrNotFound) {
		// The claim of a run has the same fields.
		c.layout, c.claim = artifact.InPipeline(id), pipelineClaim
		session, err = artifact.ReadJSON[artifact.Session](ctx, store, c.layout.File(c.claim))
	}
	if errors.Is(err, artifact.ErrNotFound) {
		return result{}, fmt.Errorf("%w: %w", errNoSession, err)
	}
	if err != nil {
		return result{}, err
	}
	if err := checkDir(dir); err != nil {
		return result{}, err
	}
	if err := c.open(ctx, dir, session); err != nil {
		return result{}, fmt.Errorf("copy into %s: %w", dir, err)
	}
	defer c.close()
	c.result = result{SessionID: id, Dir: c.dir}
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
	return c.result, err
}

// open opens or creates the directory, which must be empty or an earlier copy.
func (c *copier) open(ctx context.Context, dir string, session artifact.Session) (err error) {
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

// checkClaims refuses a directory that holds another session or run.
func (c *copier) checkClaims(ctx context.Context, session artifact.Session) error {
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
		return err
	case existing.Owner != session.Owner:
		return fmt.Errorf("it holds another session (%s); name a new or an empty directory", existing.WorkflowID)
	}
	return nil
}

func (c *copier) close() {
	_ = c.root.Remove(artifact.TempDir) // not empty if another pull is running
	_ = errors.Join(c.target.Close(), c.root.Close())
}

// internal are the directories that readers do not need.
var internal = []string{"blobs", "journal", "claims"}

// list returns the keys of the session's files relative to its root, the claim
// first.
func (c *copier) list(ctx context.Context) ([]string, error) {
	names := []string{c.claim}
	for key, err := range c.store.List(ctx, c.layout.Root()) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", c.store.URL(c.layout.Root()), err)
		}
		name := strings.TrimPrefix(key, c.layout.Root())
		top, _, _ := strings.Cut(name, "/")
		if name != c.claim && !slices.Contains(internal, top) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (c *copier) copyAll(ctx context.Context, names []string, progress func(done, total int)) error {
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
			progress(done, len(names))
			return nil
		})
	}
	return group.Wait()
}

// copy copies one file, unless it is a write-once file that exists, and is then whole.
func (c *copier) copy(ctx context.Context, name string) error {
	if !isReplaced(name) {
		if exists, err := c.target.Exists(ctx, name); err != nil || exists {
			return err
		}
	}
	return c.fetch(ctx, name)
}

// isReplaced reports a file that changes while the session runs.
func isReplaced(name string) bool {
	return name == "status.json" || name == "events.jsonl" || name == "result.json" || strings.HasPrefix(name, "final/") || isLastAction(name)
}

func isLastAction(name string) bool {
	return (strings.HasPrefix(name, "agents/") || strings.HasPrefix(name, "steps/")) &&
		strings.Count(name, "/") == 2 && strings.HasSuffix(name, "/last_action.json")
}

// fetch copies one file and replaces an existing one.
func (c *copier) fetch(ctx context.Context, name string) error {
	n, err := c.transfer(ctx, name)
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Copied++
	c.result.Bytes += n
	return nil
}

func (c *copier) transfer(ctx context.Context, name string) (int64, error) {
	if isLastAction(name) {
		return c.transferLastAction(ctx, name)
	}
	body, err := c.store.Open(ctx, c.layout.File(name))
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }()
	return c.target.PutStream(ctx, name, body)
}

// transferLastAction copies a last_action.json with the workspace path in this directory.
func (c *copier) transferLastAction(ctx context.Context, name string) (int64, error) {
	last, err := artifact.ReadJSON[artifact.LastAction](ctx, c.store, c.layout.File(name))
	if err != nil {
		return 0, err
	}
	if last.WorkspacePath != nil {
		workspace := path.Dir(name) + "/workspace" // of a pipeline's step
		if top, agent, _ := strings.Cut(path.Dir(name), "/"); top == "agents" {
			workspace = artifact.Layout{}.Step(agent, last.StepNumber, "workspace")
		}
		local := c.target.URL(workspace)
		last.WorkspacePath = &local
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
