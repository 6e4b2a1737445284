//go:build e2e || bench

package clustertest

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// MinIO is one S3 store of two servers with two drives each. With one server down, it
// serves reads and refuses writes.
type MinIO struct {
	Nodes                [2]*Process
	Endpoints            [2]string // URLs; each serves everything
	AccessKey, SecretKey string
}

// StartMinIO starts both servers on empty drives and waits until they accept writes.
func StartMinIO(t testing.TB) MinIO {
	t.Helper()
	m := MinIO{AccessKey: "minio-access", SecretKey: "minio-secret-key"}
	dir := t.TempDir()
	var drives []string
	free := ports(t, len(m.Nodes))
	for i, port := range free {
		m.Endpoints[i] = "http://" + local(port)
		for j := range 2 {
			drives = append(drives, fmt.Sprintf("%s%s/node%d/drive%d", m.Endpoints[i], dir, i, j))
		}
	}
	command := func(i int) func() *exec.Cmd {
		return func() *exec.Cmd {
			args := append([]string{"server", "--quiet", "--address", local(free[i]), "--console-address", "127.0.0.1:0"}, drives...)
			cmd := exec.Command(program(t, "MINIO_BIN"), args...)
			cmd.Env = []string{
				"HOME=" + filepath.Join(dir, fmt.Sprintf("home%d", i)), "MINIO_ROOT_USER=" + m.AccessKey, "MINIO_ROOT_PASSWORD=" + m.SecretKey,
				"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CI_CD=1",
				// In a container MinIO would wait for a non-loopback address.
				"_MINIO_SERVER_LOCAL=" + local(free[i]),
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			return cmd
		}
	}
	ready := func(i int) func() error {
		return func() error {
			response, err := http.Get(m.Endpoints[i] + "/minio/health/cluster")
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("the server answers %s", response.Status)
			}
			return nil
		}
	}
	// A server becomes ready only once the other one runs, so the first start does not wait.
	m.Nodes[0] = start(t, "minio-1", command(0), func() error { return accepts(local(free[0])) })
	m.Nodes[1] = start(t, "minio-2", command(1), ready(1))
	m.Nodes[0].ready = ready(0)
	m.Nodes[0].await()
	require.NoError(t, ready(1)())
	return m
}
