package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/chasm"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
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

	"conclave/cmd/conclave/local"
	"conclave/engine/coordination"
)

// The bucket and the namespace that every stack has.
const (
	bucketName    = local.Bucket
	namespaceName = "default"
)

// servers are the running parts of the stack.
type servers struct {
	stack local.Stack
	// failures receives the error of a server that ended unexpectedly.
	failures chan error
	// stops are the functions that stop the servers. Each may block.
	stops []func(context.Context)
}

func startServers(ctx context.Context, child *local.Child, logger log.Logger) (*servers, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit,
		fmt.Errorf("the servers did not answer within %s; see %s", startLimit, child.LogFile()))
	defer cancel()
	last := child.Last()
	reserved, err := reservePorts(ctx, child.Ports, last.Ports)
	if err != nil {
		return nil, err
	}
	if err := reserved.guardListeners(child.OtherUsers, logger); err != nil {
		return nil, err
	}
	s := &servers{stack: describeStack(child, local.Ports{Temporal: portOf(reserved.temporal), UI: portOf(reserved.ui), S3: portOf(reserved.s3)}, last), failures: make(chan error, 3)}
	database, err := openDatabase(child.DataDir)
	if err != nil {
		return nil, err
	}
	if err := s.startObjectStore(ctx, local.Objects(child.DataDir), reserved.s3); err != nil {
		return nil, err
	}
	if err := s.startTemporal(ctx, database, reserved, logger); err != nil {
		return nil, err
	}
	if err := s.refuseEarlier(ctx, last); err != nil {
		return nil, err
	}
	return s, s.startUI(reserved.ui)
}

// describeStack returns the description of the stack. It reuses the secret of the previous run.
func describeStack(child *local.Child, ports local.Ports, last local.Stack) local.Stack {
	stack := local.Stack{
		TemporalAddress: fmt.Sprintf("%s:%d", loopback, ports.Temporal),
		Namespace:       namespaceName,
		UIAddress:       fmt.Sprintf("http://%s:%d", loopback, ports.UI),
		S3Endpoint:      fmt.Sprintf("http://%s:%d", loopback, ports.S3),
		S3AccessKey:     storeOwner,
		S3SecretKey:     last.S3SecretKey,
		S3Region:        storeRegion,
		Bucket:          bucketName,
		DataDir:         child.DataDir,
		LogFile:         child.LogFile(),
		ServerVersion:   headers.ServerVersion,
		Protocol:        coordination.Protocol,
		OtherUsers:      child.OtherUsers,
		PID:             os.Getpid(),
		Ports:           ports,
	}
	if stack.S3SecretKey == "" {
		stack.S3SecretKey = rand.Text() + rand.Text()
	}
	return stack
}

func (s *servers) stopServers() {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		var all sync.WaitGroup
		for _, stop := range s.stops {
			all.Go(func() { stop(ctx) })
		}
		all.Wait()
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
	}
}

// recordFailure records that a server ended unexpectedly. A nil error is an orderly stop.
func (s *servers) recordFailure(server string, err error) {
	if err == nil {
		return
	}
	select {
	case s.failures <- fmt.Errorf("%s ended: %w", server, err):
	default:
	}
}

func (s *servers) repeatUntil(ctx context.Context, check func(context.Context) error) error {
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case failure := <-s.failures:
			return failure
		default:
		}
		if ended := pauseFor(ctx, startPoll); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// startPoll is the interval between checks of a starting server.
const startPoll = 10 * time.Millisecond

// loopback is the only address that the stack listens on.
const loopback = "127.0.0.1"

const (
	// portPatience is how long to wait for the sockets of a killed child, which may outlive its
	// locks briefly.
	portPatience = 500 * time.Millisecond
	portPoll     = 20 * time.Millisecond
)

// reservation has listeners on all ports of a stack at once, so that the ports are distinct.
type reservation struct {
	temporal, ui, s3           net.Listener
	history, matching, systems net.Listener
}

