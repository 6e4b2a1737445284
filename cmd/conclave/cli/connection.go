package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"conclave/activities/s3store"
	"conclave/cmd/conclave/local"
	"conclave/engine/files/artifact"
	"conclave/engine/text"
	"conclave/worker/cluster"
)

// ReachTimeout is the maximum wait for a reply from an address or a bucket.
const ReachTimeout = 8 * time.Second

// Connection is the target that this invocation is connected to.
type Connection struct {
	*CLI
	Target
	Client client.Client  // nil if only the store is connected
	Store  artifact.Store // nil on a cluster without a bucket

	Stack local.Stack // set for a local stack
	Pages string      // address of the pages that this command serves, or that a dev of the data directory does; empty without them
	lease *local.Lease
}

// With connects to the target, calls use, and disconnects.
func (c *CLI) With(ctx context.Context, t Target, use func(*Connection) error) error {
	logger, closeLog := t.commandLog()
	defer closeLog()
	conn, err := c.Connect(ctx, t, logger)
	if err != nil {
		return err
	}
	defer conn.Close()
	return use(conn)
}

// Connect connects to the target, and starts a local stack unless one runs. A stack that was
// killed a moment ago may still hold its locks; Connect waits for its end and starts another.
func (c *CLI) Connect(ctx context.Context, t Target, logger *slog.Logger) (*Connection, error) {
	for {
		conn, err := c.openStore(ctx, t)
		if err != nil {
			return nil, err
		}
		conn.Options.MetricsHandler = t.Metrics.Handler()
		if conn.Client, err = cluster.Dial(ctx, conn.Options, logger); err == nil {
			return conn, nil
		}
		ending := conn.lease != nil && conn.lease.Ends(ctx)
		conn.Close()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !ending:
			return nil, fmt.Errorf("%w; %s", err, dialRemedy(t, err))
		}
	}
}

// dialRemedy returns the remedy for a failed connection to Temporal. Another user's
// embedded stack resets connections.
func dialRemedy(t Target, err error) string {
	remedy := "check --address and TEMPORAL_*, or leave them out to use the local stack"
	if cluster.IsLoopback(t.Options.HostPort) && strings.Contains(err.Error(), "connection reset") { // gRPC preserves only the text
		return "a stack that another user started accepts only that user, unless it runs with `conclave dev " +
			local.OtherUsersFlag + "`; else " + remedy
	}
	return remedy
}

// ConnectStore connects to the store only: the named bucket, or else that of the local stack.
func (c *CLI) ConnectStore(ctx context.Context) (*Connection, error) {
	t := Target{Cluster: true}
	if c.Bucket == "" {
		var err error
		if t, err = c.Target(); err != nil {
			return nil, err
		}
		if t.Cluster {
			return nil, errors.New("the files of a cluster's sessions are in its bucket: name it with --bucket (and --prefix)")
		}
	}
	return c.openStore(ctx, t)
}

// openStore joins the local stack and opens its store, or opens the named bucket of a cluster.
func (c *CLI) openStore(ctx context.Context, t Target) (*Connection, error) {
	conn := &Connection{CLI: c, Target: t}
	var store *s3store.Store
	var err error
	switch {
	case !t.Cluster:
		if err = conn.joinStack(ctx); err == nil {
			store, err = conn.stackStore(ctx)
		}
	case c.Bucket != "":
		store, err = cluster.OpenBucket(ctx, c.Bucket, c.Prefix, t.Metrics.Observer())
	case c.Prefix != "":
		err = errors.New("--prefix needs --bucket")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	if store != nil {
		conn.Store = store
	}
	return conn, nil
}

func (conn *Connection) joinStack(ctx context.Context) error {
	opts := local.Options{OtherUsers: conn.OtherUsers, Ports: conn.Ports}
	if !conn.Scripted() {
		opts.Logf = conn.Infof
	}
	lease, err := local.Join(ctx, conn.Target.DataDir, opts)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	conn.lease, conn.Stack = lease, lease.Stack
	if pages, ok := local.FindPages(conn.Stack.DataDir); ok {
		conn.Pages = pages.Address
	}
	conn.Options = client.Options{
		HostPort: conn.Stack.TemporalAddress, Namespace: conn.Stack.Namespace,
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}}, // compression within a machine only costs time
	}
	return nil
}

