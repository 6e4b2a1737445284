package hall

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.temporal.io/sdk/client"

	"conclave/cmd/conclave/localstack"
	"conclave/engine/text"
	"conclave/worker/cluster"
	"conclave/worker/metrics"
)

// Target is the place where sessions run: a cluster, or a data directory on this machine.
type Target struct {
	Cluster bool
	Options client.Options // client options for a cluster
	DataDir string         // absolute; of a local stack

	// OtherUsers admits all users of this machine to a local stack that this
	// invocation starts.
	OtherUsers bool

	// Ports are the ports of a local stack that this invocation starts; 0 means any.
	Ports localstack.Ports

	// Metrics count the activities of a worker that this invocation runs. It may be nil.
	Metrics *metrics.Metrics
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
		if dir, err = defaultDataDir(); err != nil {
			return "", err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the data directory %s: %w", dir, err)
	}
	return abs, nil
}

// defaultDataDir follows the XDG base directory specification, which ignores relative paths.
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
