package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"conclave/cmd/conclave/local"

	"github.com/stretchr/testify/require"
)

// holderCommand makes the test binary a command that holds a lease until its standard
// input ends.
const holderCommand = "__holder"

func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case local.ChildCommand:
		err = RunChild(context.Background(), os.Stdin, os.Stderr)
	case holderCommand:
		err = hold(os.Args[2])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// joined is the output of a holder that has its lease.
type joined struct {
	Stack   local.Stack `json:"stack"`
	Started bool        `json:"started"`
}

func hold(dataDir string) error {
	lease, err := local.Join(context.Background(), dataDir, local.Options{})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(joined{Stack: lease.Stack, Started: lease.Started}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return lease.Release()
}

// holder is another command with a lease.
type holder struct {
	process *os.Process
	// leave makes it release its lease and exit.
	leave func()
	out   *bufio.Reader
}

func startHolder(t *testing.T, dataDir string) *holder {
	t.Helper()
	cmd := exec.Command(os.Args[0], holderCommand, dataDir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &holder{process: cmd.Process, leave: func() { _ = in.Close() }, out: bufio.NewReader(out)}
}

func (h *holder) joined(t *testing.T) joined {
	t.Helper()
	var j joined
	require.NoError(t, json.NewDecoder(h.out).Decode(&j))
	return j
}

// join joins until the end of the test and then waits until the stack has stopped, so
// that its directory can be removed.
func join(t *testing.T, dataDir string, opts local.Options) *local.Lease {
	t.Helper()
	lease, err := local.Join(t.Context(), dataDir, opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, lease.Release())
		requireGone(t, dataDir)
	})
	return lease
}

func requireGone(t *testing.T, dataDir string) {
	t.Helper()
	require.Eventually(t, func() bool {
		free, err := isFree(filepath.Join(dataDir, "stack.lock"))
		return err == nil && free
	}, 2*time.Minute, 20*time.Millisecond, "the stack on %s did not go", dataDir)
}
