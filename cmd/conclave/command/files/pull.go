package files

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

	"conclave/cmd/conclave/run/record"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/snapshot"
)

// maxCopies is the maximum number of files copied at the same time.
const maxCopies = 8

// pullResult is the JSON output of a pull.
type pullResult struct {
	SessionID string `json:"session_id"` // ID of the run; of a scenario's SLUG/RUN_ID
	Dir       string `json:"dir"`        // absolute path
	Status    string `json:"status"`
	Files     int    `json:"files"`  // number of the run's files
	Copied    int    `json:"copied"` // number of files copied by this pull
	Bytes     int64  `json:"bytes"`  // copied by this pull

	// Continues is the ID of the session that this one continues.
	Continues string `json:"continues,omitempty"`

	Page string `json:"page,omitempty"` // path of index.html; empty without one

	// LeftOut are the files that are damaged or missing in the store, or have reserved names.
	LeftOut []problem `json:"left_out"`

	// Verified is nil unless the copy was verified.
	Verified *verification `json:"verified,omitempty"`

	run record.Run
}

// copyClaim is the document that tells the copies of runs apart: the claim of a session or of a pipeline's
// run, and the result of a scenario's.
type copyClaim struct {
	artifact.Session
	RunID    string `json:"run_id"`
	Scenario string `json:"scenario"`
}

// copier copies a run of any kind.
type copier struct {
	run    record.Run
	claim  *copyClaim // nil if it is unreadable
	strict bool       // a file that cannot be read is an error, unless it is gone
	target *artifact.Dir
	root   *os.Root // root of target
	dir    string   // absolute path of target

	copied map[string]bool // files copied before the list was read
	names  []string        // keys of the files, relative to the root of the run

	base  *artifact.Base  // base of the run; nil without one
	trees *snapshot.Trees // trees unpacked in the cache
	cache string          // temporary directory; empty without a base

	mu     sync.Mutex
	result pullResult
}

// copyRun copies the run with an ID to dir, and verifies the copy if verify is set. It copies everything
// except blobs, journals and claims, and calls progress after each file, never concurrently. The result names
// unreadable files, which are left out. If the store has no such run, the error is record.ErrNone.
func copyRun(ctx context.Context, store artifact.Store, id, dir string, verify bool, progress func(done, total int)) (pullResult, error) {
	run, err := record.Find(ctx, store, id)
	c := &copier{run: run, result: pullResult{SessionID: run.ID, LeftOut: []problem{}, run: run}}
	if err != nil {
		return c.result, err
	}
	if err := c.readClaim(ctx); err != nil {
		return c.result, err
	}
	if err := c.openDir(dir); err != nil {
		return c.result, fmt.Errorf("copy into %s: %w", dir, err)
	}
	defer c.close()
	if err := c.checkDir(ctx); err != nil {
		return c.result, fmt.Errorf("copy into %s: %w", dir, err)
	}
	err = c.copyFiles(ctx, progress)
	if err == nil && verify {
		c.result.Verified, err = c.verifyCopy(ctx)
	}
	slices.SortFunc(c.result.LeftOut, func(a, b problem) int { return cmp.Compare(a.Path, b.Path) })
	return c.result, err
}

// CopyFiles copies those files of a run that want accepts to dir, except for write-once files that dir
// has. A file that is gone is left out; any other that cannot be read is an error.
func CopyFiles(ctx context.Context, run record.Run, dir string, want func(name string) bool) error {
	c := &copier{run: run, strict: true}
	if err := c.openDir(dir); err != nil {
		return fmt.Errorf("copy into %s: %w", dir, err)
	}
	defer c.close()
	names, err := c.listNames(ctx)
	if err != nil {
		return err
	}
	c.names = slices.DeleteFunc(names, func(name string) bool { return !want(name) })
	return c.copyListed(ctx, func(int, int) {})
}

