package artifact

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
)

// Base is a tree of files that sessions start from. It is stored once, beside the
// sessions; package base reads and writes it. The nil Base has no files.
type Base struct {
	hash     string
	manifest Manifest
	open     func(context.Context, File) (io.ReadCloser, error)

	byPath    map[string]int  // indexes into the manifest
	bySum     map[string]int  // index of one file with the content
	ancestors map[string]bool // directories of all files
}

// The limits of a base.
const (
	maxBaseFiles     = 100_000
	MaxBaseBytes     = 2 << 30
	MaxBaseFileBytes = 100 << 20
)

// NewBase returns the base with the given hash and manifest; open reads a file's content.
func NewBase(hash string, m Manifest, open func(context.Context, File) (io.ReadCloser, error)) (*Base, error) {
	if err := m.checkCount(maxBaseFiles); err != nil {
		return nil, fmt.Errorf("base %s: %w", hash, err)
	}
	b := &Base{
		hash: hash, manifest: m, open: open,
		byPath: make(map[string]int, len(m.Files)), bySum: make(map[string]int, len(m.Files)), ancestors: map[string]bool{},
	}
	for i, f := range m.Files {
		b.byPath[f.Path] = i
		if f.content() {
			b.bySum[f.SHA256] = i
		}
		for dir := path.Dir(f.Path); dir != "." && !b.ancestors[dir]; dir = path.Dir(dir) {
			b.ancestors[dir] = true
		}
	}
	return b, nil
}

// Hash returns the hash of the base's manifest, or "" if b is nil.
func (b *Base) Hash() string {
	if b == nil {
		return ""
	}
	return b.hash
}

// Manifest returns the base's files.
func (b *Base) Manifest() Manifest {
	if b == nil {
		return Manifest{}
	}
	return b.manifest
}

// Has reports whether the base has a file or directory at a path.
func (b *Base) Has(name string) bool {
	return b != nil && (b.ancestors[name] || b.contains(name))
}

// Open reads the content with f's hash from the base.
func (b *Base) Open(ctx context.Context, f File) (io.ReadCloser, error) {
	at, ok := b.bySum[f.SHA256]
	if !ok {
		return nil, fmt.Errorf("content %s in base %s: %w", f.SHA256, b.hash, ErrNotFound)
	}
	return b.open(ctx, b.manifest.Files[at])
}

// ReadFile returns the content with f's hash from the base.
func (b *Base) ReadFile(ctx context.Context, f File) ([]byte, error) {
	r, err := b.Open(ctx, f)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(io.LimitReader(r, f.Size))
}

// contains reports whether the base has an entry at a path.
func (b *Base) contains(name string) bool {
	_, ok := b.File(name)
	return ok
}

// File returns the file at a path.
func (b *Base) File(name string) (File, bool) {
	if b == nil {
		return File{}, false
	}
	at, ok := b.byPath[name]
	if !ok {
		return File{}, false
	}
	return b.manifest.Files[at], true
}

// HasContent reports whether a file of the base has content with the given hash.
func (b *Base) HasContent(sum string) bool {
	if b == nil {
		return false
	}
	_, ok := b.bySum[sum]
	return ok
}

// OpenFile reads a file of the session, from its base if that has the content. The reader
// does not verify the hash.
func OpenFile(ctx context.Context, store Store, layout Layout, f File) (io.ReadCloser, error) {
	if layout.base.HasContent(f.SHA256) {
		return layout.base.Open(ctx, f)
	}
	return store.Open(ctx, layout.Blob(f.SHA256))
}

// ReadFile returns the content of a file of the session, or ErrCorrupt if its hash differs.
func ReadFile(ctx context.Context, store Store, layout Layout, f File) ([]byte, error) {
	src, err := OpenFile(ctx, store, layout, f)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var b bytes.Buffer
	err = CopyVerified(ctx, &b, src, f)
	return b.Bytes(), err
}

// transfer stores the content of a file of the session under another key.
func transfer(ctx context.Context, store Store, layout Layout, f File, key string) error {
	if !layout.base.HasContent(f.SHA256) {
		return store.Copy(ctx, layout.Blob(f.SHA256), key)
	}
	src, err := layout.base.Open(ctx, f)
	if err != nil {
		return err
	}
	defer src.Close()
	temp, err := os.CreateTemp("", "conclave-transfer-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	defer temp.Close()
	if err := CopyVerified(ctx, temp, src, f); err != nil {
		return err
	}
	if _, err := temp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return store.Put(ctx, key, temp)
}
