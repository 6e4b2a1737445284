package snapshot

import (
	"bytes"
	"cmp"
	"context"
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

	"golang.org/x/sync/errgroup"

	"conclave/engine/files/artifact"
)

// writer collects the index of a base while its contents are stored.
type writer struct {
	store artifact.Store
	now   func() time.Time
	sent  func(bytes int64) // nil, or called after each write

	known  contents
	packed packList
}

func (w *writer) reuseContents(ctx context.Context, hash string, m artifact.Manifest) error {
	ix, err := readIndex(ctx, w.store, hash)
	if err != nil {
		return err
	}
	old, err := loadManifest(ctx, w.store, hash)
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, f := range m.Files {
		needed[f.SHA256] = true
	}
	kept, stored := ix.usefulPacks(needed)
	w.packed.addPacks(kept...)
	places := ix.placesOf()
	for _, f := range old.Files {
		if _, packed := places[f.SHA256]; !packed && f.SHA256 != "" {
			stored[f.SHA256] = true
		}
	}
	for sum := range stored {
		w.known.addMissing(sum)
	}
	return nil
}

func (w *writer) storeBlob(ctx context.Context, sum string, body io.ReadSeeker) error {
	size, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = w.store.Put(ctx, blobs+sum, body)
	}
	if err != nil {
		return fmt.Errorf("store content %s: %w", sum, err)
	}
	w.countSent(size)
	return nil
}

func (w *writer) storePack(ctx context.Context, p *packer) error {
	size := int64(p.body.Len())
	stored, err := p.storePack(ctx, w.store)
	if err != nil || stored.Pack == "" {
		return err
	}
	w.packed.addPacks(stored)
	w.countSent(size)
	return nil
}

func (w *writer) countSent(n int64) {
	if w.sent != nil {
		w.sent(n)
	}
}

// writeTree writes the index and the manifest of a tree whose contents are stored, and returns its hash.
func (w *writer) writeTree(ctx context.Context, m artifact.Manifest) (string, error) {
	data, hash := encodeManifest(m)
	if err := artifact.PutJSON(ctx, w.store, indexKey(hash), index{Format: indexFormat, Packs: w.packed.sortedByName()}); err != nil {
		return "", fmt.Errorf("store the index of base %s: %w", hash, err)
	}
	if err := w.store.Put(ctx, manifestKey(hash), bytes.NewReader(data)); err != nil {
		return "", fmt.Errorf("store base %s: %w", hash, err)
	}
	return hash, markUsed(ctx, w.store, hash, w.now())
}

// contents is a set of hashes that goroutines share.
type contents struct{ m sync.Map }

func (c *contents) hasSum(sum string) bool {
	_, ok := c.m.Load(sum)
	return ok
}

func (c *contents) addMissing(sum string) bool {
	_, known := c.m.LoadOrStore(sum, true)
	return !known
}

// packList is a list of packs that goroutines share.
type packList struct {
	mu    sync.Mutex
	packs []packIndex
}

func (l *packList) addPacks(packs ...packIndex) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.packs = append(l.packs, packs...)
}

// sortedByName returns the packs by name, never nil.
func (l *packList) sortedByName() []packIndex {
	l.mu.Lock()
	defer l.mu.Unlock()
	packs := append([]packIndex{}, l.packs...)
	slices.SortFunc(packs, func(a, b packIndex) int { return cmp.Compare(a.Pack, b.Pack) })
	return packs
}

// Promote stores the tree of a session as a base and returns its hash. It copies only
// contents that the layout's base does not have.
func Promote(ctx context.Context, store artifact.Store, layout artifact.Layout, m artifact.Manifest, now func() time.Time) (hash string, err error) {
	release, err := holdSweeps(ctx, store, now)
	if err != nil {
		return "", err
	}
	defer release()
	w := &writer{store: store, now: now}
	if old := layout.Base(); old != nil {
		if err := w.reuseContents(ctx, old.Hash(), m); err != nil {
			return "", err
		}
	}
	p := &packer{}
	for _, f := range m.Files {
		if f.SHA256 == "" || w.known.hasSum(f.SHA256) {
			continue
		}
		if err := w.copyContent(ctx, layout, f, p); err != nil {
			return "", fmt.Errorf("make a base of %q: %w", f.Path, err)
		}
		if p.body.Len() >= packBytes {
			if err := w.storePack(ctx, p); err != nil {
				return "", err
			}
			p = &packer{}
		}
	}
	if err := w.storePack(ctx, p); err != nil {
		return "", err
	}
	return w.writeTree(ctx, m)
}

// copyContent adds a content of a session to a pack, or stores it as a blob.
func (w *writer) copyContent(ctx context.Context, layout artifact.Layout, f artifact.File, p *packer) error {
	content, err := artifact.ReadFile(ctx, w.store, layout, f)
	if err != nil {
		return err
	}
	if !w.known.addMissing(f.SHA256) {
		return nil
	}
	if f.Size <= maxPacked {
		p.addContent(f.SHA256, content)
		return nil
	}
	return w.storeBlob(ctx, f.SHA256, bytes.NewReader(content))
}

const (
	maxPacked = 256 << 10 // bytes of a file in a pack; larger ones are blobs
	packBytes = 8 << 20   // bytes of a full pack
)

// index lists the packs that have the contents of a base.
type index struct {
	Format int         `json:"format"`
	Packs  []packIndex `json:"packs"`
}

// indexFormat is the newest format of an index.
const indexFormat = 1

// packIndex lists the contents of a pack in their order.
type packIndex struct {
	Pack  string   `json:"pack"`  // hash of the contents' hashes
	Files []string `json:"files"` // hashes of the contents
	Sizes []int64  `json:"sizes"` // sizes in bytes
}

