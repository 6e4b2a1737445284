package artifact

import (
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

// cache is a Store that keeps blobs on this machine for faster reading. Exists always asks
// the underlying store, because a cached blob may belong to another session only.
//
// Processes may share a directory. Cached blobs are verified on every read. If the cache
// itself fails, for example because the disk is full, the underlying store is used.
type cache struct {
	Store
	dir string
	max int64 // most bytes in the cache

	mu   sync.Mutex
	size int64 // bytes cached, as far as this process knows
}

// NewCache returns store with a cache of up to maxBytes of blobs in dir, creating
// dir if it is missing. Processes may share the directory.
func NewCache(store Store, dir string, maxBytes int64) (Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the content cache: %w", err)
	}
	c := &cache{Store: store, dir: dir, max: maxBytes}
	for _, b := range c.list() {
		c.size += b.size
	}
	return c, nil
}

// Open implements Store. It stores a missing blob in the cache before it reads it.
func (c *cache) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	sum, ok := blobOf(key)
	if !ok {
		return c.Store.Open(ctx, key)
	}
	if body := c.lookup(sum); body != nil {
		return body, nil
	}
	body, err := c.Store.Open(ctx, key)
	if _, here := body.(*Section); err != nil || here {
		return body, err
	}
	if f := c.fill(ctx, sum, body); f != nil {
		return f, body.Close()
	}
	// The failed fill has consumed part of the stream.
	if err := body.Close(); err != nil {
		return nil, err
	}
	return c.Store.Open(ctx, key)
}

// Put implements Store and caches the blob.
func (c *cache) Put(ctx context.Context, key string, body io.ReadSeeker) error {
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

// blobOf returns the hash in the key of a blob.
func blobOf(key string) (string, bool) {
	dir, sum := path.Split(key)
	return sum, strings.HasSuffix(dir, "blobs/sha256/") && isSum(sum)
}

func (c *cache) file(sum string) string { return filepath.Join(c.dir, sum[:2], sum) }

// usedGrain is the precision of a blob's time of use: later uses within it are not recorded.
const usedGrain = time.Minute

// lookup opens a cached blob after verifying its hash; nil if it is not cached.
func (c *cache) lookup(sum string) io.ReadCloser {
	f, err := os.Open(c.file(sum))
	if err != nil {
		return nil
	}
	body, err := verified(f, sum)
	if err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return nil
	}
	return body
}

// verified returns the content of a cached blob, a small one in memory.
func verified(f *os.File, sum string) (io.ReadCloser, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.Sub(info.ModTime()) > usedGrain {
		_ = os.Chtimes(f.Name(), now, now) // evict removes the least recently used
	}
	if info.Size() <= spoolMemory {
		data := make([]byte, info.Size())
		if _, err := io.ReadFull(f, data); err != nil {
			return nil, err
		}
		if SumOf(data) != sum {
			return nil, ErrCorrupt
		}
		body := NewSection(data)
		body.sum = sum
		return body, f.Close()
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return nil, err
	}
	if hex.EncodeToString(hash.Sum(nil)) != sum {
		return nil, ErrCorrupt
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// fill caches body under sum and opens the cached blob. It returns nil if that fails or body
// has another hash.
func (c *cache) fill(ctx context.Context, sum string, body io.Reader) *os.File {
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
			c.evict(n)
			return temp
		}
	}
	_ = temp.Close()
	_ = os.Remove(temp.Name())
	return nil
}

// evict counts n new bytes. If the total exceeds the maximum, it removes the least recently
// used blobs until three quarters of the maximum remain.
func (c *cache) evict(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += n; c.size <= c.max {
		return
	}
	blobs := c.list()
	slices.SortFunc(blobs, func(a, b cached) int { return a.used.Compare(b.used) })
	c.size = 0
	for _, b := range blobs {
		c.size += b.size
	}
	for _, b := range blobs {
		if c.size <= c.max*3/4 {
			return
		}
		// A reader that has the file open keeps its content.
		if err := os.Remove(b.path); err == nil || errors.Is(err, fs.ErrNotExist) {
			c.size -= b.size
		}
	}
}

type cached struct {
	path string
	size int64
	used time.Time
}

func (c *cache) list() []cached {
	var blobs []cached
	_ = filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // unreadable files are not counted
		}
		if info, err := entry.Info(); err == nil {
			blobs = append(blobs, cached{path: path, size: info.Size(), used: info.ModTime()})
		}
		return nil
	})
	return blobs
}