func (conn *Connection) stackStore(ctx context.Context) (*s3store.Store, error) {
	store, err := s3store.New(ctx, s3store.Options{
		Bucket: conn.Stack.Bucket, Endpoint: conn.Stack.S3Endpoint, Region: conn.Stack.S3Region,
		AccessKeyID: conn.Stack.S3AccessKey, SecretAccessKey: conn.Stack.S3SecretKey,
		Observe: conn.Metrics.Observer(),
	})
	if err != nil {
		return nil, fmt.Errorf("open the store of the local stack: %w", err)
	}
	return store, nil
}

// Close disconnects and releases the lease on a local stack.
func (conn *Connection) Close() {
	if conn.Client != nil {
		conn.Client.Close()
	}
	if conn.lease != nil {
		_ = conn.lease.Release()
	}
}

// CheckBucket returns an error if the bucket of a cluster is unusable. It is called before any work
// starts.
func (conn *Connection) CheckBucket(ctx context.Context) error {
	store, ok := conn.Store.(*s3store.Store)
	if !ok || !conn.Cluster {
		return nil
	}
	return errors.Join(ctx.Err(), cluster.Probe(ctx, store))
}

// StackEnded reports whether the local stack is known to have ended.
func (conn *Connection) StackEnded() bool {
	if conn.Cluster {
		return false
	}
	_, serves, err := local.Find(conn.Target.DataDir)
	return err == nil && !serves
}

// AwaitEnd waits until ctx ends or failed, which may be nil, receives an error. If the local stack ends
// before, it returns an error with the command that starts the stack again.
func (conn *Connection) AwaitEnd(ctx context.Context, command string, failed <-chan error) error {
	const interval = 2 * time.Second
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-tick.C:
			if conn.StackEnded() {
				return Exitf(ExitNoAnswer, "the embedded stack has ended; its log is %s, and `conclave %s` starts it again", conn.Stack.LogFile, command)
			}
		}
	}
}

// OpenPage opens a page in a browser.
func (conn *Connection) OpenPage(address string) error {
	if conn.Pages == "" {
		return errors.New("open the page: it is not served here; for a cluster name the bucket of its sessions with --bucket")
	}
	return OpenBrowser(address)
}

// HowItContinues says which worker continues a run that this command leaves.
func (conn *Connection) HowItContinues() string {
	if conn.Cluster {
		return "it continues"
	}
	if dev, ok := local.FindPages(conn.Stack.DataDir); ok {
		return fmt.Sprintf("dev (pid %d) goes on with it", dev.PID)
	}
	return "it continues as soon as a worker of this data directory runs"
}

// PrintingTo returns a connection that prints to a writer as if to a person.
func (conn *Connection) PrintingTo(w io.Writer) *Connection {
	cli, other := *conn.CLI, *conn
	cli.Stdout, cli.Stderr, cli.JSON, cli.Automation = w, w, false, false
	other.CLI = &cli
	return &other
}

// NoRun returns the error for an ID that no run has. That of an evaluation names its sessions.
func (conn *Connection) NoRun(ctx context.Context, id string) error {
	if conn.Store != nil {
		if found, err := conn.Store.Exists(ctx, artifact.EvaluationKey(id, "data")); err == nil && found {
			return Exitf(ExitUsage, "%s is an evaluation, which is no run of its own: its questions are the sessions eval-%s-…, and `%s` prints their outcomes",
				id, id, conn.CommandLine("eval report", id))
		}
	}
	where, files := conn.String(), ""
	if conn.Client == nil { // only the store is connected
		files = "; they have files once they are prepared"
		if conn.Cluster {
			where = "in " + strings.TrimSuffix(conn.Store.URL("sessions"), "/sessions")
		}
	}
	return Exitf(ExitUsage, "there is no session %s %s, and no run of a pipeline or a scenario; `%s` and `%s` list them%s",
		id, where, conn.CommandLine("list"), conn.CommandLine("pipeline list"), files)
}

