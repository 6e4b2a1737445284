package base

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/scratch"
)

// Trees keeps bases on this machine, unpacked, and copies or mounts them in workspaces. Processes
// may share the directory, which must be as private as the store: contents are not verified.
type Trees struct {
	store artifact.Store
	dir   string // empty to unpack every copy from the store
	max   int64  // bytes of the directory

	mu     sync.Mutex
	bases  map[string]*artifact.Base // bases read before
	making map[string]*sync.Mutex    // locks of the trees
	spares []*Loan                   // copies given back, the oldest first

	copying chan struct{} // held while a copy is made, so that the first of several copies is ready earlier
}

// maxBases is the number of manifests kept in memory.
const maxBases = 8

// NewTrees returns the trees in dir, which keeps at most maxBytes. If dir is empty, nothing
// is kept.
func NewTrees(store artifact.Store, dir string, maxBytes int64) *Trees {
	return &Trees{store: store, dir: dir, max: maxBytes, bases: map[string]*artifact.Base{}, making: map[string]*sync.Mutex{}, copying: make(chan struct{}, 1)}
}

// Open returns a base by its hash, or nil for an empty hash. Its contents are read from the
// unpacked tree once there is one.
func (t *Trees) Open(ctx context.Context, hash string) (*artifact.Base, error) {
	if hash == "" {
		return nil, nil
	}
	t.mu.Lock()
	b := t.bases[hash]
	t.mu.Unlock()
	if b != nil {
		return b, nil
	}
	m, err := loadManifest(ctx, t.store, hash)
	if err != nil {
		return nil, err
	}
	r := &reader{store: t.store, hash: hash}
	b, err = artifact.NewBase(hash, m, func(ctx context.Context, f artifact.File) (io.ReadCloser, error) {
		if t.dir != "" {
			if file, err := os.Open(filepath.Join(t.tree(hash), f.Path)); err == nil {
				return file, nil
			}
		}
		return r.open(ctx, f)
	})
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.bases) >= maxBases {
		clear(t.bases)
	}
	t.bases[hash] = b
	return b, nil
}

func (t *Trees) tree(hash string) string { return filepath.Join(t.dir, hash) }

// Place creates dir, which must not exist, with the files of a base. The files share their
// blocks with the unpacked tree where the file system can; none is a hard link.
func (t *Trees) Place(ctx context.Context, b *artifact.Base, dir string) error {
	if b == nil {
		return os.Mkdir(dir, 0o755)
	}
	err := t.place(ctx, b, b.Manifest(), dir)
	if err != nil {
		return fmt.Errorf("copy base %s to %s: %w", b.Hash(), dir, err)
	}
	return nil
}

// place creates dir with the files of a base, whose modes are those of m.
func (t *Trees) place(ctx context.Context, b *artifact.Base, m artifact.Manifest, dir string) error {
	if t.dir == "" {
		return unpack(ctx, t.store, b.Hash(), m, dir)
	}
	if err := t.keep(ctx, b); err != nil {
		return err
	}
	err := t.copyOne(ctx, m, t.tree(b.Hash()), dir)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The tree was evicted, or something has changed it. Another user's tree cannot be removed.
	_, _ = removeUnused(t.tree(b.Hash()))
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return unpack(ctx, t.store, b.Hash(), m, dir)
}

// keep unpacks a base unless its tree exists. Concurrent calls for one base wait for each
// other.
func (t *Trees) keep(ctx context.Context, b *artifact.Base) error {
	defer t.lock(b)()
	return t.unpackOnce(ctx, b)
}

// lock waits for other users of a base's tree in this process.
func (t *Trees) lock(b *artifact.Base) (unlock func()) {
	t.mu.Lock()
	making := t.making[b.Hash()]
	if making == nil {
		making = &sync.Mutex{}
		t.making[b.Hash()] = making
	}
	t.mu.Unlock()
	making.Lock()
	return making.Unlock
}

// unpackOnce is keep for the holder of the lock.
func (t *Trees) unpackOnce(ctx context.Context, b *artifact.Base) error {
	now := time.Now()
	if os.Chtimes(t.tree(b.Hash()), now, now) == nil { // evict removes the least recently used
		return nil
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(t.dir, unpacking)
	if err != nil {
		return err
	}
	defer func() { _ = scratch.RemoveTree(temp) }()
	whole := filepath.Join(temp, "tree")
	if err := unpack(ctx, t.store, b.Hash(), b.Manifest(), whole); err != nil {
		return err
	}
	if err := os.Rename(whole, t.tree(b.Hash())); err != nil && !errors.Is(err, fs.ErrExist) && !isDir(t.tree(b.Hash())) {
		return err
	}
	t.evict(b.Hash())
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// unpacking begins the names of unfinished trees, which are removed once they are old.
const unpacking = "unpacking-"

// evict removes leftovers of killed processes, then the least recently used trees until the
// rest is within the maximum. It keeps the tree with the given hash and those that are mounted.
func (t *Trees) evict(hash string) {
	type kept struct {
		path string
		size int64
		used time.Time
	}
	var trees []kept
	var all int64
	entries, _ := os.ReadDir(t.dir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() {
			continue
		}
		path := filepath.Join(t.dir, e.Name())
		if _, err := artifactHash(e.Name()); err != nil {
			if time.Since(info.ModTime()) > 24*time.Hour {
				_ = scratch.RemoveTree(path)
			}
			continue
		}
		size := sizeOf(path)
		all += size
		if e.Name() != hash {
			trees = append(trees, kept{path, size, info.ModTime()})
		}
	}
	slices.SortFunc(trees, func(a, b kept) int { return cmp.Compare(a.used.UnixNano(), b.used.UnixNano()) })
	for _, tree := range trees {
		if all <= t.max {
			return
		}
		if removed, err := removeUnused(tree.path); removed && err == nil {
			all -= tree.size
		}
	}
}

func artifactHash(name string) (string, error) { return Parse(Reference(name)) }

func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // unreadable files are not counted
		}
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}
