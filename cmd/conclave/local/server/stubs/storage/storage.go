// Package storage stands in for cloud.google.com/go/storage, which the Temporal server uses to archive
// histories in Google Cloud Storage. The embedded server archives nothing, so NewClient fails; the other
// declarations only satisfy the compiler.
package storage

import (
	"context"
	"errors"

	"google.golang.org/api/option"
)

// ScopeFullControl is the permission that the server requests.
const ScopeFullControl = "https://www.googleapis.com/auth/devstorage.full_control"

var errUnavailable = errors.New("Google Cloud Storage is not available in the embedded server: use a Temporal server of your own to archive histories")

// NewClient returns an error.
func NewClient(context.Context, ...option.ClientOption) (*Client, error) { return nil, errUnavailable }

// Client cannot be created.
type Client struct{}

// Bucket returns a handle whose methods fail.
func (*Client) Bucket(string) *BucketHandle { return &BucketHandle{} }

// BucketHandle names a bucket.
type BucketHandle struct{}

// Object returns a handle whose methods fail.
func (*BucketHandle) Object(string) *ObjectHandle { return &ObjectHandle{} }

// Objects returns an iterator that fails.
func (*BucketHandle) Objects(context.Context, *Query) *ObjectIterator { return &ObjectIterator{} }

// Attrs returns an error.
func (*BucketHandle) Attrs(context.Context) (*BucketAttrs, error) { return nil, errUnavailable }

// BucketAttrs describes a bucket.
type BucketAttrs struct{}

// Query selects objects by Prefix.
type Query struct{ Prefix string }

// ObjectIterator iterates over objects.
type ObjectIterator struct{}

// Next returns an error.
func (*ObjectIterator) Next() (*ObjectAttrs, error) { return nil, errUnavailable }

// ObjectAttrs describes an object.
type ObjectAttrs struct{ Name string }

// ObjectHandle names an object.
type ObjectHandle struct{}

// Attrs returns an error.
func (*ObjectHandle) Attrs(context.Context) (*ObjectAttrs, error) { return nil, errUnavailable }

// NewReader returns an error.
func (*ObjectHandle) NewReader(context.Context) (*Reader, error) { return nil, errUnavailable }

// NewWriter returns a writer that fails.
func (*ObjectHandle) NewWriter(context.Context) *Writer { return &Writer{} }

// Reader reads an object.
type Reader struct{}

// Read returns an error.
func (*Reader) Read([]byte) (int, error) { return 0, errUnavailable }

// Close returns an error.
func (*Reader) Close() error { return errUnavailable }

// Writer writes an object.
type Writer struct{}

// Write returns an error.
func (*Writer) Write([]byte) (int, error) { return 0, errUnavailable }

// Close returns an error.
func (*Writer) Close() error { return errUnavailable }

// CloseWithError returns an error.
func (*Writer) CloseWithError(error) error { return errUnavailable }
