//go:build e2e

package chaos

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const bucket = "sessions"

// fleetWorker is a worker process that can be killed and started again.
type fleetWorker struct {
	t    *testing.T
	name string
	make func() *exec.Cmd
	log  string

	child *exec.Cmd
	ended chan struct{}
}

// place is where a worker runs and how it reaches the rest.
type place struct {
	name   string
	binary string
	prefix []string // of the command line, such as that of another network
	flags  []string

	settings string // more lines of its configuration
	reach    func(address string) string
	storage  string // URL
}

// newWorker starts a worker of the cluster.
func (c *cluster) newWorker(p place) *fleetWorker {
	c.t.Helper()
	home := c.t.TempDir()
	file := filepath.Join(home, "worker.yaml")
	settings := p.settings + fmt.Sprintf(workerSettings, p.reach(strings.TrimPrefix(c.model.URL, "http://")))
	require.NoError(c.t, os.WriteFile(file, []byte(settings), 0o600))
	args := append(p.prefix, p.binary, "--address", p.reach(c.temporal.Address), "--bucket", bucket, "--worker-config", file,
		"--state-dir", filepath.Join(home, "state"), "--log-format", "json")
	args = append(args, p.flags...)
	env := []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + home, "MODEL_API_KEY=" + p.name,
		"AWS_ENDPOINT_URL_S3=http://" + p.reach(strings.TrimPrefix(p.storage, "http://")), "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=" + c.minio.AccessKey, "AWS_SECRET_ACCESS_KEY=" + c.minio.SecretKey,
	}
	w := &fleetWorker{t: c.t, name: p.name, log: filepath.Join(home, "log"), make: func() *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = home, env
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}}
	w.start()
	c.t.Cleanup(w.kill)
	return w
}

const workerSettings = `heartbeat_timeout_seconds: 20
max_concurrent_steps: 16
providers:
  faulty: {base_url: "http://%s/v1", api_key_env: MODEL_API_KEY, price_per_million: {input: 1, cached_input: 0.1, output: 2}}
teams:
  trio:
    agents:
      - {id: agent_a, backend: {provider: faulty, model: model-a}}
      - {id: agent_b, backend: {provider: faulty, model: model-b}}
      - {id: agent_c, backend: {provider: faulty, model: model-c}}
  tester: {agents: [{id: agent_t, backend: {provider: faulty, model: model-t}}]}
`

func (w *fleetWorker) start() {
	w.t.Helper()
	log, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
	defer log.Close()
	child := w.make()
	child.Stdout, child.Stderr = log, log
	require.NoError(w.t, child.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = child.Wait() // it is killed
	}()
	w.child, w.ended = child, ended
}

func (w *fleetWorker) kill() {
	_ = w.child.Process.Kill() // it may have ended
	<-w.ended
}

// revive starts a worker that has ended by itself, as systemd and Kubernetes do, and reports whether it had.
func (w *fleetWorker) revive() bool {
	select {
	case <-w.ended:
		w.start()
		return true
	default:
		return false
	}
}

// tail is the end of the worker's log.
func (w *fleetWorker) tail() string {
	const lines = 20
	data, _ := os.ReadFile(w.log)
	all := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// freeAddress returns an address of this machine at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// forward serves an address at a host, and returns the address there.
func forward(t *testing.T, host, to string) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go pipe(from, to)
		}
	}()
	return listener.Addr().String()
}

// pipe connects two ends until one of them closes.
func pipe(from net.Conn, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		_ = from.Close()
		return
	}
	join := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // it ends with its end
		_ = to.Close()
		_ = from.Close()
	}
	go join(to, from)
	join(from, to)
}
