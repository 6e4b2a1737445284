package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"conclave/engine/files/filelock"
)

// Stack describes a running stack. It contains a secret: only the owner may read
// its file, and it must not be printed in full.
type Stack struct {
	TemporalAddress string `json:"temporal_address"` // host:port of the gRPC frontend
	Namespace       string `json:"namespace"`
	UIAddress       string `json:"ui_address"`  // http://127.0.0.1:port
	S3Endpoint      string `json:"s3_endpoint"` // http://127.0.0.1:port, path-style
	S3AccessKey     string `json:"s3_access_key"`
	S3SecretKey     string `json:"s3_secret_key"`
	S3Region        string `json:"s3_region"` // region in the signature of requests
	Bucket          string `json:"bucket"`    // exists when the stack is ready
	DataDir         string `json:"data_dir"`  // absolute path
	LogFile         string `json:"log_file"`  // log file of the servers
	ServerVersion   string `json:"server_version"`
	Protocol        int    `json:"protocol"`    // protocol of the directory's open runs
	OtherUsers      bool   `json:"other_users"` // other users of this machine may connect
	PID             int    `json:"pid"`         // only for people and their tools
	Ports           Ports  `json:"ports"`
}

// Ports are TCP ports on 127.0.0.1. Zero means any.
type Ports struct {
	Temporal int `json:"temporal"`
	UI       int `json:"ui"`
	S3       int `json:"s3"`
}

// Find returns the stack that serves dataDir, if any. Without a lease the stack may stop at any
// time.
func Find(dataDir string) (Stack, bool, error) {
	dir, err := locateDirectory(dataDir)
	if err != nil {
		return Stack{}, false, err
	}
	if _, err := os.Stat(dir.readyFile()); errors.Is(err, fs.ErrNotExist) {
		return Stack{}, false, nil
	}
	return dir.runningStack()
}

// runningStack returns the running stack, if any. A running stack holds an exclusive lock.
func (d directory) runningStack() (Stack, bool, error) {
	free, err := filelock.Try(d.readyFile(), filelock.Shared)
	if err != nil {
		return Stack{}, false, err
	}
	if free != nil {
		return Stack{}, false, free.Close()
	}
	stack, err := d.recordedStack()
	return stack, err == nil, err
}

func (d directory) recordedStack() (Stack, error) {
	content, err := os.ReadFile(d.stackFile())
	if err != nil {
		return Stack{}, fmt.Errorf("read the record of the embedded stack: %w", err)
	}
	var stack Stack
	if err := json.Unmarshal(content, &stack); err != nil {
		return Stack{}, fmt.Errorf("read the record of the embedded stack %s: %w", d.stackFile(), err)
	}
	return stack, nil
}

func (d directory) writeRecord(stack Stack) error {
	content, _ := json.MarshalIndent(stack, "", "  ") // a stack always has a JSON form
	next := d.stackFile() + ".next"
	err := os.WriteFile(next, append(content, '\n'), 0o600)
	if err == nil {
		err = os.Rename(next, d.stackFile())
	}
	if err != nil {
		return fmt.Errorf("write the record of the embedded stack: %w", err)
	}
	return nil
}

// Pages are the pages that a `conclave dev` serves for a data directory.
type Pages struct {
	Address string `json:"address"` // http://HOST:PORT
	PID     int    `json:"pid"`     // process of that command
}

// Announce makes the pages known to the commands of a data directory until withdraw is called or the
// process ends. If another process serves pages, its pages stay known.
func (p Pages) Announce(dataDir string) (withdraw func(), err error) {
	file, err := filelock.Try(directory(dataDir).pagesFile(), filelock.Exclusive)
	if err != nil || file == nil {
		return func() {}, err
	}
	if err = file.Truncate(0); err == nil {
		err = json.NewEncoder(file).Encode(p)
	}
	return func() { _ = file.Close() }, err
}

// FindPages returns the pages of a data directory, if a command serves any.
func FindPages(dataDir string) (p Pages, ok bool) {
	name := directory(dataDir).pagesFile()
	content, err := os.ReadFile(name)
	if err != nil {
		return p, false
	}
	free, err := filelock.Try(name, filelock.Shared)
	if free != nil {
		_ = free.Close()
	}
	return p, err == nil && free == nil && json.Unmarshal(content, &p) == nil
}

// Workers returns the directory, within a data directory, in which workers record
// their running activities.
func Workers(dataDir string) string { return filepath.Join(dataDir, "workers") }

// Bucket is the bucket of every stack.
const Bucket = "conclave"

// Objects returns the directory, within a data directory, that contains the buckets with one file
// per object.
func Objects(dataDir string) string { return filepath.Join(dataDir, "s3") }

// directory is the absolute path of a data directory.
type directory string

func (d directory) lockFile() string  { return filepath.Join(string(d), "stack.lock") }
func (d directory) readyFile() string { return filepath.Join(string(d), "stack.ready") }
func (d directory) leaseFile() string { return filepath.Join(string(d), "stack.leases") }
func (d directory) stackFile() string { return filepath.Join(string(d), "stack.json") }
func (d directory) pagesFile() string { return filepath.Join(string(d), "pages.json") }
func (d directory) logFile() string   { return filepath.Join(string(d), "logs", "stack.log") }

