// Package cluster connects a worker or a client to the shared services: Temporal and
// a bucket. Both are found as their own tools find them, by TEMPORAL_* and
// temporal.toml, and by AWS_*; command-line flags take precedence. The embedded stack
// of a laptop is package devserver's.
package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"conclave/activities/s3store"
)

const (
	dialTimeout  = 8 * time.Second
	probeTimeout = 10 * time.Second
)

// Options returns Temporal's client options from the environment's profile, in which
// a non-empty address or namespace takes precedence. ok is false without an address.
func Options(address, namespace string) (o client.Options, ok bool, err error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return o, false, fmt.Errorf("read the Temporal client settings: %w; check TEMPORAL_* and temporal.toml", err)
	}
	if address != "" {
		profile.Address = address
	}
	if profile.Address == "" {
		return o, false, nil
	}
	if namespace != "" {
		profile.Namespace = namespace
	}
	o, err = profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return o, false, fmt.Errorf("read the Temporal client settings: %w; check TEMPORAL_* and temporal.toml", err)
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	return o, true, nil
}

// Dial connects to Temporal. If ctx ends first, its error is returned unwrapped.
func Dial(ctx context.Context, o client.Options, logger *slog.Logger) (client.Client, error) {
	o.Logger = sdklog.NewStructuredLogger(logger)
	limited, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := client.DialContext(limited, o)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("connect to Temporal at %s, namespace %s: %w", o.HostPort, o.Namespace, err)
}

// OpenBucket opens the store of a cluster's sessions without using the network.
func OpenBucket(ctx context.Context, bucket, prefix string) (*s3store.Store, error) {
	store, err := s3store.New(ctx, s3store.Options{Bucket: bucket, Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", bucket, err)
	}
	return store, nil
}

// Probe returns an error if a bucket cannot be used.
func Probe(ctx context.Context, store *s3store.Store) error {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return store.Probe(limited)
}