// reservePorts listens on the wanted ports, or else on the previous ones, or else on free ones.
func reservePorts(ctx context.Context, wanted, recorded local.Ports) (*reservation, error) {
	r := &reservation{}
	for _, p := range []struct {
		server           string
		wanted, recorded int
		into             *net.Listener
	}{
		{"Temporal", wanted.Temporal, recorded.Temporal, &r.temporal},
		{"the Web UI", wanted.UI, recorded.UI, &r.ui},
		{"the S3 store", wanted.S3, recorded.S3, &r.s3},
		{"Temporal's history service", 0, 0, &r.history},
		{"Temporal's matching service", 0, 0, &r.matching},
		{"Temporal's worker service", 0, 0, &r.systems},
	} {
		listener, err := listenPreferred(ctx, p.wanted, p.recorded)
		if err != nil {
			return nil, fmt.Errorf("listen for %s: %w; choose another port", p.server, err)
		}
		*p.into = listener
	}
	return r, nil
}

// guardListeners limits all listeners to connections of this user and root. With otherUsers
// it limits only the listeners of Temporal's internal services.
func (r *reservation) guardListeners(otherUsers bool, logger log.Logger) error {
	gate, err := local.NewGate(local.Reports{
		Refused: func(uid uint32) {
			logger.Warn(fmt.Sprintf("refused a connection of user %d; %s", uid, openRemedy), tag.Int("uid", int(uid)))
		},
		Failed: func(err error) {
			logger.Warn("refused a connection whose user is unknown; "+openRemedy, tag.Error(err))
		},
	})
	switch {
	case err != nil && otherUsers:
		return nil
	case err != nil:
		return fmt.Errorf("keep other users of this machine out: %w; %s", err, openRemedy)
	}
	guarded := []*net.Listener{&r.history, &r.matching, &r.systems}
	if !otherUsers {
		guarded = append(guarded, &r.temporal, &r.ui, &r.s3)
	}
	for _, l := range guarded {
		*l = gate.Listener(*l)
	}
	return nil
}

// openRemedy names the flag that admits other users.
const openRemedy = "`conclave dev " + local.OtherUsersFlag + "`, while no other command uses the stack, starts one that all users of this machine can use"

func listenPreferred(ctx context.Context, wanted, recorded int) (net.Listener, error) {
	if wanted != 0 || recorded == 0 {
		return listenOn(ctx, wanted)
	}
	for deadline := time.Now().Add(portPatience); ; {
		listener, err := listenOn(ctx, recorded)
		if err == nil {
			return listener, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return listenOn(ctx, 0)
		}
		if err := pauseFor(ctx, portPoll); err != nil {
			return nil, err
		}
	}
}

func listenOn(ctx context.Context, port int) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
}

func portOf(l net.Listener) int {
	return l.Addr().(*net.TCPAddr).Port
}

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

// openRuns asks for the open workflows of the namespace.
var openRuns = &workflowservice.CountWorkflowExecutionsRequest{Query: `ExecutionStatus = "Running"`}

// refuseEarlier refuses a data directory in which runs of another protocol are open: their
// histories cannot be replayed by the workflows of this program.
func (s *servers) refuseEarlier(ctx context.Context, last local.Stack) error {
	if last.DataDir == "" || last.Protocol == coordination.Protocol {
		return nil
	}
	c, err := s.lazyClient()
	if err != nil {
		return err
	}
	defer c.Close()
	open, err := c.CountWorkflow(ctx, openRuns)
	if err != nil {
		return fmt.Errorf("count the open runs of %s: %w", s.stack.DataDir, err)
	}
	if n := open.GetCount(); n > 0 {
		return fmt.Errorf("the data directory %s has %d open runs of another version of conclave (protocol %d, this is %d): let that version finish or cancel them, or choose another --data-dir",
			s.stack.DataDir, n, last.Protocol, coordination.Protocol)
	}
	return nil
}
