//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	sessionflow "conclave/workflows/session"
)

// binary returns an executable built by `make e2e`, whose path is in an environment variable.
func binary(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	require.NotEmpty(t, path, "%s is not set: run make e2e", variable)
	return path
}

// cli is a user's shell with its own home and an environment that only the tests set.
type e2eCLI struct {
	t    *testing.T
	home string
	env  []string
}

func newCLI(t *testing.T, env ...string) *e2eCLI {
	t.Helper()
	home := t.TempDir()
	c := &e2eCLI{t: t, home: home, env: append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}, env...)}
	t.Cleanup(c.gone)
	return c
}

// output is the output and the exit code of a command.
type output struct {
	stdout, stderr string
	code           int
}

func (c *e2eCLI) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.t.Context(), name, args...)
	cmd.Env, cmd.Dir = c.env, c.home
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// conclave runs the built binary to its end.
func (c *e2eCLI) conclave(args ...string) output {
	c.t.Helper()
	return c.run(binary(c.t, "CONCLAVE_BIN"), args...)
}

// temporal runs the Temporal CLI to its end.
func (c *e2eCLI) temporal(args ...string) output {
	c.t.Helper()
	return c.run(binary(c.t, "TEMPORAL_BIN"), args...)
}

// runTime bounds a command: one that never ends fails its own test instead of all tests at their
// timeout.
const runTime = 4 * time.Minute

func (c *e2eCLI) run(name string, args ...string) output {
	c.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := c.command(name, args...)
	defer time.AfterFunc(runTime, func() {
		c.t.Errorf("%s %s goes on after %s", filepath.Base(name), strings.Join(args, " "), runTime)
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}).Stop()
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(c.t, err)
	}
	c.t.Logf("%s %s → %d\n%s%s", filepath.Base(name), strings.Join(args, " "), cmd.ProcessState.ExitCode(), stdout.String(), stderr.String())
	return output{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
}

// background is a command that runs beside the test.
type background struct {
	*exec.Cmd
	log  *syncBuffer
	done chan struct{}
}

func (c *e2eCLI) start(args ...string) *background {
	c.t.Helper()
	return c.startProgram(binary(c.t, "CONCLAVE_BIN"), args...)
}

func (c *e2eCLI) startProgram(name string, args ...string) *background {
	c.t.Helper()
	cmd := c.command(name, args...)
	b := &background{Cmd: cmd, log: &syncBuffer{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = b.log, b.log
	require.NoError(c.t, cmd.Start())
	go func() {
		_ = cmd.Wait() // the exit code is in the process state
		close(b.done)
	}()
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if c.t.Failed() {
			c.t.Logf("%s %s:\n%s", filepath.Base(name), strings.Join(args, " "), b.log.String())
		}
	})
	return b
}

// prints waits until the command has printed text.
func (b *background) prints(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(b.log.String(), text) }, time.Minute, 20*time.Millisecond, "waiting for %q in:\n%s", text, b.log)
}

// ends waits until the command has ended and returns its exit code.
func (b *background) ends(t *testing.T) int {
	t.Helper()
	select {
	case <-b.done:
		return b.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		require.Fail(t, "the command did not end", b.log.String())
		return -1
	}
}

// file writes a file into the home and returns its path.
func (c *e2eCLI) file(name, content string) string {
	c.t.Helper()
	path := filepath.Join(c.home, name)
	require.NoError(c.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// lastLine decodes the last line of an --automation run.
func (o output) lastLine(t *testing.T, v any) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(o.stdout, "\n"), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), v), o.stdout)
}

// result returns the result of an --automation run of a session that ended with a status.
func (o output) result(t *testing.T, status string) (result sessionflow.Result) {
	t.Helper()
	o.lastLine(t, &result)
	require.Equal(t, status, result.Status)
	return result
}

// ended waits for a session, which ends with a status, and returns its result.
func ended(t *testing.T, run client.WorkflowRun, status string) (result sessionflow.Result) {
	t.Helper()
	require.NoError(t, run.Get(t.Context(), &result))
	require.Equal(t, status, result.Status)
	return result
}

// processes returns those with this home.
func (c *e2eCLI) processes() (ids []int) {
	mine := []byte("HOME=" + c.home + "\x00")
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environments {
		data, err := os.ReadFile(name)
		if id, numeric := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && numeric == nil && bytes.Contains(data, mine) {
			ids = append(ids, id)
		}
	}
	return ids
}

// killAll kills the processes with this home, the embedded stack included.
func (c *e2eCLI) killAll() {
	for _, id := range c.processes() {
		_ = syscall.Kill(id, syscall.SIGKILL) // it may have ended
	}
}

// gone waits until no process with this home is left.
func (c *e2eCLI) gone() {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return len(c.processes()) == 0 }, 30*time.Second, 50*time.Millisecond, "processes of %s are left", c.home)
}
