//go:build e2e || bench

package clustertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Process is a server that can be killed and restarted with the same command line and data.
type Process struct {
	t     testing.TB
	name  string
	make  func() *exec.Cmd
	ready func() error
	log   string

	child *exec.Cmd
	ended chan struct{}
}

// startTime is the maximum duration of a server's start on a busy machine.
const startTime = 3 * time.Minute

// start starts a server and waits until ready returns nil. The server ends with the test.
func start(t testing.TB, name string, command func() *exec.Cmd, ready func() error) *Process {
	t.Helper()
	p := &Process{t: t, name: name, make: command, ready: ready, log: filepath.Join(t.TempDir(), name+".log")}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Start starts or restarts the server and waits until it serves.
func (p *Process) Start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.t, err)
	defer log.Close()
	child := p.make()
	child.Stdout, child.Stderr = log, log
	require.NoError(p.t, child.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = child.Wait() // a killed server exits with an error
	}()
	p.child, p.ended = child, ended
	p.await()
}

// await waits until the server serves. If the server exits, it fails the test with the end of the
// log.
func (p *Process) await() {
	p.t.Helper()
	poll, tooLong := time.NewTicker(50*time.Millisecond), time.After(startTime)
	defer poll.Stop()
	for {
		err := p.ready()
		if err == nil {
			return
		}
		select {
		case <-p.ended:
			require.FailNow(p.t, p.name+" has ended", "%s", p.Tail())
		case <-tooLong:
			require.FailNow(p.t, p.name+" does not serve", "%v\n%s", err, p.Tail())
		case <-poll.C:
		}
	}
}

// Kill sends SIGKILL and waits until the server has exited. It does nothing if the server has
// exited already.
func (p *Process) Kill() { p.Signal(syscall.SIGKILL) }

// Signal sends a signal and waits until the server has exited.
func (p *Process) Signal(signal syscall.Signal) {
	p.t.Helper()
	_ = p.child.Process.Signal(signal) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(startTime):
		require.FailNow(p.t, p.name+" does not end", "%s", p.Tail())
	}
}

// PID returns the process ID of the running server.
func (p *Process) PID() int { return p.child.Process.Pid }

// Tail returns the end of the server's log.
func (p *Process) Tail() string {
	const enough = 4000
	data, _ := os.ReadFile(p.log)
	return string(data[max(0, len(data)-enough):])
}

// program returns the path in an environment variable that make sets.
func program(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	require.NotEmpty(t, path, "%s is not set: run make chaos", variable)
	return path
}

// ports returns n unused ports of this machine. They are below the range of outgoing
// connections and fit in 15 bits, which Temporal requires.
func ports(t testing.TB, n int) []int {
	t.Helper()
	const lowest, highest, tries = 10000, 30000, 1000
	var free []int
	for range tries {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", local(port))
		if err != nil {
			continue
		}
		defer listener.Close() // closed after all are chosen, so that they differ
		if free = append(free, port); len(free) == n {
			return free
		}
	}
	require.FailNow(t, "there are no free ports")
	return nil
}

// local returns an address of this machine.
func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// accepts returns nil if an address accepts connections.
func accepts(address string) error {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	return conn.Close()
}
