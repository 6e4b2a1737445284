package s3store

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3api"

	"conclave/engine/files/storetest"
)

const gatewayEnv = "CONCLAVE_TEST_GATEWAY"

// gateway is a real S3 server. It changes its working directory and can be started
// only once in a process, so the test binary runs it as a child.
type gateway struct {
	Address, Dir, AccessKey, SecretKey string
}

// TestMain runs the gateway instead of the tests if gatewayEnv is set.
func TestMain(m *testing.M) {
	if os.Getenv(gatewayEnv) == "" {
		os.Exit(m.Run())
	}
	var g gateway
	err := json.Unmarshal([]byte(os.Getenv(gatewayEnv)), &g)
	if err == nil {
		err = g.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// serve runs until standard input ends, as it does with the parent.
func (g gateway) serve() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
		os.Exit(0)
	}()
	backend, err := posix.New(g.Dir, meta.XattrMeta{}, posix.PosixOpts{CopyObjectThreshold: 5 << 30})
	if err != nil {
		return err
	}
	ready := os.NewFile(3, "ready")
	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess: g.AccessKey, RootUserSecret: g.SecretKey, Ports: []string{g.Address},
		MaxConnections: 4096, MaxRequests: 2048, MultipartMaxParts: 10000,
		KeepAlive: true, Quiet: true, DisableACLs: true,
		S3Options: []s3api.Option{s3api.WithOnListen(func() { _, _ = ready.Write([]byte("1")) })},
	})
}

// startGateway returns a running server that ends with the test.
func startGateway(t *testing.T) gateway {
	t.Helper()
	for range 3 {
		g := gateway{Address: freeAddress(t), Dir: t.TempDir(), AccessKey: "test-access", SecretKey: "test-secret-key"}
		if g.start(t) {
			return g
		}
	}
	require.FailNow(t, "the gateway did not start in three attempts")
	return gateway{}
}

// start reports whether the server is listening; another process may have taken
// its port.
func (g gateway) start(t *testing.T) bool {
	t.Helper()
	input, err := json.Marshal(g)
	require.NoError(t, err)
	ready, readyEnd, err := os.Pipe()
	require.NoError(t, err)
	defer ready.Close()

	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), gatewayEnv+"="+string(input))
	child.Stderr = os.Stderr
	child.ExtraFiles = []*os.File{readyEnd}
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = child.Wait()
	})
	require.NoError(t, readyEnd.Close())
	n, _ := ready.Read(make([]byte, 1))
	return n == 1
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (g gateway) options(bucket, prefix string) Options {
	return Options{
		Bucket: bucket, Prefix: prefix, Endpoint: "http://" + g.Address,
		AccessKeyID: g.AccessKey, SecretAccessKey: g.SecretKey,
	}
}

// bucket creates a bucket.
func (g gateway) bucket(t *testing.T, name string) {
	t.Helper()
	storetest.CreateBucket(t, "http://"+g.Address, g.AccessKey, g.SecretKey, name)
}

func open(t *testing.T, opts Options) *Store {
	t.Helper()
	s, err := New(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
