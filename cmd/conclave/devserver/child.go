package devserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"conclave/cmd/conclave/localstack"

	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// grace is how long the stack outlives its last lease, so that commands
	// typed one after the other share it.
	grace = time.Second
	// leasePoll is how often the child looks whether leases are held.
	leasePoll = 200 * time.Millisecond
	// startLimit bounds a start, so that who waits for it hears of a failure.
	startLimit = time.Minute
	// stopLimit bounds an orderly stop. What is stored survives a hard one.
	stopLimit = 3 * time.Second
)

// RunChild is the whole life of the child: it reads its order from stdin, serves until
// the last lease is gone, ctx ends or the process is told to terminate, and logs to
// stderr. Only localstack.Join starts it: the process must have inherited the lock of
// its data directory. When RunChild returns, the process must end.
func RunChild(ctx context.Context, stdin io.Reader, stderr io.Writer) error {
	child, err := localstack.Adopt(stdin)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(child) // it holds the locks until the process ends
	// The server's own workers would hash the whole executable to name it.
	sdkworker.SetBinaryChecksum(headers.ServerVersion)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	s, err := startServers(ctx, child, newLogger(stderr, child.Fail))
	if err == nil {
		err = child.Serve(ctx, s.stack)
	}
	if err != nil {
		child.Fail(err)
		return err
	}
	err = s.serve(ctx, child)
	child.Withdraw()
	s.stop()
	return err
}

// serve returns when no command has had a lease for the grace, ctx ends, or a server
// fails.
func (s *servers) serve(ctx context.Context, child *localstack.Child) error {
	tick := time.NewTicker(leasePoll)
	defer tick.Stop()
	lastUse := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.failures:
			return err
		case <-tick.C:
		}
		graceOver := time.Since(lastUse) >= grace
		abandoned, err := child.Abandoned(graceOver)
		switch {
		case err != nil:
			return err
		case !abandoned:
			lastUse = time.Now()
		case graceOver:
			return nil
		}
	}
}

// newLogger makes Temporal's logger: warnings and worse, one JSON object a
// line. A fatal entry is Temporal's way to fail, also at start: it is told to
// fatal, and then the process ends.
func newLogger(w io.Writer, fatal func(error)) log.Logger {
	core := zapcore.NewCore(
		zapcore.NewJSONEncoder(log.DefaultZapEncoderConfig),
		zapcore.Lock(zapcore.AddSync(w)),
		zapcore.WarnLevel,
	)
	return log.NewZapLogger(zap.New(core, zap.WithFatalHook(fatalHook(fatal))))
}

// fatalHook ends the process after telling why.
type fatalHook func(error)

// OnWrite implements zapcore.CheckWriteHook.
func (tell fatalHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	reason := errors.New(entry.Message)
	for _, field := range fields {
		err, ok := field.Interface.(error)
		if !ok {
			continue
		}
		reason = fmt.Errorf("%s: %w", entry.Message, err)
		if errors.Is(err, syscall.EADDRINUSE) {
			reason = fmt.Errorf("%w: %w", reason, localstack.ErrPortTaken)
		}
	}
	tell(fmt.Errorf("start the Temporal server: %w", reason))
	os.Exit(1)
}
