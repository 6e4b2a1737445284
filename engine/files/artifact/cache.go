package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
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
	for _, b := range c.listBlobs() {
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
	if body := c.openCached(sum); body != nil {
		return body, nil
	}
	body, err := c.Store.Open(ctx, key)
	if _, here := body.(*Section); err != nil || here {
		return body, err
	}
	if f := c.fillBlob(ctx, sum, body); f != nil {
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
			if f := c.fillBlob(ctx, sum, body); f != nil {
				_ = f.Close()
			}
		}
	}
	return nil
}

func blobOf(key string) (string, bool) {
	dir, sum := path.Split(key)
	return sum, strings.HasSuffix(dir, "blobs/sha256/") && isSum(sum)
}

func (c *cache) fileOf(sum string) string { return filepath.Join(c.dir, sum[:2], sum) }

// usedGrain is the precision of a blob's time of use: later uses within it are not recorded.
const usedGrain = time.Minute

func (c *cache) openCached(sum string) io.ReadCloser {
	f, err := os.Open(c.fileOf(sum))
	if err != nil {
		return nil
	}
	body, err := openVerified(f, sum)
	if err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return nil
	}
	return body
}

// openVerified returns the content of a cached blob, a small one in memory.
func openVerified(f *os.File, sum string) (io.ReadCloser, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.Sub(info.ModTime()) > usedGrain {
		_ = os.Chtimes(f.Name(), now, now) // evictOldest removes the least recently used
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

// fillBlob caches body under sum and opens the cached blob. It returns nil if that fails or body
// has another hash.
func (c *cache) fillBlob(ctx context.Context, sum string, body io.Reader) *os.File {
	if os.MkdirAll(filepath.Dir(c.fileOf(sum)), 0o700) != nil {
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
			err = os.Rename(temp.Name(), c.fileOf(sum))
		}
		if err == nil {
			c.evictOldest(n)
			return temp
		}
	}
	_ = temp.Close()
	_ = os.Remove(temp.Name())
	return nil
}

// evictOldest counts n new bytes. If the total exceeds the maximum, it removes the least recently
// used blobs until three quarters of the maximum remain.
func (c *cache) evictOldest(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += n; c.size <= c.max {
		return
	}
	blobs := c.listBlobs()
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

func (c *cache) listBlobs() []cached {
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

// The answers of a Store that are errors. Any other error of it is a *NameError or a *StoreError.
var (
	// ErrNotFound reports that no object has the key.
	ErrNotFound = errors.New("object not found")
	// ErrExists reports that Create found the key taken.
	ErrExists = errors.New("object exists already")
)

// StoreError reports an outage or a refusal of the storage. The call may be retried.
type StoreError struct {
	Call string // the operation and its key, for people
	Err  error
}

func (e *StoreError) Error() string { return e.Call + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// StoreFault names the call of a Store that returned err. Unless err is an answer or an invalid name,
// the result is a *StoreError.
func StoreFault(call string, err error) error {
	_, invalid := errors.AsType[*NameError](err)
	if invalid || errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) {
		return fmt.Errorf("%s: %w", call, err)
	}
	return &StoreError{Call: call, Err: err}
}

// Store keeps objects under keys. Writes are atomic: a reader sees the whole
// object or none, also after a crash of the writer. Keys obey CheckKey.
//
// It has two implementations, S3 (activities/s3store) and Dir, held to the
// same behaviour by the suite in artifact/storetest.
type Store interface {
	// Get returns the object, or ErrNotFound.
	Get(ctx context.Context, key string) ([]byte, error)
	// Open streams the object, or fails with ErrNotFound.
	Open(ctx context.Context, key string) (io.ReadCloser, error)
	// Put writes or replaces the object with the rest of body from its current position.
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	// PutBlobs stores small contents, a few megabytes together, each under prefix and its SHA-256. The
	// contents may share an object, so only Open and Copy are guaranteed to find each of them.
	PutBlobs(ctx context.Context, prefix string, contents []Content) error
	// Create writes the object if the key is free, else it fails with ErrExists. Of any number of concurrent
	// calls exactly one succeeds. Bodies are small: If-None-Match is portable only on a single PUT.
	Create(ctx context.Context, key string, body []byte) error
	// Copy makes dst a copy of src without moving the content through the caller;
	// it fails with ErrNotFound if there is no src.
	Copy(ctx context.Context, src, dst string) error
	// Exists reports whether the key is taken.
	Exists(ctx context.Context, key string) (bool, error)
	// Delete removes the object; a free key is not an error.
	Delete(ctx context.Context, key string) error
	// DeleteAll removes the objects, in batches if the storage supports them; free keys are
	// not errors. It continues after a failure and joins the errors.
	DeleteAll(ctx context.Context, keys []string) error
	// List yields the keys under prefix in byte order, and nothing after an error.
	// Prefix ends in "/" or is empty. Names that are not keys are skipped.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Objects is List with the size and the last change of each object.
	Objects(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// URL names the object for people and other programs: s3://bucket/key or an
	// absolute path, never a host or a port.
	URL(key string) string
}

// Content is in-memory content with its SHA-256 in hex.
type Content struct {
	SHA256 string
	Data   []byte
}

// Section is a part of an object already in memory; caches skip it.
type Section struct {
	*bytes.Reader
	data []byte
	sum  string // SHA-256 of data if it has been verified
}

// NewSection returns a reader of data.
func NewSection(data []byte) *Section { return &Section{Reader: bytes.NewReader(data), data: data} }

// Close implements io.Closer.
func (*Section) Close() error { return nil }

// Object describes a stored object.
type Object struct {
	Key      string
	Size     int64 // size in bytes
	Modified time.Time
}
