package devserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

// archivalDisabled is how Temporal spells it.
const archivalDisabled = "disabled"

// startTemporal starts all four services and waits until the namespace can be
// described through the frontend.
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
	// The services listen already when they are assembled.
	for _, listener := range listeners {
		if err := take(listener); err != nil {
			return err
		}
	}
	server, err := temporal.NewServer(
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
	return s.awaitNamespace(ctx)
}

// temporalConfig is one machine's configuration: no membership protocol, no
// archive, no metrics, no profiler, and one shard, which may never change for
// an existing database.
func temporalConfig(database *config.SQL, listeners map[primitives.ServiceName]net.Listener) *config.Config {
	services := make(map[string]config.Service, len(listeners))
	for service, listener := range listeners {
		services[string(service)] = config.Service{RPC: config.RPC{GRPCPort: port(listener), BindOnIP: loopback}}
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

// dynamicSettings differ from Temporal's defaults for a reason each.
func dynamicSettings() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// A cancelled activity hears of it in milliseconds instead of with its
		// next heartbeat.
		dynamicconfig.WorkerCommandsEnabled.Key():             true,
		dynamicconfig.EnableCancelActivityWorkerCommand.Key(): true,
		// Nothing is told to or asked of the outside world.
		dynamicconfig.EnableServerVersionCheck.Key(): false,
		// One process: partitions of a task queue would only forward to each other.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// Memory for a laptop's sessions, not for a cluster's.
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 8192,
		// Commands and the Web UI list sessions more often than ten times a second.
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
	}
}

func (s *servers) awaitNamespace(ctx context.Context) error {
	c, err := client.NewLazyClient(client.Options{
		HostPort: s.stack.TemporalAddress,
		Logger:   sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return fmt.Errorf("connect to the Temporal server: %w", err)
	}
	defer c.Close()
	err = s.until(ctx, func(ctx context.Context) error {
		_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespaceName})
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the Temporal server at %s: %w", s.stack.TemporalAddress, err)
	}
	return nil
}
