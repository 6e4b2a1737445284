//go:build e2e || bench

package clustertest

import (
	"context"
	"fmt"
	"log/slog"
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

	"conclave/workflows/drive"
)

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
	free := ports(t, 8)
	dir := t.TempDir()
	config := fmt.Sprintf(temporalConfig, database.Port, free[0], free[1], free[2], free[3], free[4], free[5], free[6], free[7])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(config), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dynamic.yaml"), []byte(dynamicConfig), 0o600))
	server := Temporal{Address: local(free[0])}
	server.Process = start(t, "temporal", func() *exec.Cmd {
		cmd := exec.Command(program(t, "TEMPORAL_SERVER_BIN"), "--config-file", filepath.Join(dir, "cluster.yaml"), "--allow-no-auth", "start")
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}, server.serves)
	server.prepare(t)
	return server
}

// Dial returns a client of the namespace default.
func (s Temporal) Dial(t testing.TB) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: s.Address, Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// serves lists the workflows of Temporal's system namespace, which succeeds once all services are
// ready.
func (s Temporal) serves() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := client.NewLazyClient(client.Options{HostPort: s.Address, Logger: quiet()})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().ListOpenWorkflowExecutions(ctx, &workflowservice.ListOpenWorkflowExecutionsRequest{Namespace: "temporal-system"})
	return err
}

// prepare registers the namespace and the search attributes and waits until they are usable.
func (s Temporal) prepare(t testing.TB) {
	t.Helper()
	c := s.Dial(t)
	_, err := c.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: client.DefaultNamespace, WorkflowExecutionRetentionPeriod: durationpb.New(7 * 24 * time.Hour),
	})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(check *assert.CollectT) {
		_, err := c.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
			Namespace: client.DefaultNamespace, SearchAttributes: drive.Attributes(),
		})
		require.NoError(check, err)
		_, err = c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: `ConclaveKind = "session"`})
		require.NoError(check, err)
	}, startTime, 200*time.Millisecond)
}

// createDatabases creates Temporal's two databases with its own tool.
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
			out, err := exec.Command(program(t, "TEMPORAL_SQL_BIN"), append(flags, args...)...).CombinedOutput()
			require.NoError(t, err, "%s: %s", args, out)
		}
	}
}

// quiet returns a logger that discards everything, because a client logs each failed connection
// while its server starts.
func quiet() sdklog.Logger { return sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

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
