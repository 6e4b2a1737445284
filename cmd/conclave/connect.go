package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"conclave/activities/s3store"
	"conclave/cmd/conclave/devserver"
	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/worker/cluster"
	"conclave/workflows/drive"
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
	options, found, err := cluster.Options(c.address, c.namespace)
	switch {
	case err != nil:
		return target{}, err
	case !found:
		return c.localTarget()
	}
	if err := checkAddress(options.HostPort); err != nil {
		return target{}, err
	}
	return target{cluster: true, options: options}, nil
}

// checkAddress refuses what no server can be at, before anybody waits for it.
func checkAddress(address string) error {
	problem := ""
	_, port, err := net.SplitHostPort(address)
	number, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case strings.Contains(address, "://"):
		problem = "has a scheme"
	case err != nil || port == "":
		problem = "has no port, or is none"
	case bad != nil || number == 0:
		problem = "has a port that is no number from 1 to 65535"
	}
	if problem == "" {
		return nil
	}
	return fmt.Errorf("the Temporal address %q %s; give it as HOST:PORT, such as 127.0.0.1:7233, with --address or TEMPORAL_ADDRESS",
		progress.Cut(address, maxEcho), problem)
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
	var err error
	if p.client, err = cluster.Dial(ctx, p.options, logger); err != nil {
		p.close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w; check --address and TEMPORAL_*, or leave them out to use the local stack", err)
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
	open := func() (*s3store.Store, error) { return cluster.OpenBucket(ctx, c.bucket, c.prefix) }
	switch {
	case !p.cluster:
		open = func() (*s3store.Store, error) { return p.stackStore(ctx) }
	case c.bucket == "" && c.prefix != "":
		return errors.New("--prefix needs --bucket")
	case c.bucket == "":
		return nil
	}
	store, err := open()
	if err != nil {
		return err
	}
	p.store = store
	return nil
}

// stackStore opens the store of a local stack.
func (p *place) stackStore(ctx context.Context) (*s3store.Store, error) {
	store, err := s3store.New(ctx, s3store.Options{
		Bucket: p.stack.Bucket, Endpoint: p.stack.S3Endpoint, Region: p.stack.S3Region,
		AccessKeyID: p.stack.S3AccessKey, SecretAccessKey: p.stack.S3SecretKey,
	})
	if err != nil {
		return nil, fmt.Errorf("open the store of the local stack: %w", err)
	}
	return store, nil
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
	if c.queue != drive.TaskQueue {
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