func (c *copier) copyFiles(ctx context.Context, progress func(done, total int)) (err error) {
	if err := c.copyRecords(ctx); err != nil {
		return err
	}
	if err := c.openBase(ctx); err != nil {
		return err
	}
	if c.names, err = c.listNames(ctx); err != nil {
		return err
	}
	c.result.Files = len(c.names)
	if err := c.copyListed(ctx, progress); err != nil {
		return err
	}
	for _, name := range c.names {
		if err := mendTranscript(ctx, c, name); err != nil {
			return err
		}
	}
	if err := c.restoreWorkspaces(ctx); err != nil {
		return err
	}
	state, _ := artifact.ReadJSON[struct{ Status string }](ctx, c.target, c.run.Kind.Status) // none before the first record
	c.result.Status = state.Status
	return c.writePage(ctx)
}

func (c *copier) claimName() string {
	if c.run.Kind == record.Scenarios {
		return c.run.Kind.Status // the claims of its executions are not copied
	}
	return c.run.Kind.Claim
}

// readClaim reads the claim, which may be unreadable although the store has other files of the run.
func (c *copier) readClaim(ctx context.Context) error {
	read, err := artifact.ReadJSON[copyClaim](ctx, c.run.Store, c.run.Layout.File(c.claimName()))
	if err != nil {
		return c.leaveOut(ctx, c.claimName(), err)
	}
	c.claim, c.result.Continues = &read, read.Continues
	return nil
}

func (c *copier) openDir(dir string) (err error) {
	if c.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	c.result.Dir = c.dir
	if c.target, err = artifact.NewDir(c.dir); err != nil {
		return err
	}
	if c.root, err = os.OpenRoot(c.dir); err != nil {
		return errors.Join(err, c.target.Close())
	}
	return nil
}

// checkPlace refuses a directory that is neither new nor empty nor a copy of some run, before anything
// starts.
func checkPlace(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	claims := []string{record.Sessions.Claim, record.Pipelines.Claim, record.Scenarios.Status}
	if err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return slices.Contains(claims, e.Name()) }) {
		err = errors.New("it is not empty and holds no session")
	}
	if err != nil {
		return fmt.Errorf("copy into %s: %w; name a new or an empty directory", dir, err)
	}
	return nil
}

// checkDir refuses a directory with anything else than an earlier copy of the run.
func (c *copier) checkDir(ctx context.Context) error {
	if entries, err := fs.ReadDir(c.root.FS(), "."); err != nil || len(entries) == 0 {
		return err
	}
	existing, err := artifact.ReadJSON[copyClaim](ctx, c.target, c.claimName())
	switch {
	case c.claim == nil:
		return fmt.Errorf("it is not empty, and without a %s in the store an earlier copy cannot be told from another session's; name a new or an empty directory", c.claimName())
	case errors.Is(err, artifact.ErrNotFound):
		return fmt.Errorf("it is not empty and holds no %s; name a new or an empty directory", c.run.Kind.Noun)
	case err != nil:
		return fmt.Errorf("its %s is not one of conclave's (%w); name a new or an empty directory", c.claimName(), causeWithoutPath(err))
	case existing.Owner != c.claim.Owner || existing.RunID != c.claim.RunID || existing.Scenario != c.claim.Scenario:
		return fmt.Errorf("it holds another %s (%s); name a new or an empty directory", c.run.Kind.Noun, cmp.Or(existing.WorkflowID, existing.RunID))
	}
	return nil
}

func (c *copier) close() {
	if c.cache != "" {
		_ = filelock.RemoveTree(c.cache)
	}
	_ = c.root.Remove(artifact.TempDir) // not empty if another pull is running
	_ = errors.Join(c.target.Close(), c.root.Close())
}

// internalDirs are the directories that are not copied.
var internalDirs = []string{"blobs", "journal", "claims"}

// errDeleting reports a session whose files are being deleted.
var errDeleting = errors.New("it is being deleted")

