package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
	"google.golang.org/protobuf/types/known/durationpb"

	"conclave/cmd/conclave/local"
	"conclave/worker"
	"conclave/workflows"
)

// archivalDisabled is the value with which Temporal disables archival.
const archivalDisabled = "disabled"

// startTemporal returns when the namespace exists. Only then can it report the activities of dead workers.
func (s *servers) startTemporal(ctx context.Context, database *config.SQL, reserved *reservation, logger log.Logger) error {
	listeners := map[primitives.ServiceName]net.Listener{
		primitives.FrontendService: reserved.temporal,
		primitives.HistoryService:  reserved.history,
		primitives.MatchingService: reserved.matching,
		primitives.WorkerService:   reserved.systems,
	}
	hosts := make(map[primitives.ServiceName]static.Hosts, len(listeners))
	for service, listener := range listeners {
		hosts[service] = static.SingleLocalHost(listener.Addr().String())
	}
	server, err := temporal.NewServerFx(
		temporalModule(listeners),
		temporal.WithConfig(temporalConfig(database, listeners)),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithDynamicConfigClient(dynamicSettings()),
	)
	if err != nil {
		return fmt.Errorf("assemble the Temporal server: %w", err)
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("start the Temporal server: %w", err)
	}
	s.stops = append(s.stops, func(context.Context) { _ = server.Stop() })
	if err := s.awaitNamespace(ctx); err != nil {
		return err
	}
	return s.reapWorkers()
}

// temporalConfig configures a single process with one shard. The number of shards must not
// change for an existing database.
func temporalConfig(database *config.SQL, listeners map[primitives.ServiceName]net.Listener) *config.Config {
	services := make(map[string]config.Service, len(listeners))
	for service, listener := range listeners {
		services[string(service)] = config.Service{RPC: config.RPC{GRPCPort: portOf(listener), BindOnIP: loopback}}
	}
	frontend := listeners[primitives.FrontendService].Addr().String()
	return &config.Config{
		Services: services,
		Persistence: config.Persistence{
			DefaultStore:     sqlite.PluginName,
			VisibilityStore:  sqlite.PluginName,
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{sqlite.PluginName: {SQL: database}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: frontend},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: archivalDisabled},
			Visibility: config.VisibilityArchival{State: archivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: archivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: archivalDisabled},
		}},
	}
}

// dynamicSettings returns the settings that differ from Temporal's defaults.
func dynamicSettings() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// Cancellations reach activities within milliseconds instead of at the next heartbeat.
		dynamicconfig.WorkerCommandsEnabled.Key():             true,
		dynamicconfig.EnableCancelActivityWorkerCommand.Key(): true,
		// A worker that stops is handed no task that it would lose.
		dynamicconfig.EnableCancelWorkerPollsOnShutdown.Key(): true,
		// The sessions of one team do not wait for all sessions of another.
		dynamicconfig.MatchingEnableFairness.Key(): true,
		// A killed worker is no longer counted after two of its heartbeats, which are a minute apart.
		dynamicconfig.MatchingWorkerRegistryEntryTTL.Key():         2 * time.Minute,
		dynamicconfig.MatchingWorkerRegistryEvictionInterval.Key(): 10 * time.Second,
		// Disables requests to the internet.
		dynamicconfig.EnableServerVersionCheck.Key(): false,
		// In a single process, partitions of a task queue would only forward to each other.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// A deleted history is removed once the tasks of its close are checkpointed. The
		// default interval of half a minute exceeds the life of a stack for one command.
		dynamicconfig.TransferProcessorUpdateAckInterval.Key():   time.Second,
		dynamicconfig.VisibilityProcessorUpdateAckInterval.Key(): time.Second,
		// Limits the caches to the memory of a laptop.
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 8192,
		// Commands and the Web UI list sessions more often than ten times a second, the default limit.
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
	}
}

func (s *servers) lazyClient() (client.Client, error) {
	c, err := client.NewLazyClient(client.Options{
		HostPort: s.stack.TemporalAddress, Namespace: s.stack.Namespace,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the Temporal server: %w", err)
	}
	return c, nil
}

func (s *servers) awaitNamespace(ctx context.Context) error {
	c, err := s.lazyClient()
	if err != nil {
		return err
	}
	defer c.Close()
	err = s.repeatUntil(ctx, func(ctx context.Context) error {
		_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespaceName})
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the Temporal server at %s: %w", s.stack.TemporalAddress, err)
	}
	return nil
}

const (
	databasePrefix = "temporal-"
	databaseSuffix = ".db"
	// retention is how long histories of closed workflows are kept. Artifacts are not deleted.
	retention = 30 * 24 * time.Hour
	// clusterName must not change for an existing database.
	clusterName = "active"
)

// openDatabase configures the database and creates it if it is missing. Its name has the server version,
// because Temporal cannot upgrade an SQLite file. A directory with the database of another version is
// refused, because a new database would hide the existing sessions.
func openDatabase(dataDir string) (*config.SQL, error) {
	name := databasePrefix + headers.ServerVersion + databaseSuffix
	others, err := filepath.Glob(filepath.Join(escapeGlob(dataDir), databasePrefix+"*"+databaseSuffix))
	if err != nil {
		return nil, fmt.Errorf("look for databases: %w", err)
	}
	file := filepath.Join(dataDir, name)
	info, err := os.Stat(file)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("open the database %s: it is a directory; move it away and run the command again", file)
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open the database: %w; check the permissions of its directory, or choose another --data-dir", err)
	case len(others) > 0:
		return nil, wrongVersion(others[0])
	default:
		if err := setAside(file); err != nil {
			return nil, err
		}
		if err := createDatabase(file); err != nil {
			return nil, fmt.Errorf("make the database %s: %w", file, err)
		}
	}
	database := sqliteConfig(file, map[string]string{
		// A commit does not wait for the disk. Only a crash of the machine can lose the last
		// commits, and the artifacts contain their results.
		"journal_mode": "wal",
		"synchronous":  "normal",
		"busy_timeout": "10000",
	})
	if err := registerNamespace(database); err != nil {
		return nil, fmt.Errorf("open the database %s: %w", file, err)
	}
	return database, nil
}

