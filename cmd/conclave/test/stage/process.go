//go:build e2e || bench

package stage

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"conclave/workflows"
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

// startProcess starts a server and waits until ready returns nil. The server ends with the test.
func startProcess(t testing.TB, name string, command func() *exec.Cmd, ready func() error) *Process {
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
	p.awaitReady()
}

// awaitReady waits until the server serves. If the server exits, it fails the test with the end of the
// log.
func (p *Process) awaitReady() {
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

func programPath(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	require.NotEmpty(t, path, "%s is not set: run make chaos", variable)
	return path
}

// freePorts returns n unused ports of this machine. They are below the range of outgoing
// connections and fit in 15 bits, which Temporal requires.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	const lowest, highest, tries = 10000, 30000, 1000
	var free []int
	for range tries {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", localAddress(port))
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

func localAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func acceptsConnections(address string) error {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	return conn.Close()
}

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
	free := freePorts(t, len(m.Nodes))
	for i, port := range free {
		m.Endpoints[i] = "http://" + localAddress(port)
		for j := range 2 {
			drives = append(drives, fmt.Sprintf("%s%s/node%d/drive%d", m.Endpoints[i], dir, i, j))
		}
	}
	command := func(i int) func() *exec.Cmd {
		return func() *exec.Cmd {
			args := append([]string{"server", "--quiet", "--address", localAddress(free[i]), "--console-address", "127.0.0.1:0"}, drives...)
			cmd := exec.Command(programPath(t, "MINIO_BIN"), args...)
			cmd.Env = []string{
				"HOME=" + filepath.Join(dir, fmt.Sprintf("home%d", i)), "MINIO_ROOT_USER=" + m.AccessKey, "MINIO_ROOT_PASSWORD=" + m.SecretKey,
				"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CI_CD=1",
				// In a container MinIO would wait for a non-loopback address.
				"_MINIO_SERVER_LOCAL=" + localAddress(free[i]),
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
	m.Nodes[0] = startProcess(t, "minio-1", command(0), func() error { return acceptsConnections(localAddress(free[0])) })
	m.Nodes[1] = startProcess(t, "minio-2", command(1), ready(1))
	m.Nodes[0].ready = ready(0)
	m.Nodes[0].awaitReady()
	require.NoError(t, ready(1)())
	return m
}

// Temporal is a Temporal server on PostgreSQL, with its four services in one process.
type Temporal struct {
	*Process
	Address string
}

// StartTemporal creates the databases, starts the server, and registers the namespace
// default with the search attributes of runs.
func StartTemporal(t testing.TB, database Postgres) Temporal {
	t.Helper()
	createDatabases(t, database)
	free := freePorts(t, 8)
	dir := t.TempDir()
	config := fmt.Sprintf(temporalConfig, database.Port, free[0], free[1], free[2], free[3], free[4], free[5], free[6], free[7])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(config), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dynamic.yaml"), []byte(dynamicConfig), 0o600))
	server := Temporal{Address: localAddress(free[0])}
	server.Process = startProcess(t, "temporal", func() *exec.Cmd {
		cmd := exec.Command(programPath(t, "TEMPORAL_SERVER_BIN"), "--config-file", filepath.Join(dir, "cluster.yaml"), "--allow-no-auth", "start")
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}, server.checkServing)
	server.prepareNamespace(t)
	return server
}

// Dial returns a client of the namespace default.
func (s Temporal) Dial(t testing.TB) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: s.Address, Logger: quietLogger()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// checkServing lists the workflows of Temporal's system namespace, which succeeds once all services are
// ready.
func (s Temporal) checkServing() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := client.NewLazyClient(client.Options{HostPort: s.Address, Logger: quietLogger()})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().ListOpenWorkflowExecutions(ctx, &workflowservice.ListOpenWorkflowExecutionsRequest{Namespace: "temporal-system"})
	return err
}

func (s Temporal) prepareNamespace(t testing.TB) {
	t.Helper()
	c := s.Dial(t)
	_, err := c.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: client.DefaultNamespace, WorkflowExecutionRetentionPeriod: durationpb.New(7 * 24 * time.Hour),
	})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(check *assert.CollectT) {
		_, err := c.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
			Namespace: client.DefaultNamespace, SearchAttributes: workflows.Attributes(),
		})
		require.NoError(check, err)
		_, err = c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: `ConclaveKind = "session"`})
		require.NoError(check, err)
	}, startTime, 200*time.Millisecond)
}

func createDatabases(t testing.TB, database Postgres) {
	t.Helper()
	for _, kind := range []string{"temporal", "visibility"} {
		name := map[string]string{"temporal": "temporal", "visibility": "temporal_visibility"}[kind]
		for _, args := range [][]string{
			{"create-database"},
			{"setup-schema", "--version", "0.0"},
			{"update-schema", "--schema-name", "postgresql/v12/" + kind},
		} {
			flags := []string{"--plugin", "postgres12", "--endpoint", "127.0.0.1", "--port", strconv.Itoa(database.Port), "--user", "temporal", "--database", name}
			out, err := exec.Command(programPath(t, "TEMPORAL_SQL_BIN"), append(flags, args...)...).CombinedOutput()
			require.NoError(t, err, "%s: %s", args, out)
		}
	}
}

// quietLogger returns a logger that discards everything, because a client logs each failed connection
// while its server starts.
func quietLogger() sdklog.Logger { return sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

// temporalConfig is a format for the port of the database and eight ports of services.
const temporalConfig = `log: {stdout: true, level: warn}
persistence:
  defaultStore: default
  visibilityStore: visibility
  numHistoryShards: 16
  datastores:
    default:
      sql: &sql {pluginName: postgres12, databaseName: temporal, connectAddr: "127.0.0.1:%[1]d", connectProtocol: tcp, user: temporal, password: temporal, maxConns: 40, maxIdleConns: 40, maxConnLifetime: 1h}
    visibility:
      sql: {<<: *sql, databaseName: temporal_visibility, maxConns: 10, maxIdleConns: 10}
global:
  membership: {maxJoinDuration: 30s, broadcastAddress: 127.0.0.1}
services:
  frontend: {rpc: {grpcPort: %[2]d, membershipPort: %[3]d, bindOnLocalHost: true}}
  matching: {rpc: {grpcPort: %[4]d, membershipPort: %[5]d, bindOnLocalHost: true}}
  history: {rpc: {grpcPort: %[6]d, membershipPort: %[7]d, bindOnLocalHost: true}}
  worker: {rpc: {grpcPort: %[8]d, membershipPort: %[9]d, bindOnLocalHost: true}}
clusterMetadata:
  enableGlobalNamespace: false
  failoverVersionIncrement: 10
  masterClusterName: active
  currentClusterName: active
  clusterInformation:
    active: {enabled: true, initialFailoverVersion: 1, rpcName: frontend, rpcAddress: "127.0.0.1:%[2]d"}
dcRedirectionPolicy: {policy: noop}
archival: {history: {state: disabled}, visibility: {state: disabled}}
publicClient: {hostPort: "127.0.0.1:%[2]d"}
dynamicConfigClient: {filepath: dynamic.yaml, pollInterval: 60s}
`

// dynamicConfig has the settings that docs/operating.md recommends and disables requests
// to the internet.
const dynamicConfig = `matching.enableFairness: [{value: true}]
frontend.enableServerVersionCheck: [{value: false}]
`
