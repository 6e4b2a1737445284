package server

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

	"conclave/cmd/conclave/local"

	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// grace is how long the stack keeps running after its last lease, so that consecutive commands share it.
	grace = time.Second
	// leasePoll is the interval between checks for leases.
	leasePoll = 200 * time.Millisecond
	// startLimit is the maximum duration of the servers' start.
	startLimit = time.Minute
	// stopLimit is the maximum duration of an orderly stop. Stored data also survives a kill.
	stopLimit = 3 * time.Second
)

// RunChild is the main function of the child: it reads its instructions from stdin, logs to stderr, and
// serves until the last lease is released, ctx ends, or the process is terminated. Only local.Join starts it:
// the process must have inherited the lock of its data directory, and must exit when RunChild returns.
func RunChild(ctx context.Context, stdin io.Reader, stderr io.Writer) error {
	child, err := local.Adopt(stdin)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(child) // it holds the locks until the process exits
	// Without this, the server's own workers would hash the whole executable.
	sdkworker.SetBinaryChecksum(headers.ServerVersion)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	fail := func(err error) { child.Fail(explainDamage(child.DataDir, err)) }
	s, err := startServers(ctx, child, newLogger(stderr, fail))
	if err == nil {
		err = child.Serve(ctx, s.stack)
	}
	if err != nil {
		fail(err)
		return err
	}
	err = s.serveUntilIdle(ctx, child)
	child.Withdraw()
	s.stopServers()
	return err
}

// serveUntilIdle returns when there has been no lease for the grace period, when ctx ends, or when
// a server fails.
func (s *servers) serveUntilIdle(ctx context.Context, child *local.Child) error {
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

// newLogger logs Temporal's warnings and errors as JSON lines. Temporal reports some failures as fatal
// entries, even at start; newLogger passes their error to fatal and exits the process.
func newLogger(w io.Writer, fatal func(error)) log.Logger {
	core := zapcore.NewCore(
		zapcore.NewJSONEncoder(log.DefaultZapEncoderConfig),
		zapcore.Lock(zapcore.AddSync(w)),
		zapcore.WarnLevel,
	)
	return log.NewZapLogger(zap.New(core, zap.WithFatalHook(fatalHook(fatal))))
}

// fatalHook exits the process after reporting the error of a fatal entry.
type fatalHook func(error)

func (report fatalHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	reason := errors.New(entry.Message)
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok {
			reason = fmt.Errorf("%s: %w", entry.Message, err)
		}
	}
	report(fmt.Errorf("start the Temporal server: %w", reason))
	os.Exit(1)
}
