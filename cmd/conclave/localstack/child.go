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

// Child holds the child's locks and reports to its starter. It must stay reachable
// while the process serves, because garbage collection would release the locks.
type Child struct {
	DataDir    string
	Ports      Ports // ports that the starter wants
	OtherUsers bool  // whether other users of this machine may connect

	dir     directory
	owner   *os.File // stack.lock, locked for the life of the process
	ready   *os.File // stack.ready, locked while it serves
	leases  *os.File // stack.leases, locked once no command uses the stack
	report  sync.Once
	reports *os.File // pipe to the starter
}

// Adopt reads the launch instructions from stdin and checks that the process inherited the lock.
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
	got, errGot := owner.Stat()
	want, errWant := os.Stat(dir.lockFile())
	held, errLock := filelock.TryFile(owner, filelock.Exclusive)
	if err := errors.Join(errGot, errWant, errLock); err != nil {
		return nil, fmt.Errorf("take over the data directory %s: %w", dir, err)
	}
	if !held || !os.SameFile(got, want) {
		return nil, fmt.Errorf("take over the data directory %s: another stack runs on it", dir)
	}
	ownerOnly()
	return &Child{DataDir: string(dir), Ports: o.Ports, OtherUsers: o.OtherUsers, dir: dir, owner: owner, reports: reports}, nil
}

// Last returns the record of the previous stack, or the zero value for the first one.
func (c *Child) Last() Stack {
	last, _ := c.dir.recorded()
	return last
}

// LogFile returns the path of the servers' log.
func (c *Child) LogFile() string { return c.dir.logFile() }

// Serve publishes a ready stack: it writes the record, takes the lock that makes the record valid,
// and sends the report.
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

// Withdraw invalidates the record.
func (c *Child) Withdraw() { _ = c.ready.Close() }

// Fail reports a failed start to the starter. Only the first report is sent.
func (c *Child) Fail(err error) {
	c.send(report{Error: err.Error()})
}

// send ignores errors, because the starter may be dead.
func (c *Child) send(r report) {
	c.report.Do(func() {
		_ = json.NewEncoder(c.reports).Encode(r)
		_ = c.reports.Close()
	})
}

// Abandoned reports whether no command holds a lease. If keep is set and none
// does, stack.leases remains locked, so new commands wait until the process has
// exited.
func (c *Child) Abandoned(keep bool) (bool, error) {
	leases, err := filelock.Try(c.dir.leaseFile(), filelock.Exclusive)
	if err != nil || leases == nil {
		return false, err
	}
	if keep {
		c.leases = leases
		return true, nil
	}
	return true, leases.Close()
}
