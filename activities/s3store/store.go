package s3store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"conclave/engine/artifact"
)

// Store is the artifact.Store in a bucket. It is safe for concurrent use.
type Store struct {
	client    *s3.Client
	closeIdle func()
	bucket    string
	prefix    string // empty, or ending in "/"
	pageSize  int32  // keys in an answer to a listing; 0: the server decides
}

var _ artifact.Store = (*Store)(nil)

// New makes a store. It reads configuration but does not talk to the store yet:
// see Probe. Close it after use.
func New(ctx context.Context, opts Options) (*Store, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	client, closeIdle, err := opts.client(ctx)
	if err != nil {
		return nil, fmt.Errorf("open bucket %q: %w", opts.Bucket, err)
	}
	if client.Options().Region == "" {
		return nil, fmt.Errorf("open bucket %q: no region is known: set AWS_REGION, "+
			"or AWS_ENDPOINT_URL_S3 for a store that is not AWS", opts.Bucket)
	}
	s := &Store{client: client, closeIdle: closeIdle, bucket: opts.Bucket}
	if prefix := strings.Trim(opts.Prefix, "/"); prefix != "" {
		s.prefix = prefix + "/"
	}
	return s, nil
}

// Close closes idle connections, so that the server need not wait for them.
func (s *Store) Close() error {
	s.closeIdle()
	return nil
}

// URL is s3://BUCKET/PREFIX/KEY.
func (s *Store) URL(key string) string { return "s3://" + s.bucket + "/" + s.prefix + key }

// objectKey is the key in the bucket.
func (s *Store) objectKey(ctx context.Context, key string) (*string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := artifact.CheckKey(key); err != nil {
		return nil, err
	}
	full := s.prefix + key
	if len(full) > artifact.MaxKey {
		return nil, &artifact.NameError{What: "key", Name: full, Problem: fmt.Sprintf(
			"it has %d bytes with the bucket's prefix: at most %d are allowed", len(full), artifact.MaxKey)}
	}
	return &full, nil
}

// place names the store for people.
func (s *Store) place() string {
	endpoint := aws.ToString(s.client.Options().BaseEndpoint)
	if endpoint == "" {
		return fmt.Sprintf("bucket %q (AWS, %s)", s.bucket, s.client.Options().Region)
	}
	if u, err := url.Parse(endpoint); err == nil {
		endpoint = u.Redacted()
	}
	return fmt.Sprintf("bucket %q at %s", s.bucket, endpoint)
}

// failed says what was attempted, and turns the store's words into the port's.
func (s *Store) failed(verb, key string, err error) error {
	var bad *artifact.NameError
	if errors.As(err, &bad) {
		return fmt.Errorf("%s: %w", verb, err)
	}
	if isMissing(err) {
		err = artifact.ErrNotFound
	}
	return fmt.Errorf("%s %s: %w", verb, s.URL(key), tell(err))
}
