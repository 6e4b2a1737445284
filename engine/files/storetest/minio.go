//go:build e2e

package storetest

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Server is a running server without buckets.
type Server struct {
	Address              string // host:port
	AccessKey, SecretKey string
}

// Endpoint is the server's URL.
func (m Server) Endpoint() string { return "http://" + m.Address }

// StartMinIO runs the program MINIO_BIN on an empty directory until the test ends.
func StartMinIO(t *testing.T) Server {
	t.Helper()
	binary := os.Getenv("MINIO_BIN")
	require.NotEmpty(t, binary, "MINIO_BIN is not set: run make minio or make e2e")
	for range 3 {
		m := Server{Address: freeAddress(t), AccessKey: "minio-access", SecretKey: "minio-secret-key"}
		if m.startServer(t, binary) {
			return m
		}
	}
	require.FailNow(t, "MinIO did not start in three attempts")
	return Server{}
}

// startServer starts the server and reports whether it became ready. It fails if another process has
// taken the port.
func (m Server) startServer(t *testing.T, binary string) bool {
	t.Helper()
	home := t.TempDir()
	child := exec.Command(binary, "server", "--quiet", "--address", m.Address, "--console-address", "127.0.0.1:0", home+"/data")
	child.Env = []string{
		"HOME=" + home, "MINIO_ROOT_USER=" + m.AccessKey, "MINIO_ROOT_PASSWORD=" + m.SecretKey,
		"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CI_CD=1",
	}
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, child.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = child.Wait()
	}()
	t.Cleanup(func() {
		_ = child.Process.Kill()
		<-ended
	})
	return m.becomesReady(t, ended)
}

func (m Server) becomesReady(t *testing.T, ended <-chan struct{}) bool {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	tooLong := time.After(time.Minute)
	for {
		select {
		case <-ended:
			return false
		case <-tooLong:
			require.FailNow(t, "MinIO did not get ready")
		case <-poll.C:
		}
		response, err := http.Get(m.Endpoint() + "/minio/health/ready")
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return true
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
