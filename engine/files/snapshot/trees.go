package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
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
	r := &reader{store: t.store, hash: hash, turn: make(chan struct{}, 1)}
	b, err = artifact.NewBase(hash, m, func(ctx context.Context, f artifact.File) (io.ReadCloser, error) {
		if t.dir != "" {
			if file, err := os.Open(filepath.Join(t.treePath(hash), f.Path)); err == nil {
				return file, nil
			}
		}
		return r.openContent(ctx, f)
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

func (t *Trees) treePath(hash string) string { return filepath.Join(t.dir, hash) }

// Place creates dir, which must not exist, with the files of a base. The files share their
// blocks with the unpacked tree where the file system can; none is a hard link.
func (t *Trees) Place(ctx context.Context, b *artifact.Base, dir string) error {
	if b == nil {
		return os.Mkdir(dir, 0o755)
	}
	err := t.placeFiles(ctx, b, b.Manifest(), dir)
	if err != nil {
		return fmt.Errorf("copy base %s to %s: %w", b.Hash(), dir, err)
	}
	return nil
}

func (t *Trees) placeFiles(ctx context.Context, b *artifact.Base, m artifact.Manifest, dir string) error {
	if t.dir == "" {
		return unpackTree(ctx, t.store, b.Hash(), m, dir)
	}
	if err := t.ensureUnpacked(ctx, b); err != nil {
		return err
	}
	err := t.copySerially(ctx, m, t.treePath(b.Hash()), dir)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The tree was evicted, or something has changed it. Another user's tree cannot be removed.
	_, _ = removeUnused(t.treePath(b.Hash()))
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return unpackTree(ctx, t.store, b.Hash(), m, dir)
}

// ensureUnpacked unpacks a base unless its tree exists. Concurrent calls for one base wait for each
// other.
func (t *Trees) ensureUnpacked(ctx context.Context, b *artifact.Base) error {
	defer t.lockTree(b.Hash())()
	return t.unpackOnce(ctx, b)
}

// lockTree waits for other users of a tree in this process.
func (t *Trees) lockTree(hash string) (unlock func()) {
	t.mu.Lock()
	making := t.making[hash]
	if making == nil {
		making = &sync.Mutex{}
		t.making[hash] = making
	}
	t.mu.Unlock()
	making.Lock()
	return making.Unlock
}

// unpackOnce is ensureUnpacked for the holder of the lock.
func (t *Trees) unpackOnce(ctx context.Context, b *artifact.Base) error {
	return t.makeOnce(b.Hash(), func(dir string) error { return unpackTree(ctx, t.store, b.Hash(), b.Manifest(), dir) })
}

// makeOnce makes the tree of a hash unless it exists. fill makes the directory.
func (t *Trees) makeOnce(hash string, fill func(dir string) error) error {
	now := time.Now()
	if os.Chtimes(t.treePath(hash), now, now) == nil { // evictUnused removes the least recently used
		return nil
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(t.dir, unpacking)
	if err != nil {
		return err
	}
	defer func() { _ = filelock.RemoveTree(temp) }()
	whole := filepath.Join(temp, "tree")
	if err := fill(whole); err != nil {
		return err
	}
	if err := os.Rename(whole, t.treePath(hash)); err != nil && !errors.Is(err, fs.ErrExist) && !isDir(t.treePath(hash)) {
		return err
	}
	t.evictUnused(hash)
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// unpacking begins the names of unfinished trees, which are removed once they are old.
const unpacking = "unpacking-"

// evictUnused removes leftovers of killed processes, then the least recently used trees until the
// rest is within the maximum. It keeps the tree with the given hash and those that are mounted.
func (t *Trees) evictUnused(hash string) {
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
		if _, err := Parse(Reference(e.Name())); err != nil {
			if time.Since(info.ModTime()) > 24*time.Hour {
				_ = filelock.RemoveTree(path)
			}
			continue
		}
		size := SizeOf(path)
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

// SizeOf returns the size of the files in a directory, without those that cannot be read.
func SizeOf(dir string) (size int64) {
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

// The prefixes of a base's keys.
const (
	Root      = "base/"
	manifests = Root + "manifests/sha256/"
	indexes   = Root + "indexes/"
	packs     = Root + "packs/"
	blobs     = Root + "blobs/"
	uses      = Root + "used/"
)

func manifestKey(hash string) string { return manifests + hash + ".json" }
func indexKey(hash string) string    { return indexes + hash + ".json" }

// scheme precedes the hash in a reference.
const scheme = "sha256:"

// Reference returns the name of a base in workflow inputs: sha256:<hex>.
func Reference(hash string) string { return scheme + hash }

// Parse returns the hash in a reference.
func Parse(reference string) (hash string, err error) {
	hash, ok := strings.CutPrefix(reference, scheme)
	if sum, err := hex.DecodeString(hash); !ok || err != nil || len(sum) != sha256.Size || strings.ToLower(hash) != hash {
		return "", fmt.Errorf("%q is not a reference of the form sha256:<64 lower-case hex digits>: `conclave upload DIR` prints one", reference)
	}
	return hash, nil
}

// MissingError reports a base that the store does not have.
type MissingError struct{ Hash string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the store has no base %s: upload the directory again with `conclave upload DIR`, to the bucket and prefix of the workers", Reference(e.Hash))
}

// Open reads the manifest of a base, or fails with a *MissingError. Contents are read from
// the store when they are needed.
func Open(ctx context.Context, store artifact.Store, hash string) (*artifact.Base, error) {
	m, err := loadManifest(ctx, store, hash)
	if err != nil {
		return nil, err
	}
	r := &reader{store: store, hash: hash, turn: make(chan struct{}, 1)}
	return artifact.NewBase(hash, m, r.openContent)
}

func loadManifest(ctx context.Context, store artifact.Store, hash string) (artifact.Manifest, error) {
	var m artifact.Manifest
	data, err := store.Get(ctx, manifestKey(hash))
	if errors.Is(err, artifact.ErrNotFound) {
		return m, &MissingError{Hash: hash}
	}
	if err != nil {
		return m, fmt.Errorf("read base %s: %w", hash, err)
	}
	if artifact.SumOf(data) != hash {
		return m, fmt.Errorf("read base %s: %w", hash, artifact.ErrCorrupt)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, &artifact.MalformedError{Key: manifestKey(hash), Err: err}
	}
	return m, nil
}

func encodeManifest(m artifact.Manifest) (data []byte, hash string) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(m) // encoding of strings and numbers cannot fail
	return b.Bytes(), artifact.SumOf(b.Bytes())
}

// Use records that a session starts from a base, so that Sweep keeps the base for a day. The
// caller must have named the base in a session. It fails with a *MissingError if the store
// does not have the base.
func Use(ctx context.Context, store artifact.Store, hash string, now func() time.Time) error {
	release, err := holdSweeps(ctx, store, now)
	if err != nil {
		return err
	}
	defer release()
	return markUsed(ctx, store, hash, now())
}

func markUsed(ctx context.Context, store artifact.Store, hash string, now time.Time) error {
	if err := artifact.PutJSON(ctx, store, uses+hash+".json", map[string]time.Time{"used_at": artifact.Timestamp(now)}); err != nil {
		return fmt.Errorf("record the use of base %s: %w", hash, err)
	}
	found, err := store.Exists(ctx, manifestKey(hash))
	if err != nil {
		return fmt.Errorf("look for base %s: %w", hash, err)
	}
	if !found {
		return &MissingError{Hash: hash}
	}
	return nil
}

// reader reads contents of a base from its packs and blobs.
type reader struct {
	store artifact.Store
	hash  string

	turn chan struct{}    // capacity 1: the index is being read
	at   map[string]place // places of contents in packs; nil until the index is read
}

// place is the position of a content in a pack.
type place struct {
	pack   string
	offset int64
}

func (r *reader) openContent(ctx context.Context, f artifact.File) (io.ReadCloser, error) {
	places, err := r.loadPlaces(ctx)
	if err != nil {
		return nil, err
	}
	at, packed := places[f.SHA256]
	if !packed {
		return r.store.Open(ctx, blobs+f.SHA256)
	}
	body, err := r.store.Open(ctx, packs+at.pack)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, body, at.offset); err != nil {
		return nil, errors.Join(fmt.Errorf("read pack %s: %w", at.pack, err), body.Close())
	}
	return section{io.LimitReader(body, f.Size), body}, nil
}

// section is part of a stream.
type section struct {
	io.Reader
	io.Closer
}

// loadPlaces returns the positions of the contents in packs. It reads the index once.
func (r *reader) loadPlaces(ctx context.Context) (map[string]place, error) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.at != nil {
		return r.at, nil
	}
	ix, err := readIndex(ctx, r.store, r.hash)
	if err != nil {
		return nil, err
	}
	r.at = ix.placesOf()
	return r.at, nil
}