func locateDirectory(dataDir string) (directory, error) {
	if dataDir == "" {
		return "", errors.New("locate the data directory: the name is empty; give one with --data-dir")
	}
	path, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("locate the data directory %s: %w", dataDir, err)
	}
	return directory(path), nil
}

// createPrivate creates the data directory with private permissions. It refuses an existing one
// whose locks other users could write.
func (d directory) createPrivate() error {
	if err := requireSupported(); err != nil {
		return err
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w; choose another with --data-dir", err)
	}
	info, err := os.Stat(string(d))
	if err != nil {
		return fmt.Errorf("check the data directory: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("use the data directory %s: it is world-writable; choose another with --data-dir, or chmod 700 it", d)
	}
	return nil
}

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
	dir, err := locateDirectory(o.DataDir)
	if err != nil {
		return nil, err
	}
	owner, reports := openInherited(lockFD, dir.lockFile()), openInherited(reportFD, "report")
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
	last, _ := c.dir.recordedStack()
	return last
}

// LogFile returns the path of the servers' log.
func (c *Child) LogFile() string { return c.dir.logFile() }

// Serve publishes a ready stack: it writes the record, takes the lock that makes the record valid,
// and sends the report.
func (c *Child) Serve(ctx context.Context, stack Stack) (err error) {
	if err := c.dir.writeRecord(stack); err != nil {
		return err
	}
	if c.ready, err = filelock.Wait(ctx, c.dir.readyFile(), filelock.Exclusive); err != nil {
		return err
	}
	c.sendReport(report{Stack: &stack})
	return nil
}

// Withdraw invalidates the record.
func (c *Child) Withdraw() { _ = c.ready.Close() }

// Fail reports a failed start to the starter. Only the first report is sent.
func (c *Child) Fail(err error) {
	c.sendReport(report{Error: err.Error()})
}

// sendReport ignores errors, because the starter may be dead.
func (c *Child) sendReport(r report) {
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

// readyPoll is the interval at which a command checks whether a stack started by another command is
// ready.
const readyPoll = 20 * time.Millisecond

// OtherUsersFlag is the flag of `conclave dev` that sets Options.OtherUsers.
const OtherUsersFlag = "--allow-other-users"

// Options configure Join. The zero value is usable.
type Options struct {
	// Logf reports progress to people. It may be nil.
	Logf func(format string, args ...any)
	// Ports are the ports of a stack that Join starts. If a port is taken, Join fails.
	// Port 0 means the directory's previous port if it is free.
	Ports Ports
	// OtherUsers admits all users of this machine to a stack that Join starts. By
	// default the stack resets connections of users other than this one and root.
	OtherUsers bool
}

// Lease keeps the stack running until it is released or its process dies.
type Lease struct {
	Stack   Stack
	Started bool     // whether this lease's Join started the stack
	lock    *os.File // shared lock
}

// Release releases the lease without waiting for the child to exit. Further calls do nothing.
func (l *Lease) Release() error {
	if err := l.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("release the embedded stack: %w", err)
	}
	return nil
}

// Ends reports whether the stack stops serving within two seconds. The system closes the
// listeners of a killed process before it releases the locks.
func (l *Lease) Ends(ctx context.Context) bool {
	for deadline := time.Now().Add(2 * time.Second); ; {
		_, serves, err := directory(l.Stack.DataDir).runningStack()
		if err == nil && !serves {
			return true
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		time.Sleep(readyPoll)
	}
}

// Join returns a lease on the stack that serves dataDir. Of the commands that find none, one
// starts it and all wait until it is ready.
func Join(ctx context.Context, dataDir string, opts Options) (*Lease, error) {
	dir, err := locateDirectory(dataDir)
	if err != nil {
		return nil, err
	}
	if err := dir.createPrivate(); err != nil {
		return nil, err
	}
	// The lease comes first, because the stack does not stop while a lease is held.
	lock, err := filelock.Wait(ctx, dir.leaseFile(), filelock.Shared)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w; it belongs to another user: choose another with --data-dir", err)
	}
	if err != nil {
		return nil, fmt.Errorf("join the embedded stack on %s: %w", dir, err)
	}
	lease := &Lease{lock: lock}
	lease.Stack, lease.Started, err = dir.joinOrLaunch(ctx, opts)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("join the embedded stack on %s: %w", dir, err)
	}
	return lease, nil
}

// joinOrLaunch waits until a stack serves. The caller holds a lease.
func (d directory) joinOrLaunch(ctx context.Context, opts Options) (stack Stack, launched bool, err error) {
	for {
		stack, ok, err := d.runningStack()
		if ok || err != nil {
			return stack, false, err
		}
		owner, err := filelock.Try(d.lockFile(), filelock.Exclusive)
		if err != nil {
			return Stack{}, false, err
		}
		if owner == nil {
			select {
			case <-ctx.Done():
				return Stack{}, false, context.Cause(ctx)
			case <-time.After(readyPoll):
			}
			continue
		}
		stack, err = d.launchChild(ctx, owner, opts)
		return stack, err == nil, err
	}
}