// damage has phrases with which SQLite and Temporal report a damaged database file.
var damage = []string{"database disk image is malformed", "file is not a database", "no such table", "no such column"}

func explainDamage(dataDir string, err error) error {
	if err == nil || !slices.ContainsFunc(damage, func(words string) bool { return strings.Contains(err.Error(), words) }) {
		return err
	}
	file := filepath.Join(dataDir, databasePrefix+headers.ServerVersion+databaseSuffix)
	return fmt.Errorf("%w; the database %s is damaged: put a copy of it back, or move it away with its -wal and -shm files and run the command again. "+
		"A new database forgets the workflows: open sessions do not go on, and list, status and result know none of the old ones. "+
		"Their files are safe under %s, and pull and transcript read them",
		err, file, filepath.Join(dataDir, "s3"))
}

func wrongVersion(file string) error {
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), databasePrefix), databaseSuffix)
	return fmt.Errorf("open the database %s: it was written by Temporal server %s, this program embeds %s and cannot convert it; "+
		"use the program that wrote it, choose another --data-dir, or move the file away (this forgets the workflows, the artifacts stay)",
		file, version, headers.ServerVersion)
}

// setAside renames the remaining logs of a database that was moved away, because a new
// database would read them as its own.
func setAside(file string) error {
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Rename(file+suffix, file+suffix+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set the log of the previous database aside: %w", err)
		}
	}
	return nil
}

// createDatabase writes the schema to a temporary file and renames it, so that a crash leaves no
// partial schema.
func createDatabase(file string) error {
	next := file + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := sqliteschema.SetupSchema(sqliteConfig(next, map[string]string{"journal_mode": "memory", "synchronous": "off"})); err != nil {
		return err
	}
	if err := syncPath(next); err != nil {
		return err
	}
	if err := os.Rename(next, file); err != nil {
		return err
	}
	return syncPath(filepath.Dir(file))
}

// sqliteConfig configures a connection. SQLite reads the name as the path of a URI and the
// attributes as pragmas.
func sqliteConfig(file string, attributes map[string]string) *config.SQL {
	attributes["mode"] = "rwc"
	return &config.SQL{
		PluginName:        sqlite.PluginName,
		DatabaseName:      (&url.URL{Path: file}).EscapedPath(),
		ConnectAttributes: attributes,
	}
}

func registerNamespace(database *config.SQL) error {
	namespace, err := sqliteschema.NewNamespaceConfig(clusterName, namespaceName, false, workflows.Attributes())
	if err != nil {
		return err
	}
	namespace.Detail.Config.Retention = durationpb.New(retention)
	return sqliteschema.CreateNamespaces(database, namespace)
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// syncPath makes a file's content or a directory's entries survive a power failure.
func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// lateTasks is how long after a worker's death the server may still assign tasks to it.
const lateTasks = 5 * time.Second

// reapWorkers reports the activities of dead workers as failed, once now and then periodically.
func (s *servers) reapWorkers() error {
	c, err := s.lazyClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &reaper{client: c, report: worker.ReportDead(ctx, c), died: map[string]time.Time{}}
	var watching sync.WaitGroup
	watching.Go(func() {
		defer c.Close()
		worker.WatchRosters(ctx, local.Workers(s.stack.DataDir), "", r.reap, func() { _ = r.failUnnoted(ctx) })
	})
	s.stops = append(s.stops, func(context.Context) { cancel(); watching.Wait() })
	return nil
}

// reaper reports the activities of dead workers.
type reaper struct {
	client client.Client
	report func(worker.DeadWorker) error
	died   map[string]time.Time // when the death of a worker was detected, by its identity
}

func (r *reaper) reap(d worker.DeadWorker) error {
	r.died[d.Identity] = time.Now()
	return r.report(d)
}

// failUnnoted fails activities assigned to workers that died before they could record them.
func (r *reaper) failUnnoted(ctx context.Context) error {
	for identity, at := range r.died {
		if time.Since(at) > lateTasks {
			delete(r.died, identity)
		}
	}
	if len(r.died) == 0 {
		return nil
	}
	var next []byte
	for {
		page, err := r.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Running'", NextPageToken: next})
		if err != nil {
			return err
		}
		for _, run := range page.GetExecutions() {
			if err := r.failUnnotedOf(ctx, run.GetExecution().GetWorkflowId(), run.GetExecution().GetRunId()); err != nil {
				return err
			}
		}
		if next = page.GetNextPageToken(); len(next) == 0 {
			return nil
		}
	}
}

func (r *reaper) failUnnotedOf(ctx context.Context, workflowID, runID string) error {
	run, err := r.client.DescribeWorkflowExecution(ctx, workflowID, runID)
	if err != nil {
		return err
	}
	var tasks []worker.RosterTask
	for _, a := range run.GetPendingActivities() {
		if _, dead := r.died[a.GetLastWorkerIdentity()]; dead && a.GetState() != enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
			tasks = append(tasks, worker.RosterTask{Namespace: namespaceName, WorkflowID: workflowID, RunID: runID, ActivityID: a.GetActivityId()})
		}
	}
	return r.report(worker.DeadWorker{Tasks: tasks})
}
