package devserver

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

	"conclave/cmd/conclave/devserver/peer"
	"conclave/cmd/conclave/localstack"
	"conclave/engine/coordination"

	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// The bucket and the namespace that every stack has.
const (
	bucketName    = localstack.Bucket
	namespaceName = "default"
)

// servers are the running parts of the stack.
type servers struct {
	stack localstack.Stack
	// failures receives the error of a server that ended unexpectedly.
	failures chan error
	// stops are the functions that stop the servers. Each may block.
	stops []func(context.Context)
}

// startServers starts all servers and waits until they answer.
func startServers(ctx context.Context, child *localstack.Child, logger log.Logger) (*servers, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit,
		fmt.Errorf("the servers did not answer within %s; see %s", startLimit, child.LogFile()))
	defer cancel()
	last := child.Last()
	reserved, err := reserve(ctx, child.Ports, last.Ports)
	if err != nil {
		return nil, err
	}
	if err := reserved.guard(child.OtherUsers, logger); err != nil {
		return nil, err
	}
	s := &servers{stack: describe(child, reserved.ports(), last), failures: make(chan error, 3)}
	database, err := openDatabase(child.DataDir)
	if err != nil {
		return nil, err
	}
	if err := s.startObjectStore(ctx, localstack.Objects(child.DataDir), reserved.s3); err != nil {
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

// describe returns the description of the stack. It reuses the secret of the previous run.
func describe(child *localstack.Child, ports localstack.Ports, last localstack.Stack) localstack.Stack {
	stack := localstack.Stack{
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

// stop stops all servers concurrently and waits for at most stopLimit.
func (s *servers) stop() {
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

// failed records that a server ended unexpectedly. A nil error is an orderly stop.
func (s *servers) failed(server string, err error) {
	if err == nil {
		return
	}
	select {
	case s.failures <- fmt.Errorf("%s ended: %w", server, err):
	default:
	}
}

// until repeats a check until it succeeds, a server fails, or ctx ends.
func (s *servers) until(ctx context.Context, check func(context.Context) error) error {
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
		if ended := pause(ctx, startPoll); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// pause waits for d, or returns the cause if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
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

// reserve listens on the wanted ports, or else on the previous ones, or else on free ones.
func reserve(ctx context.Context, wanted, recorded localstack.Ports) (*reservation, error) {
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
		listener, err := listen(ctx, p.wanted, p.recorded)
		if err != nil {
			return nil, fmt.Errorf("listen for %s: %w; choose another port", p.server, err)
		}
		*p.into = listener
	}
	return r, nil
}

// guard limits all listeners to connections of this user and root. With otherUsers
// it limits only the listeners of Temporal's internal services.
func (r *reservation) guard(otherUsers bool, logger log.Logger) error {
	gate, err := peer.New(peer.Reports{
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
const openRemedy = "`conclave dev " + localstack.OtherUsersFlag + "`, while no other command uses the stack, starts one that all users of this machine can use"

func listen(ctx context.Context, wanted, recorded int) (net.Listener, error) {
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
		if err := pause(ctx, portPoll); err != nil {
			return nil, err
		}
	}
}

func listenOn(ctx context.Context, port int) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
}

// ports returns the ports of the servers that clients use.
func (r *reservation) ports() localstack.Ports {
	return localstack.Ports{Temporal: port(r.temporal), UI: port(r.ui), S3: port(r.s3)}
}

// port returns the port of a listener.
func port(l net.Listener) int {
	return l.Addr().(*net.TCPAddr).Port
}