// URL returns the address of a workflow in the local stack's Web UI.
func (conn *Connection) URL(workflow string) string {
	return fmt.Sprintf("%s/namespaces/%s/workflows/%s", conn.Stack.UIAddress, conn.Stack.Namespace, workflow)
}

// commandLog returns the log for the Temporal SDK: a file in the data directory, or none on
// a cluster.
func (t Target) commandLog() (logger *slog.Logger, closeLog func()) {
	discard := slog.New(slog.DiscardHandler)
	if t.Cluster {
		return discard, func() {}
	}
	name := filepath.Join(t.DataDir, "logs", "commands.log")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return discard, func() {}
	}
	const enough = 8 << 20
	if info, err := os.Stat(name); err == nil && info.Size() > enough {
		_ = os.Rename(name, name+".1")
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return discard, func() {}
	}
	return slog.New(slog.NewTextHandler(file, nil)).With("pid", os.Getpid()), func() { _ = file.Close() }
}

// Target is the place where sessions run: a cluster, or a data directory on this machine.
type Target struct {
	Cluster bool
	Options client.Options // client options for a cluster
	DataDir string         // absolute; of a local stack

	// OtherUsers admits all users of this machine to a local stack that this
	// invocation starts.
	OtherUsers bool

	// Ports are the ports of a local stack that this invocation starts; 0 means any.
	Ports local.Ports

	// Metrics count the activities of a worker that this invocation runs. It may be nil.
	Metrics *cluster.Metrics
}

// Target determines the target from flags and environment variables, without connecting.
func (c *CLI) Target() (Target, error) {
	options, found, err := cluster.Options(c.Address, c.Namespace)
	switch {
	case err != nil:
		return Target{}, err
	case !found:
		return c.localTarget()
	}
	if err := checkAddress(options.HostPort); err != nil {
		return Target{}, err
	}
	return Target{Cluster: true, Options: options}, nil
}

// String names the target in messages, with a preposition.
func (t Target) String() string {
	if t.Cluster {
		return "at " + t.Options.HostPort + " in the namespace " + t.Options.Namespace
	}
	return "in " + t.DataDir
}

// checkAddress refuses a malformed address, which would otherwise cause a timeout.
func checkAddress(address string) error {
	problem := ""
	_, port, err := net.SplitHostPort(address)
	number, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case strings.Contains(address, "://"):
		problem = "has a scheme"
	case err != nil || port == "":
		problem = "has no port"
	case bad != nil || number == 0:
		problem = "has a port that is not a number from 1 to 65535"
	}
	if problem == "" {
		return nil
	}
	return fmt.Errorf("the Temporal address %q %s; give it as HOST:PORT, such as 127.0.0.1:7233, with --address or TEMPORAL_ADDRESS",
		text.Truncate(address, MaxEcho), problem)
}

func (c *CLI) localTarget() (Target, error) {
	switch {
	case c.Bucket != "" || c.Prefix != "":
		return Target{}, errors.New("--bucket and --prefix belong to a cluster, the local stack has a store of its own; add --address, or leave them out")
	case c.Namespace != "" && c.Namespace != client.DefaultNamespace:
		return Target{}, fmt.Errorf("the local stack has only the namespace %q, not %q; add --address, or leave --namespace out", client.DefaultNamespace, c.Namespace)
	}
	dir, err := c.KeepDir()
	return Target{DataDir: dir}, err
}

// KeepDir returns the data directory, in which clients of a cluster also keep local state.
func (c *CLI) KeepDir() (string, error) {
	dir := c.DataDir
	if dir == "" {
		var err error
		if dir, err = cluster.UserDir("XDG_DATA_HOME", ".local", "share"); err != nil {
			return "", fmt.Errorf("find the data directory: %w; give one with --data-dir", err)
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the data directory %s: %w", dir, err)
	}
	return abs, nil
}
