package devserver

import (
	"net"

	"go.temporal.io/server/chasm"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/persistence/serialization"
	"go.temporal.io/server/common/pprof"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/common/resource"
	"go.temporal.io/server/service/frontend"
	"go.temporal.io/server/service/history"
	"go.temporal.io/server/service/history/replication"
	"go.temporal.io/server/service/matching"
	"go.temporal.io/server/service/worker"
	"go.temporal.io/server/temporal"
	"go.uber.org/fx"
	"google.golang.org/grpc"
)

// temporalModule is temporal.TopLevelModule with the given listeners. The original
// opens its own listeners, which accept connections from every user.
func temporalModule(listeners map[primitives.ServiceName]net.Listener) fx.Option {
	service := func(name primitives.ServiceName, modules ...fx.Option) any {
		return func(params temporal.ServiceProviderParamsCommon) (temporal.ServicesGroupOut, error) {
			app := fx.New(
				params.GetCommonServiceOptions(name),
				fx.Options(modules...),
				fx.Decorate(func() net.Listener { return listeners[name] }),
			)
			return temporal.NewService(app, name, params.Logger), app.Err()
		}
	}
	return fx.Options(
		fx.Provide(
			temporal.NewServerFxImpl,
			temporal.ServerOptionsProvider,
			temporal.TaskCategoryRegistryProvider,
			temporal.ApplyClusterMetadataConfigProvider,
			resource.ArchivalMetadataProvider,
			service(primitives.FrontendService, frontend.Module, fx.Supply([]grpc.UnaryServerInterceptor(nil))),
			service(primitives.HistoryService, history.QueueModule, history.Module, replication.Module),
			service(primitives.MatchingService, matching.Module),
			service(primitives.WorkerService, worker.Module),
		),
		dynamicconfig.Module,
		pprof.Module,
		temporal.TraceExportModule,
		chasm.Module,
		serialization.Module,
		temporal.FxLogAdapter,
		fx.Invoke(temporal.ServerLifetimeHooks),
	)
}
