package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
	"conclave/engine/base"
	"conclave/engine/scratch"
)

// parallel is the maximum number of files copied at the same time.
const parallel = 8

// result is the JSON output of a pull.
type result struct {
	SessionID string `json:"session_id"`
	Dir       string `json:"dir"` // absolute path
	Status    string `json:"status"`
	Files     int    `json:"files"`  // number of the session's files
	Copied    int    `json:"copied"` // number of files copied by this pull
	Bytes     int64  `json:"bytes"`  // copied by this pull

	// Continues is the ID of the session that this one continues.
	Continues string `json:"continues,omitempty"`

	Page string `json:"page,omitempty"` // path of index.html; empty without one

	// LeftOut are the files that are damaged or missing in the store, or have reserved names.
	LeftOut []problem `json:"left_out"`

	// Verified is nil unless the copy was verified.
	Verified *verification `json:"verified,omitempty"`
}

// errNoSession reports that the store has neither a session nor a pipeline run with the ID.
var errNoSession = errors.New("no such session")

// The claims that identify a directory as that of a session or of a pipeline's run.
const (
	sessionClaim  = "session.json"
	pipelineClaim = "pipeline.json"
)

// checkDir refuses a directory that is neither empty nor a copy.
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

// copier copies a session or a pipeline's run.
type copier struct {
	store  artifact.Store
	layout artifact.Layout
	claim  string // sessionClaim or pipelineClaim
	target *artifact.Dir
	root   *os.Root // root of target
	dir    string   // absolute path of target

	copied map[string]bool // files copied before the list was read

	base  *artifact.Base // base of the session; nil without one
	trees *base.Trees    // trees unpacked in the cache
	cache string         // temporary directory; empty without a base

	mu     sync.Mutex
	result result
}

// copySession copies the session with an ID, or else the pipeline run, to dir. It copies
// everything except blobs, journals and claims, and calls progress after each file, never
// concurrently. The result names unreadable files, which are left out. If the store has
// neither a session nor a run, the error is errNoSession.
func copySession(ctx context.Context, store artifact.Store, id, dir string, progress func(done, total int)) (result, error) {
	c := &copier{store: store, result: result{SessionID: id, LeftOut: []problem{}}}
	session, err := c.find(ctx, id)
	if err != nil {
		return c.result, err
	}
	if session != nil {
		c.result.Continues = session.Continues
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
	if err := c.openBase(ctx, session); err != nil {
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
	for _, name := range names {
		if err := mendTranscript(ctx, c, name); err != nil {
			return c.result, err
		}
	}
	err = c.restoreWorkspaces(ctx, names)
	c.result.Status = c.status(ctx)
	if err == nil {
		err = c.writePage(ctx)
	}
	slices.SortFunc(c.result.LeftOut, func(a, b problem) int { return cmp.Compare(a.Path, b.Path) })
	return c.result, err
}

// find locates the session or pipeline run and returns its claim. The claim is nil if it is
// unreadable but the store has other files of the run.
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

// checkClaims refuses a directory with another session or run. Without a claim to compare,
// it refuses any directory that is not empty.
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
	if c.cache != "" {
		_ = scratch.RemoveTree(c.cache)
	}
	_ = c.root.Remove(artifact.TempDir) // not empty if another pull is running
	_ = errors.Join(c.target.Close(), c.root.Close())
}

// internal are the directories that are not copied.
var internal = []string{"blobs", "journal", "claims"}

// errDeleting reports a session whose files are being deleted.
var errDeleting = errors.New("it is being deleted")

// list returns the keys of the session's files relative to its root. It lists the ledger
// first, so that the list has every step that the ledger counts, even while the session
// runs.
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

// copyRecords copies the claim, by which a later pull recognizes the directory, the status
// and the events. It is called before list, so that the list has every file that they
// mention, even while the session runs.
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

// status returns the status of the session in the copy, or "" before the first record.
func (c *copier) status(ctx context.Context) string {
	state, err := artifact.ReadJSON[struct {
		Status string `json:"status"`
	}](ctx, c.target, "status.json")
	if err != nil {
		return ""
	}
	return state.Status
}
