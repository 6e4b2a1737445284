package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"conclave/activities/s3store"
	"conclave/cmd/conclave/devserver"
	"conclave/engine/artifact"
	"conclave/workflows"
)

// reachTimeout bounds how long an address or a bucket may take to answer.
const reachTimeout = 8 * time.Second

// target says where sessions are: a cluster, or a data directory on this machine.
type target struct {
	cluster bool
	options client.Options // of a cluster
	dataDir string         // absolute; of a local stack
}

// target finds it from flags and environment, touching nothing.
func (c *cli) target() (target, error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return target{}, fmt.Errorf("read the Temporal client settings: %w; check TEMPORAL_* and temporal.toml", err)
	}
	if c.address != "" {
		profile.Address = c.address
	}
	if profile.Address == "" {
		return c.localTarget()
	}
	if c.namespace != "" {
		profile.Namespace = c.namespace
	}
	options, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return target{}, fmt.Errorf("read the Temporal client settings: %w; check TEMPORAL_* and temporal.toml", err)
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	return target{cluster: true, options: options}, nil
}

func (c *cli) localTarget() (target, error) {
	switch {
	case c.bucket != "" || c.prefix != "":
		return target{}, errors.New("--bucket and --prefix belong to a cluster, the local stack has a store of its own; add --address, or leave them out")
	case c.namespace != "" && c.namespace != client.DefaultNamespace:
		return target{}, fmt.Errorf("the local stack has only the namespace %q, not %q; add --address, or leave --namespace out", client.DefaultNamespace, c.namespace)
	}
	dir := c.dataDir
	if dir == "" {
		var err error
		if dir, err = defaultDataDir(); err != nil {
			return target{}, err
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return target{}, fmt.Errorf("find the data directory %s: %w", dir, err)
	}
	return target{dataDir: dir}, nil
}

// defaultDataDir follows the XDG base directory specification, which ignores
// relative paths.
func defaultDataDir() (string, error) {
	if base := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "conclave"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the data directory: %w; give one with --data-dir", err)
	}
	return filepath.Join(home, ".local", "share", "conclave"), nil
}

// place is where sessions run and are kept, connected.
type place struct {
	target
	client client.Client
	store  artifact.Store // nil on a cluster without a bucket
	queue  string

	stack devserver.Stack // of a local stack
	lease *devserver.Lease
}

// at connects to the target for as long as use runs.
func (c *cli) at(ctx context.Context, t target, use func(*place) error) error {
	logger, closeLog := t.quietLogger()
	defer closeLog()
	p, err := c.connect(ctx, t, logger)
	if err != nil {
		return err
	}
	defer p.close()
	return use(p)
}

// connect reaches the target. A local stack is started if none runs.
func (c *cli) connect(ctx context.Context, t target, logger *slog.Logger) (*place, error) {
	p := &place{target: t, queue: c.queue}
	if !t.cluster {
		if err := c.joinStack(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := c.openStore(ctx, p); err != nil {
		p.close()
		return nil, err
	}
	p.options.Logger = sdklog.NewStructuredLogger(logger)
	dialing, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var err error
	if p.client, err = client.DialContext(dialing, p.options); err != nil {
		p.close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("connect to Temporal at %s, namespace %s: %w; check --address and TEMPORAL_*, or leave them out to use the local stack",
			p.options.HostPort, p.options.Namespace, err)
	}
	return p, nil
}

func (c *cli) joinStack(ctx context.Context, p *place) error {
	opts := devserver.Options{}
	if c.people() {
		opts.Logf = c.say
	}
	lease, err := devserver.Join(ctx, p.dataDir, opts)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	p.lease, p.stack = lease, lease.Stack()
	p.options = client.Options{HostPort: p.stack.TemporalAddress, Namespace: p.stack.Namespace}
	return nil
}

// openStore opens the stack's own store, or a cluster's if a bucket is named.
func (c *cli) openStore(ctx context.Context, p *place) error {
	opts := s3store.Options{Bucket: c.bucket, Prefix: c.prefix}
	switch {
	case !p.cluster:
		opts = s3store.Options{
			Bucket: p.stack.Bucket, Endpoint: p.stack.S3Endpoint, Region: p.stack.S3Region,
			AccessKeyID: p.stack.S3AccessKey, SecretAccessKey: p.stack.S3SecretKey,
		}
	case c.bucket == "" && c.prefix != "":
		return errors.New("--prefix needs --bucket")
	case c.bucket == "":
		return nil
	}
	store, err := s3store.New(ctx, opts)
	if err != nil {
		return fmt.Errorf("open the bucket %s: %w", opts.Bucket, err)
	}
	p.store = store
	return nil
}

func (p *place) close() {
	if p.client != nil {
		p.client.Close()
	}
	if p.lease != nil {
		// The process ends next, and with it the lease.
		_ = p.lease.Release()
	}
}

// link is the address of a session in the local stack's Web UI.
func (p *place) link(id string) string {
	return fmt.Sprintf("%s/namespaces/%s/workflows/%s", p.stack.UIAddress, p.stack.Namespace, id)
}

// again is the command line with which a person gets back to this place.
func (c *cli) again(command, id string) string {
	line := strings.TrimSpace("conclave " + command + " " + id)
	for _, f := range []struct{ name, value string }{
		{"address", c.address},
		{"namespace", c.namespace},
		{"bucket", c.bucket},
		{"prefix", c.prefix},
		{"data-dir", c.dataDir},
	} {
		if f.value != "" {
			line += " --" + f.name + " " + shellQuote(f.value)
		}
	}
	if c.queue != workflows.TaskQueue {
		line += " --task-queue " + shellQuote(c.queue)
	}
	return line
}

// shellQuote quotes a word for a shell if it needs it.
func shellQuote(word string) string {
	safe := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !safe(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
