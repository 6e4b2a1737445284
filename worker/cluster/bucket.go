package cluster

import (
	"context"
	"fmt"
	"time"

	"conclave/activities/s3store"
)

// probeTimeout bounds the start-up check of a bucket.
const probeTimeout = 10 * time.Second

// OpenBucket opens the store of a cluster's sessions. It touches no network.
func OpenBucket(ctx context.Context, bucket, prefix string) (*s3store.Store, error) {
	store, err := s3store.New(ctx, s3store.Options{Bucket: bucket, Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", bucket, err)
	}
	return store, nil
}

// Probe refuses a bucket that cannot be used, before any work is taken.
func Probe(ctx context.Context, store *s3store.Store) error {
	trying, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return store.Probe(trying)
}