func readIndex(ctx context.Context, store artifact.Store, hash string) (index, error) {
	ix, err := artifact.ReadJSON[index](ctx, store, indexKey(hash))
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return ix, &MissingError{Hash: hash}
	case err != nil:
		return ix, fmt.Errorf("read the index of base %s: %w", hash, err)
	case ix.Format > indexFormat:
		return ix, fmt.Errorf("the index of base %s has format %d, this version reads up to %d: use a newer version", hash, ix.Format, indexFormat)
	}
	for _, p := range ix.Packs {
		if len(p.Files) != len(p.Sizes) {
			return ix, &artifact.MalformedError{Key: indexKey(hash), Err: fmt.Errorf("pack %s has %d files and %d sizes", p.Pack, len(p.Files), len(p.Sizes))}
		}
	}
	return ix, nil
}

func (ix index) placesOf() map[string]place {
	at := map[string]place{}
	for _, p := range ix.Packs {
		var offset int64
		for i, sum := range p.Files {
			at[sum] = place{pack: p.Pack, offset: offset}
			offset += p.Sizes[i]
		}
	}
	return at
}

// usefulPacks returns the packs of which at least half of the bytes belong to a tree, and their contents.
func (ix index) usefulPacks(needed map[string]bool) (kept []packIndex, stored map[string]bool) {
	stored = map[string]bool{}
	for _, p := range ix.Packs {
		var live, all int64
		for i, sum := range p.Files {
			all += p.Sizes[i]
			if needed[sum] {
				live += p.Sizes[i]
			}
		}
		if 2*live < all || all == 0 {
			continue
		}
		kept = append(kept, p)
		for _, sum := range p.Files {
			stored[sum] = true
		}
	}
	return kept, stored
}

// packer collects contents for one pack.
type packer struct {
	body bytes.Buffer
	packIndex
}

func (p *packer) addContent(sum string, content []byte) {
	p.body.Write(content)
	p.Files, p.Sizes = append(p.Files, sum), append(p.Sizes, int64(len(content)))
}

func (p *packer) storePack(ctx context.Context, store artifact.Store) (packIndex, error) {
	if len(p.Files) == 0 {
		return packIndex{}, nil
	}
	p.Pack = artifact.SumOf([]byte(strings.Join(p.Files, "\n")))
	if err := store.Put(ctx, packs+p.Pack, bytes.NewReader(p.body.Bytes())); err != nil {
		return packIndex{}, fmt.Errorf("store pack %s: %w", p.Pack, err)
	}
	return p.packIndex, nil
}

// unpackTree creates dst with the files of a base from the store. It reads each pack once and
// verifies every content. The modes are those of m.
func unpackTree(ctx context.Context, store artifact.Store, hash string, m artifact.Manifest, dst string) error {
	ix, err := readIndex(ctx, store, hash)
	if err != nil {
		return err
	}
	u := &unpacker{store: store, dst: dst, named: map[string][]artifact.File{}}
	for _, f := range m.Files {
		if isRegular(f) {
			u.named[f.SHA256] = append(u.named[f.SHA256], f)
		}
	}
	return fillDir(ctx, m, dst, func(ctx context.Context) error { return u.writeFiles(ctx, ix) })
}

// unpacker writes the contents of a base.
type unpacker struct {
	store artifact.Store
	dst   string
	named map[string][]artifact.File // files by content
}

func (u *unpacker) writeFiles(ctx context.Context, ix index) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	packed := map[string]bool{}
	for _, p := range ix.Packs {
		var wanted []bool
		for _, sum := range p.Files {
			wanted = append(wanted, u.named[sum] != nil && !packed[sum])
			packed[sum] = true
		}
		group.Go(func() error { return u.writePack(ctx, p, wanted) })
	}
	for sum := range u.named {
		if !packed[sum] {
			group.Go(func() error { return u.writeBlob(ctx, sum) })
		}
	}
	return group.Wait()
}

func (u *unpacker) writePack(ctx context.Context, p packIndex, wanted []bool) error {
	body, err := u.store.Open(ctx, packs+p.Pack)
	if err != nil {
		return fmt.Errorf("read pack %s: %w", p.Pack, err)
	}
	defer body.Close()
	for i, sum := range p.Files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if !wanted[i] {
			_, err = io.CopyN(io.Discard, body, p.Sizes[i])
		} else {
			err = u.writePacked(body, sum, p.Sizes[i])
		}
		if err != nil {
			return fmt.Errorf("read pack %s: %w", p.Pack, err)
		}
	}
	return nil
}

func (u *unpacker) writePacked(body io.Reader, sum string, size int64) error {
	if size > maxPacked {
		return fmt.Errorf("content %s has %d bytes, a pack has at most %d of one: %w", sum, size, maxPacked, artifact.ErrCorrupt)
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(body, content); err != nil {
		return err
	}
	if artifact.SumOf(content) != sum {
		return fmt.Errorf("content %s: %w", sum, artifact.ErrCorrupt)
	}
	for _, f := range u.named[sum] {
		if err := u.writeFile(f, func(to io.Writer) error { _, err := to.Write(content); return err }); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) writeBlob(ctx context.Context, sum string) error {
	for _, f := range u.named[sum] {
		body, err := u.store.Open(ctx, blobs+sum)
		if err != nil {
			return fmt.Errorf("content of %q: %w", f.Path, err)
		}
		err = u.writeFile(f, func(to io.Writer) error { return artifact.CopyVerified(ctx, to, body, f) })
		if err := errors.Join(err, body.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) writeFile(f artifact.File, content func(io.Writer) error) error {
	to, err := os.OpenFile(filepath.Join(u.dst, f.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(content(to), to.Chmod(fs.FileMode(f.Mode)&fs.ModePerm), to.Close())
}
