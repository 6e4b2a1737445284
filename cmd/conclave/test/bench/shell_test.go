//go:build bench

package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shell is a user's environment: an empty home, and nothing else.
type shell struct {
	b    *testing.B
	home string
	env  []string
}

func newShell(b *testing.B, env ...string) *shell {
	b.Helper()
	home := b.TempDir()
	s := &shell{b: b, home: home, env: append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, env...)}
	b.Cleanup(s.gone)
	return s
}

// file writes a file into the home and returns its path.
func (s *shell) file(name, content string) string {
	s.b.Helper()
	path := filepath.Join(s.home, name)
	require.NoError(s.b, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// process is a running conclave command.
type process struct {
	*exec.Cmd
	output bytes.Buffer // to be read after the end
}

// start runs the binary of `make bench`.
func (s *shell) start(env, args []string) *process {
	s.b.Helper()
	binary := os.Getenv("CONCLAVE_BIN")
	require.NotEmpty(s.b, binary, "CONCLAVE_BIN is not set: run make bench")
	p := &process{Cmd: exec.Command(binary, args...)}
	p.Env, p.Dir = append(slices.Clip(s.env), env...), s.home
	p.Stdout, p.Stderr = &p.output, &p.output
	require.NoError(s.b, p.Start())
	return p
}

// ended waits for the end of a process, which must succeed.
func (s *shell) ended(p *process) {
	s.b.Helper()
	require.NoError(s.b, p.Wait(), "%s\n%s", p.Args, &p.output)
}

// background runs the binary until the benchmark ends.
func (s *shell) background(env, args []string) *process {
	s.b.Helper()
	p := s.start(env, args)
	s.b.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGINT)
		s.ended(p)
	})
	return p
}

// gone waits until no process with this home runs, the embedded stack included.
func (s *shell) gone() {
	s.b.Helper()
	mine := []byte("HOME=" + s.home + "\x00")
	require.Eventually(s.b, func() bool {
		environments, _ := filepath.Glob("/proc/[0-9]*/environ")
		return !slices.ContainsFunc(environments, func(name string) bool {
			data, err := os.ReadFile(name)
			return err == nil && bytes.Contains(data, mine)
		})
	}, 30*time.Second, 50*time.Millisecond, "processes of %s are left", s.home)
}
