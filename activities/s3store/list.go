package s3store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"conclave/engine/artifact"
)

// List implements artifact.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := artifact.CheckPrefix(prefix)
		if err == nil {
			err = s.pages(ctx, prefix, func(key string) bool { return yield(key, nil) })
		}
		if err != nil {
			yield("", fmt.Errorf("list %s: %w", s.URL(prefix), tell(err)))
		}
	}
}

// pages yields until there are no more pages or yield is false. Some servers
// end with an empty page: only IsTruncated counts.
func (s *Store) pages(ctx context.Context, prefix string, yield func(string) bool) error {
	in := &s3.ListObjectsV2Input{Bucket: &s.bucket}
	if full := s.prefix + prefix; full != "" {
		in.Prefix = &full
	}
	if s.pageSize > 0 {
		in.MaxKeys = &s.pageSize
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := s.client.ListObjectsV2(ctx, in)
		if err != nil {
			return err
		}
		for _, object := range page.Contents {
			key := strings.TrimPrefix(aws.ToString(object.Key), s.prefix)
			if artifact.CheckKey(key) == nil && !yield(key) {
				return nil
			}
		}
		if !aws.ToBool(page.IsTruncated) {
			return nil
		}
		if aws.ToString(page.NextContinuationToken) == "" {
			return errors.New("the store says that there are more keys, but not where")
		}
		in.ContinuationToken = page.NextContinuationToken
	}
}
