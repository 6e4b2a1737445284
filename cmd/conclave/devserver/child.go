package devserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"conclave/engine/filelock"
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

// RunChild is the whole life of the child: it reads its order from stdin,
// serves until the last lease is gone, ctx ends or the process is told to
// terminate, and logs to stderr. Only Join starts it: the process must have
// inherited the lock of its data directory. When RunChild returns, the process
// must end.
func RunChild(ctx context.Context, stdin io.Reader, stderr io.Writer) error {
	from, err := adopt(stdin)
	if err != nil {
		return err
	}
	// An unreachable file is closed, and with it goes its lock.
	defer runtime.KeepAlive(from.owner)
	ownerOnly()
	// The server's own workers would hash the whole executable to name it.
	sdkworker.SetBinaryChecksum(headers.ServerVersion)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	tell := &reporter{pipe: from.reports}
	s, err := startServers(ctx, from.dir, from.ports, newLogger(stderr, tell.failed))
	if err != nil {
		tell.failed(err)
		return err
	}
	ready, err := announce(ctx, from.dir, s.stack)
	if err != nil {
		tell.failed(err)
		return err
	}
	tell.started(s.stack)

	unused, err := s.serve(ctx, from.dir)
	// Held until the process is gone: a command that comes now waits for that.
	defer runtime.KeepAlive(unused)
	_ = ready.Close()
	s.stop()
	return err
}

// inheritance is what the starter left to the child.
type inheritance struct {
	dir   directory
	ports Ports
	// owner is stack.lock, locked. It stays so as long as this process lives.
	owner *os.File
	// reports is the pipe to the starter.
	reports *os.File
}

// adopt reads the order and makes sure that the lock came with it.
func adopt(stdin io.Reader) (inheritance, error) {
	var what order
	if err := json.NewDecoder(stdin).Decode(&what); err != nil {
		return inheritance{}, fmt.Errorf("read the order of the embedded stack: %w; it is started by other commands only", err)
	}
	dir, err := locate(what.DataDir)
	if err != nil {
		return inheritance{}, err
	}
	owner, reports := inherited(lockFD, dir.lockFile()), inherited(reportFD, "report")
	if owner == nil || reports == nil {
		return inheritance{}, fmt.Errorf("take over the data directory %s: its lock was not handed over", dir)
	}
	got, err := owner.Stat()
	if err != nil {
		return inheritance{}, fmt.Errorf("take over the data directory: %w", err)
	}
	want, err := os.Stat(dir.lockFile())
	if err != nil {
		return inheritance{}, fmt.Errorf("take over the data directory: %w", err)
	}
	held, err := filelock.TryFile(owner, filelock.Exclusive)
	if err != nil {
		return inheritance{}, fmt.Errorf("take over the data directory %s: %w", dir, err)
	}
	if !held || !os.SameFile(got, want) {
		return inheritance{}, fmt.Errorf("take over the data directory %s: another stack runs on it", dir)
	}
	return inheritance{dir: dir, ports: what.Ports, owner: owner, reports: reports}, nil
}

// announce writes the record and then takes the lock that makes it valid.
func announce(ctx context.Context, dir directory, stack Stack) (*os.File, error) {
	if err := dir.record(stack); err != nil {
		return nil, err
	}
	return filelock.Wait(ctx, dir.readyFile(), filelock.Exclusive)
}

// reporter sends the one report that the starter waits for.
type reporter struct {
	once sync.Once
	pipe *os.File
}

func (r *reporter) started(stack Stack) { r.send(report{Stack: &stack}) }

func (r *reporter) failed(err error) {
	r.send(report{Error: err.Error(), PortTaken: errors.Is(err, errPortTaken)})
}

// send ignores errors: a starter that is gone does not want to know.
func (r *reporter) send(what report) {
	r.once.Do(func() {
		_ = json.NewEncoder(r.pipe).Encode(what)
		_ = r.pipe.Close()
	})
}

// serve returns when there is nothing more to serve: no leases for the grace,
// and then with their lock, or the end of ctx, or the failure of a server.
func (s *servers) serve(ctx context.Context, dir directory) (*os.File, error) {
	tick := time.NewTicker(leasePoll)
	defer tick.Stop()
	lastUse := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case err := <-s.failures:
			return nil, err
		case <-tick.C:
		}
		unused, err := filelock.Try(dir.leaseFile(), filelock.Exclusive)
		switch {
		case err != nil:
			return nil, err
		case unused == nil:
			lastUse = time.Now()
		case time.Since(lastUse) >= grace:
			return unused, nil
		default:
			_ = unused.Close()
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
			reason = fmt.Errorf("%w: %w", reason, errPortTaken)
		}
	}
	tell(fmt.Errorf("start the Temporal server: %w", reason))
	os.Exit(1)
}
