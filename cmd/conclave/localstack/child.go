package localstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"conclave/engine/filelock"
)

// Child is the side of the child process in the agreement with the commands. It must
// stay reachable as long as the process serves: a collected Child releases its locks.
type Child struct {
	DataDir string
	Ports   Ports // that the starter wants

	dir     directory
	owner   *os.File // stack.lock, locked as long as this process lives
	ready   *os.File // stack.ready, locked while it serves
	unused  *os.File // stack.leases, locked once no command uses the stack
	report  sync.Once
	reports *os.File // the pipe to the starter
}

// Adopt reads the order from stdin and checks that the process inherited the lock.
func Adopt(stdin io.Reader) (*Child, error) {
	var o order
	if err := json.NewDecoder(stdin).Decode(&o); err != nil {
		return nil, fmt.Errorf("read the order of the embedded stack: %w; it is started by other commands only", err)
	}
	dir, err := locate(o.DataDir)
	if err != nil {
		return nil, err
	}
	owner, reports := inherited(lockFD, dir.lockFile()), inherited(reportFD, "report")
	if owner == nil || reports == nil {
		return nil, fmt.Errorf("take over the data directory %s: its lock was not handed over", dir)
	}
	got, err := owner.Stat()
	if err != nil {
		return nil, fmt.Errorf("take over the data directory: %w", err)
	}
	want, err := os.Stat(dir.lockFile())
	if err != nil {
		return nil, fmt.Errorf("take over the data directory: %w", err)
	}
	held, err := filelock.TryFile(owner, filelock.Exclusive)
	if err != nil {
		return nil, fmt.Errorf("take over the data directory %s: %w", dir, err)
	}
	if !held || !os.SameFile(got, want) {
		return nil, fmt.Errorf("take over the data directory %s: another stack runs on it", dir)
	}
	ownerOnly()
	return &Child{DataDir: string(dir), Ports: o.Ports, dir: dir, owner: owner, reports: reports}, nil
}

// Last is the record of the last stack, for its ports and keys; the zero value if
// there is none.
func (c *Child) Last() Stack {
	last, _ := c.dir.recorded()
	return last
}

// LogFile is where the servers log.
func (c *Child) LogFile() string { return c.dir.logFile() }

// Serve publishes a stack that answers: it writes the record, takes the lock that
// makes it valid, and reports to the starter.
func (c *Child) Serve(ctx context.Context, stack Stack) (err error) {
	if err := c.dir.record(stack); err != nil {
		return err
	}
	if c.ready, err = filelock.Wait(ctx, c.dir.readyFile(), filelock.Exclusive); err != nil {
		return err
	}
	c.send(report{Stack: &stack})
	return nil
}

// Withdraw makes the record invalid.
func (c *Child) Withdraw() { _ = c.ready.Close() }

// Fail reports to the starter why the stack does not start. Only the first report
// counts.
func (c *Child) Fail(err error) {
	c.send(report{Error: err.Error(), PortTaken: errors.Is(err, ErrPortTaken)})
}

// send ignores errors: the starter may have gone.
func (c *Child) send(r report) {
	c.report.Do(func() {
		_ = json.NewEncoder(c.reports).Encode(r)
		_ = c.reports.Close()
	})
}

// Abandoned reports whether no command has a lease. With keep it then keeps the lock
// of the leases, so that a new command waits for the end of this process.
func (c *Child) Abandoned(keep bool) (bool, error) {
	unused, err := filelock.Try(c.dir.leaseFile(), filelock.Exclusive)
	if err != nil || unused == nil {
		return false, err
	}
	if keep {
		c.unused = unused
		return true, nil
	}
	return true, unused.Close()
}
