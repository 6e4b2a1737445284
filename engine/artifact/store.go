package artifact

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// The errors of a Store. Any other error is an outage or a refusal of the
// storage and may be retried.
var (
	// ErrNotFound reports that no object has the key.
	ErrNotFound = errors.New("object not found")
	// ErrExists reports that Create found the key taken.
	ErrExists = errors.New("object exists already")
)

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
	// Put writes or replaces the object with the rest of body from its current
	// position.
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	// PutBlobs stores small contents, a few megabytes together, each under prefix and its
	// SHA-256. The contents may share an object, so only Open and Copy are guaranteed to find
	// each of them.
	PutBlobs(ctx context.Context, prefix string, contents []Content) error
	// Create writes the object if the key is free, else it fails with ErrExists. Of
	// any number of concurrent calls exactly one succeeds. Bodies are small:
	// If-None-Match is portable only on a single PUT.
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

// Section reads content that is in memory, so caches need not store it.
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