// listNames returns the keys of the run's files relative to its root. It lists the ledger first, so that the
// list has every step that the ledger counts, even while the session runs.
func (c *copier) listNames(ctx context.Context) ([]string, error) {
	var names []string
	listed := map[string]bool{}
	for _, prefix := range []string{c.run.Layout.File("ledger/"), c.run.Layout.Root()} {
		for key, err := range c.run.Store.List(ctx, prefix) {
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", c.run.Store.URL(prefix), err)
			}
			name := strings.TrimPrefix(key, c.run.Layout.Root())
			top, _, _ := strings.Cut(name, "/")
			if name == artifact.Deleted {
				return nil, errDeleting
			}
			if !listed[name] && !slices.Contains(internalDirs, top) {
				listed[name] = true
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// copyRecords copies the claim, by which a later pull recognizes the directory, the status and the events. It
// is called before listNames, so that the list has every file that they mention, even while the run goes on.
func (c *copier) copyRecords(ctx context.Context) error {
	c.copied = map[string]bool{}
	for _, name := range []string{c.claimName(), "status.json", "events.jsonl"} {
		if c.isLeftOut(name) {
			continue
		}
		there, err := c.run.Store.Exists(ctx, c.run.Layout.File(name))
		if err != nil {
			return err
		}
		if there {
			if err := c.copyFile(ctx, name); err != nil {
				return err
			}
			c.copied[name] = true
		}
	}
	return nil
}

func (c *copier) copyListed(ctx context.Context, progress func(done, total int)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxCopies)
	done := len(c.copied)
	for _, name := range c.names {
		if c.copied[name] {
			continue
		}
		group.Go(func() error {
			if err := c.copyFile(ctx, name); err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			done++
			progress(done, len(c.names))
			return nil
		})
	}
	return group.Wait()
}

// baseManifest is the file, in a copy, with the manifest of the session's base. The
// hashes of committed manifests depend on it.
const baseManifest = "base.json"

// openBase reads the base of the run, if it has one. A base that the store lacks is left out.
func (c *copier) openBase(ctx context.Context) (err error) {
	if c.claim == nil || c.claim.Base == "" {
		return nil
	}
	hash, err := snapshot.Parse(c.claim.Base)
	if err != nil {
		return c.leaveOut(ctx, baseManifest, &artifact.MalformedError{Key: c.claimName(), Err: err})
	}
	if c.cache, err = os.MkdirTemp("", "conclave-pull-"); err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	c.trees = snapshot.NewTrees(c.run.Store, c.cache, artifact.MaxBaseBytes)
	c.base, err = c.trees.Open(ctx, hash)
	if _, missing := errors.AsType[*snapshot.MissingError](err); missing {
		return c.leaveOut(ctx, baseManifest, fmt.Errorf("%w: %w", err, artifact.ErrNotFound))
	}
	if err != nil {
		return c.leaveOut(ctx, baseManifest, err)
	}
	c.run.Layout = c.run.Layout.On(c.base)
	return artifact.PutJSON(ctx, c.target, baseManifest, c.base.Manifest())
}

// workspaceManifest returns the files of a step's workspace. For a session with a base it completes the
// stored manifest, except that of the final answer, which has only the changed files.
func (c *copier) workspaceManifest(ctx context.Context, name string) (artifact.Manifest, error) {
	change, err := artifact.ReadJSON[artifact.Change](ctx, c.target, name)
	if err != nil {
		return artifact.Manifest{}, err
	}
	if change.Base == "" || strings.HasPrefix(name, "final/") {
		m := artifact.Manifest{Files: change.Files}
		return m, m.Check()
	}
	if err := change.Check(c.base); err != nil {
		return artifact.Manifest{}, err
	}
	tree := change.Tree(c.base)
	if err := artifact.PutJSON(ctx, c.target, name, tree); err != nil {
		return tree, err
	}
	return tree, c.placeBase(ctx, workspaceOf(name), change)
}

// placeBase fills a new directory with the files of the base that a step has not changed.
func (c *copier) placeBase(ctx context.Context, dir string, change artifact.Change) error {
	dir = strings.TrimSuffix(dir, "/")
	if _, err := c.root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err // every file is compared with the manifest
	}
	if err := c.trees.Place(ctx, c.base, c.target.URL(dir)); err != nil {
		return err
	}
	for _, name := range change.Removed {
		if err := c.root.Remove(dir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
