package devserver

import (
	"context"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// guard stands between the gateway and its files, for what the files' backend
// does not promise by itself:
//
//   - a body that ends early is refused instead of stored as far as it came;
//   - what is acknowledged survives a loss of power;
//   - a write does not fail because a delete removes the directory that became
//     empty under it;
//   - a key names one object. Keys that a file system reads as another name of
//     the same file, and those of the backend's own files, are refused.
//
// Everything else goes straight to the backend.
type guard struct {
	*posix.Posix
	root string
	// commits is held shared while an object is published, and alone while
	// objects are deleted. Bodies are received outside of it, so that a slow
	// client holds up nobody.
	commits sync.RWMutex
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

// canonical reports whether the key is the only name of its file. One trailing
// slash is allowed: it marks a directory.
func canonical(key string) bool {
	name := strings.TrimSuffix(key, "/")
	return name != "" && name[0] != '/' && name != "." && name != ".." &&
		path.Clean(name) == name && !strings.HasPrefix(name, "../") &&
		name != posix.MetaTmpDir && !strings.HasPrefix(name, posix.MetaTmpDir+"/")
}

// PutObject stores an object whose body came in whole.
func (g *guard) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	key := aws.ToString(in.Key)
	if !canonical(key) {
		return s3response.PutObjectOutput{}, errBadKey
	}
	p := g.publication(aws.ToString(in.Bucket), key)
	defer p.end()
	if strings.HasSuffix(key, "/") {
		p.begin() // A directory has no body whose end could begin it.
	}
	in.Body = receive(in.Body, in.ContentLength, p.begin)
	out, err := g.PutObjectWithPostFunc(ctx, in, (*os.File).Sync)
	if err != nil {
		return out, err
	}
	return out, p.sync()
}

// UploadPart stores a part of an object, not yet visible, that came in whole.
func (g *guard) UploadPart(ctx context.Context, in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	in.Body = receive(in.Body, in.ContentLength, nil)
	return g.UploadPartWithPostFunc(ctx, in, (*os.File).Sync)
}

// CreateMultipartUpload begins an upload under a key that may be used.
func (g *guard) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (s3response.InitiateMultipartUploadResult, error) {
	if !canonical(aws.ToString(in.Key)) {
		return s3response.InitiateMultipartUploadResult{}, errBadKey
	}
	return g.Posix.CreateMultipartUpload(ctx, in)
}

// CompleteMultipartUpload publishes the parts as one object.
func (g *guard) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (s3response.CompleteMultipartUploadResult, string, error) {
	key := aws.ToString(in.Key)
	if !canonical(key) {
		return s3response.CompleteMultipartUploadResult{}, "", errBadKey
	}
	p := g.publication(aws.ToString(in.Bucket), key)
	defer p.end()
	p.begin()
	out, version, err := g.Posix.CompleteMultipartUpload(ctx, in)
	if err != nil {
		return out, version, err
	}
	return out, version, p.sync()
}

// CopyObject publishes a copy under a key that may be used.
func (g *guard) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	key := aws.ToString(in.Key)
	if !canonical(key) {
		return s3response.CopyObjectOutput{}, errBadKey
	}
	p := g.publication(aws.ToString(in.Bucket), key)
	defer p.end()
	p.begin()
	out, err := g.Posix.CopyObject(ctx, in)
	if err != nil {
		return out, err
	}
	return out, p.sync()
}

// DeleteObject deletes no object by another name than its own.
func (g *guard) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput) (*s3.DeleteObjectOutput, error) {
	if !canonical(aws.ToString(in.Key)) {
		return nil, errBadKey
	}
	g.commits.Lock()
	defer g.commits.Unlock()
	return g.Posix.DeleteObject(ctx, in)
}

// DeleteObjects deletes all or, if a key is not one, none.
func (g *guard) DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput) (s3response.DeleteResult, error) {
	if in.Delete != nil {
		for _, object := range in.Delete.Objects {
			if !canonical(aws.ToString(object.Key)) {
				return s3response.DeleteResult{}, errBadKey
			}
		}
	}
	g.commits.Lock()
	defer g.commits.Unlock()
	return g.Posix.DeleteObjects(ctx, in)
}
