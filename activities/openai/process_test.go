package openai_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program returns a path below that of a variable, or skips the test without it.
func program(t *testing.T, variable string, parts ...string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set; make servers sets it", variable)
	}
	path, err := filepath.Abs(filepath.Join(append([]string{path}, parts...)...))
	require.NoError(t, err)
	require.FileExists(t, path)
	return path
}

// weights returns a file of the tiny models.
func weights(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("CONCLAVE_GGUF")
	if dir == "" {
		dir = filepath.Join("testdata", "weights")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	require.NoError(t, err)
	require.FileExists(t, path)
	return path
}

// address returns a free address of this machine.
func address(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// output collects a program's output for failed tests.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run starts a server until the end of the test, and waits until url responds.
func run(t *testing.T, url string, env []string, name string, args ...string) *output {
	t.Helper()
	said := &output{}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	command.Env = append(os.Environ(), env...)
	command.Stdout, command.Stderr = said, said
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		ended := time.AfterFunc(10*time.Second, func() { _ = command.Process.Kill() })
		_ = command.Wait()
		ended.Stop()
		if t.Failed() {
			text := said.String()
			t.Log(text[max(0, len(text)-8000):])
		}
	})
	require.Eventually(t, func() bool {
		res, err := http.Get(url)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond, "%s does not answer", strings.Join(command.Args, " "))
	return said
}
