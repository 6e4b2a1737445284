package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// guard adds guarantees to the gateway's file backend:
//
//   - a body that ends early is refused instead of stored in part;
//   - acknowledged objects survive a power failure;
//   - a write does not fail when a concurrent delete removes its empty directory;
//   - each object has one key: other spellings of a file's path, and keys of the
//     backend's own files, are refused.
//
// The backend implements the other methods.
type guard struct {
	*posix.Posix
	root string
	// commits is held for reading while a received object is published, and for writing
	// while objects are deleted.
	commits sync.RWMutex
}

func newGuard(root string, options posix.PosixOpts) (*guard, error) {
	backend, err := posix.New(root, meta.XattrMeta{}, options)
	if err != nil {
		return nil, err
	}
	return &guard{Posix: backend, root: root}, nil
}

var (
	errBadKey = s3err.APIError{
		Code:           "InvalidRequest",
		Description:    "The object key is not in canonical form: no empty, '.' or '..' segments, no leading '/', nothing under " + posix.MetaTmpDir + ".",
		HTTPStatusCode: http.StatusBadRequest,
	}
	errIncompleteBody = s3err.APIError{
		Code:           "IncompleteBody",
		Description:    "The request body ended before the number of bytes that its Content-Length announced.",
		HTTPStatusCode: http.StatusBadRequest,
	}
)

// isCanonical reports whether a key is the only name of its file, or of a directory if it ends with a slash.
func isCanonical(key string) bool {
	name := strings.TrimSuffix(key, "/")
	return name != "" && name[0] != '/' && name != "." && name != ".." &&
		path.Clean(name) == name && !strings.HasPrefix(name, "../") &&
		name != posix.MetaTmpDir && !strings.HasPrefix(name, posix.MetaTmpDir+"/")
}

// PutObject stores an object if its body is complete.
func (g *guard) PutObject(ctx context.Context, in s3response.PutObjectInput) (out s3response.PutObjectOutput, err error) {
	err = g.publishObject(in.Bucket, in.Key, func(p *publication) error {
		if strings.HasSuffix(*in.Key, "/") {
			p.blockDeletes() // a directory has no body
		}
		in.Body = wrapBody(in.Body, in.ContentLength, p.blockDeletes)
		// The content is synced before the object gets its key.
		out, err = g.PutObjectWithPostFunc(ctx, in, (*os.File).Sync)
		return err
	})
	return out, err
}

// UploadPart stores a part of an object if its body is complete. The object is not visible yet.
func (g *guard) UploadPart(ctx context.Context, in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	in.Body = wrapBody(in.Body, in.ContentLength, nil)
	return g.UploadPartWithPostFunc(ctx, in, (*os.File).Sync)
}

// CreateMultipartUpload begins an upload under a canonical key.
func (g *guard) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (s3response.InitiateMultipartUploadResult, error) {
	if !isCanonical(aws.ToString(in.Key)) {
		return s3response.InitiateMultipartUploadResult{}, errBadKey
	}
	return g.Posix.CreateMultipartUpload(ctx, in)
}

// CompleteMultipartUpload publishes the parts as one object.
func (g *guard) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (out s3response.CompleteMultipartUploadResult, version string, err error) {
	err = g.publishObject(in.Bucket, in.Key, func(p *publication) error {
		p.blockDeletes()
		out, version, err = g.Posix.CompleteMultipartUpload(ctx, in)
		return err
	})
	return out, version, err
}

// CopyObject publishes a copy under a canonical key.
func (g *guard) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (out s3response.CopyObjectOutput, err error) {
	err = g.publishObject(in.Bucket, in.Key, func(p *publication) error {
		p.blockDeletes()
		out, err = g.Posix.CopyObject(ctx, in)
		return err
	})
	return out, err
}

// DeleteObject deletes the object of a canonical key.
func (g *guard) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput) (*s3.DeleteObjectOutput, error) {
	if !isCanonical(aws.ToString(in.Key)) {
		return nil, errBadKey
	}
	g.commits.Lock()
	defer g.commits.Unlock()
	return g.Posix.DeleteObject(ctx, in)
}

// DeleteObjects deletes all objects, or none if any key is not canonical.
func (g *guard) DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput) (s3response.DeleteResult, error) {
	if in.Delete != nil {
		for _, object := range in.Delete.Objects {
			if !isCanonical(aws.ToString(object.Key)) {
				return s3response.DeleteResult{}, errBadKey
			}
		}
	}
	g.commits.Lock()
	defer g.commits.Unlock()
	return g.Posix.DeleteObjects(ctx, in)
}

// publication is the short final phase of a write, which makes the object visible under its key.
type publication struct {
	guard *guard
	begun bool
	// bucket and object are paths; above is the deepest existing directory that contains the object.
	bucket, object, above string
}

func (g *guard) publishObject(bucket, key *string, write func(*publication) error) error {
	if !isCanonical(aws.ToString(key)) {
		return errBadKey
	}
	root := filepath.Join(g.root, aws.ToString(bucket))
	p := &publication{guard: g, bucket: root, above: root, object: filepath.Join(root, filepath.FromSlash(*key))}
	defer p.allowDeletes()
	if err := write(p); err != nil {
		return err
	}
	return p.syncObject()
}

// blockDeletes blocks deletes until allowDeletes is called. Repeated calls do nothing.
func (p *publication) blockDeletes() {
	if p.begun {
		return
	}
	p.guard.commits.RLock()
	p.begun = true
	p.above = filepath.Dir(p.object)
	for p.above != p.bucket {
		if _, err := os.Lstat(p.above); err == nil {
			break
		}
		p.above = filepath.Dir(p.above)
	}
}

// allowDeletes allows deletes again. Without blockDeletes it does nothing.
func (p *publication) allowDeletes() {
	if p.begun {
		p.guard.commits.RUnlock()
	}
}

// syncObject makes a published object's attributes and the directories above it survive a power failure.
func (p *publication) syncObject() error {
	if err := syncPath(p.object); err != nil {
		return fmt.Errorf("sync the object: %w", err)
	}
	for dir := filepath.Dir(p.object); ; dir = filepath.Dir(dir) {
		// A directory that has been removed needs no sync.
		if err := syncPath(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sync the directory of the object: %w", err)
		}
		if dir == p.above {
			return nil
		}
	}
}

// body is the body of an upload.
type body struct {
	source io.Reader
	// length is the announced length, or negative if unknown.
	length, received int64
	// whole is called once, when the body is complete.
	whole func()
}

// wrapBody wraps a body. A trailing checksum stays visible to the backend, which verifies it.
func wrapBody(source io.Reader, length *int64, whole func()) io.Reader {
	b := &body{source: source, length: -1, whole: whole}
	if length != nil {
		b.length = *length
	}
	if sum, ok := source.(middlewares.ChecksumReader); ok {
		return &summedBody{body: b, sum: sum}
	}
	return b
}

// Read implements io.Reader. It fails if the body ends early.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.source.Read(p)
	b.received += int64(n)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if b.received < b.length {
		return n, errIncompleteBody
	}
	if b.whole != nil {
		b.whole()
		b.whole = nil
	}
	return n, err
}

// summedBody is a body with a trailing checksum.
type summedBody struct {
	*body
	sum middlewares.ChecksumReader
}

func (b *summedBody) Algorithm() string { return b.sum.Algorithm() }

func (b *summedBody) Checksum() string { return b.sum.Checksum() }
