package devserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
)

// servers are the running parts of the stack.
type servers struct {
	stack Stack
	// failures gets the error of a server that ended without being told to.
	failures chan error
	// stops end the servers; each may take its time.
	stops []func(context.Context)
}

// startServers returns when all servers answer.
func startServers(ctx context.Context, dir directory, wanted Ports, logger log.Logger) (*servers, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit,
		fmt.Errorf("the servers did not answer within %s; see %s", startLimit, dir.logFile()))
	defer cancel()
	// The record only proposes: without a readable one everything is new.
	last, _ := dir.recorded()
	reserved, err := reserve(ctx, wanted, last.Ports)
	if err != nil {
		return nil, err
	}
	s := &servers{stack: describe(dir, reserved.ports(), last), failures: make(chan error, 3)}
	database, err := dir.openDatabase()
	if err != nil {
		return nil, err
	}
	if err := s.startObjectStore(ctx, dir.objectsDir(), reserved.s3); err != nil {
		return nil, err
	}
	if err := s.startTemporal(ctx, database, reserved, logger); err != nil {
		return nil, err
	}
	return s, s.startUI(reserved.ui)
}

// describe fills in the stack, with the secret of the last run if there is one.
func describe(dir directory, ports Ports, last Stack) Stack {
	stack := Stack{
		TemporalAddress: fmt.Sprintf("%s:%d", loopback, ports.Temporal),
		Namespace:       namespaceName,
		UIAddress:       fmt.Sprintf("http://%s:%d", loopback, ports.UI),
		S3Endpoint:      fmt.Sprintf("http://%s:%d", loopback, ports.S3),
		S3AccessKey:     storeOwner,
		S3SecretKey:     last.S3SecretKey,
		S3Region:        storeRegion,
		Bucket:          bucketName,
		DataDir:         string(dir),
		LogFile:         dir.logFile(),
		ServerVersion:   headers.ServerVersion,
		PID:             os.Getpid(),
		Ports:           ports,
	}
	if stack.S3SecretKey == "" {
		stack.S3SecretKey = rand.Text() + rand.Text()
	}
	return stack
}

// stop ends all servers at once and waits for them, but not for ever: no
// client is left, and what is stored survives a hard end as well.
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

// failed records the end of a server. A server that was told to stop ends with
// no error, and errors after the first few tell nothing new.
func (s *servers) failed(server string, err error) {
	if err == nil {
		return
	}
	select {
	case s.failures <- fmt.Errorf("%s ended: %w", server, err):
	default:
	}
}

// until repeats a check until it succeeds, a server fails or ctx ends.
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

// startPoll is how often a server that is starting is asked again.
const startPoll = 10 * time.Millisecond
