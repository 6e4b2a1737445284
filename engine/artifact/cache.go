package artifact

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"time"
)

// Cache is a Store that keeps content by its hash on this machine: what a
// worker has stored or read once is not fetched again. It never says that a
// session has content that it has not; only reading is short-cut.
//
// Several processes may share a directory. What is kept is checked whenever it
// is read, and anything wrong with the cache itself, a full disk for one, leads
// to the store behind it.
type Cache struct {
	Store
	dir string
	max int64 // bytes

	mu   sync.Mutex
	size int64 // bytes kept, as far as this process knows
}

// NewCache keeps up to maxBytes of content in dir, which it makes.
func NewCache(store Store, dir string, maxBytes int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the content cache: %w", err)
	}
	c := &Cache{Store: store, dir: dir, max: maxBytes}
	for _, kept := range c.list() {
		c.size += kept.size
	}
	return c, nil
}

// Open reads content from the cache, or from the store into the cache.
func (c *Cache) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	sum, ok := blobOf(key)
	if !ok {
		return c.Store.Open(ctx, key)
	}
	if f := c.hit(sum); f != nil {
		return f, nil
	}
	body, err := c.Store.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	if f := c.fill(ctx, sum, body); f != nil {
		return f, body.Close()
	}
	// The stream is used up to where the cache failed: begin again without it.
	if err := body.Close(); err != nil {
		return nil, err
	}
	return c.Store.Open(ctx, key)
}

// Put keeps content that is stored.
func (c *Cache) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	at, err := body.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if err := c.Store.Put(ctx, key, body); err != nil {
		return err
	}
	if sum, ok := blobOf(key); ok && ctx.Err() == nil {
		if _, err := body.Seek(at, io.SeekStart); err == nil {
			if f := c.fill(ctx, sum, body); f != nil {
				_ = f.Close()
			}
		}
	}
	return nil
}

// blobOf is the hash that a key of content ends in.
func blobOf(key string) (string, bool) {
	dir, sum := path.Split(key)
	return sum, strings.HasSuffix(dir, "blobs/sha256/") && isSum(sum)
}

func (c *Cache) file(sum string) string { return filepath.Join(c.dir, sum[:2], sum) }

// hit opens what is kept, if it is still what it should be.
func (c *Cache) hit(sum string) *os.File {
	f, err := os.Open(c.file(sum))
	if err != nil {
		return nil
	}
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	if err == nil && hex.EncodeToString(hash.Sum(nil)) == sum {
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			now := time.Now()
			_ = os.Chtimes(f.Name(), now, now) // the least recently used go first
			return f
		}
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	return nil
}

// fill keeps body under sum and opens it; nil if that cannot be done or body
// is something else.
func (c *Cache) fill(ctx context.Context, sum string, body io.Reader) *os.File {
	if os.MkdirAll(filepath.Dir(c.file(sum)), 0o700) != nil {
		return nil
	}
	temp, err := os.CreateTemp(c.dir, "fill-*")
	if err != nil {
		return nil
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(temp, hash), contextReader(ctx, body))
	if err == nil && hex.EncodeToString(hash.Sum(nil)) == sum {
		if _, err = temp.Seek(0, io.SeekStart); err == nil {
			err = os.Rename(temp.Name(), c.file(sum))
		}
		if err == nil {
			c.grew(n)
			return temp
		}
	}
	_ = temp.Close()
	_ = os.Remove(temp.Name())
	return nil
}

// grew makes room when there is too much.
func (c *Cache) grew(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += n; c.size <= c.max {
		return
	}
	kept := c.list()
	slices.SortFunc(kept, func(a, b keptFile) int { return cmp.Compare(a.used.UnixNano(), b.used.UnixNano()) })
	c.size = 0
	for _, k := range kept {
		c.size += k.size
	}
	for _, k := range kept {
		if c.size <= c.max*3/4 {
			return
		}
		// A reader that has it open keeps reading.
		if err := os.Remove(k.path); err == nil || errors.Is(err, fs.ErrNotExist) {
			c.size -= k.size
		}
	}
}

type keptFile struct {
	path string
	size int64
	used time.Time
}

func (c *Cache) list() []keptFile {
	var kept []keptFile
	_ = filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // what cannot be read is not counted
		}
		if info, err := entry.Info(); err == nil {
			kept = append(kept, keptFile{path: path, size: info.Size(), used: info.ModTime()})
		}
		return nil
	})
	return kept
}
