package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

type running struct {
	kill func()               // kills it with all its processes; may be called repeatedly, also after the end
	wait func() (Exit, error) // returns after the end of all its processes

	// unnamed measures the command's open files without a name; nil if that is impossible.
	unnamed func() (bytes int64, hidden bool)
}

// exceeded is the error that ends a command at a limit. Its value is the name of the limit.
type exceeded string

func (e exceeded) Error() string { return "the limit of " + string(e) + " is exceeded" }

// Run runs a command and returns after all its processes have ended. A command that fails returns
// an Exit; an error means a fault of the host or the end of ctx. Concurrent calls share the limits
// of disk and files, but no other limits.
func (s *Sandbox) Run(ctx context.Context, c Command) (Exit, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return Exit{}, errors.New("run a command: no program is named")
	}
	if c.Dir == "" {
		c.Dir = "."
	}
	if !filepath.IsLocal(c.Dir) {
		return Exit{}, fmt.Errorf("run %s: directory %q is not inside the workspace", c.Args[0], c.Dir)
	}
	if err := s.beginRun(); err != nil {
		return Exit{}, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	defer s.runs.Done()
	exit, err := s.runLimited(ctx, c)
	if err != nil {
		return exit, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	return exit, nil
}

// runLimited starts a command and enforces the limits that the child does not. The cause of its
// context tells why it ended the command.
func (s *Sandbox) runLimited(ctx context.Context, c Command) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(s.life, func() { end(errClosed) })()
	var caches []Cache
	if s.options.Caches.Open != nil {
		caches = s.options.Caches.Open(ctx, c.Args)
	}
	limits := s.options.Limits
	out := &output{limited: limits.Output > 0, left: limits.Output, end: end}
	start := time.Now()
	r, err := s.startCommand(c, caches, stream{out, c.Stdout}, stream{out, c.Stderr})
	if err != nil {
		return Exit{}, err
	}
	defer context.AfterFunc(ctx, r.kill)()
	if limit := cmp.Or(c.Time, limits.Time); limit > 0 {
		defer time.AfterFunc(limit, func() { end(exceeded(endedTime)) }).Stop()
	}
	quota := s.watchDisk(ctx, end, r.unnamed)
	exit, err := r.wait()
	quota.stop()
	exit.Duration = time.Since(start)

	cause := context.Cause(ctx)
	limit, isLimit := errors.AsType[exceeded](cause)
	switch {
	case isLimit:
		exit.Ended = string(limit)
	case cause != nil:
		return exit, cause
	case err != nil:
		return exit, err
	}
	// The final measurement also makes all files readable for the worker.
	err = quota.measureUsage(true)
	if limit, ok := errors.AsType[exceeded](err); ok {
		exit.Ended, err = cmp.Or(exit.Ended, string(limit)), nil
	}
	return exit, err
}

// output forwards a command's output up to a limit that both streams share.
type output struct {
	mu      sync.Mutex
	limited bool
	left    int64
	end     context.CancelCauseFunc // called at the limit, or with the error of the caller's writer
}

// stream is one of the two streams of an output. A nil writer discards it.
type stream struct {
	out *output
	to  io.Writer
}

// Write forwards output up to the limit, and returns an error from then on, so that the reader
// stops.
func (s stream) Write(p []byte) (int, error) {
	o := s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	allowed := p
	if o.limited && int64(len(p)) > o.left {
		allowed = p[:o.left]
	}
	o.left -= int64(len(allowed))
	if s.to != nil && len(allowed) > 0 {
		if n, err := s.to.Write(allowed); err != nil {
			o.end(err)
			return n, err
		}
	}
	if len(allowed) < len(p) {
		o.end(exceeded(endedOutput))
		return len(allowed), exceeded(endedOutput)
	}
	return len(p), nil
}

// outputWait bounds the time that Run waits after the end of a command for output that an escaped
// process holds open.
const outputWait = 2 * time.Second

func (s *Sandbox) startUnconfined(c Command, caches []Cache, stdout, stderr stream) (*running, error) {
	dir := filepath.Join(s.inside, c.Dir)
	program, err := lookPath(c.Args[0], searchPath(s.options.Toolchains), dir)
	if err != nil {
		return refusedCommand(err, stderr), nil
	}
	cmd := exec.Command(program)
	cmd.Args = c.Args
	cmd.Env = s.commandEnvironment(c.Env, caches)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = outputWait
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return refusedCommand(err, stderr), nil
	}
	ended, finish := context.WithCancel(context.Background())
	kill := func() {
		if ended.Err() == nil {
			killGroup(cmd.Process)
		}
	}
	wait := func() (Exit, error) {
		err := cmd.Wait()
		killGroup(cmd.Process)
		finish()
		return unconfinedExit(cmd.ProcessState, err)
	}
	return &running{kill: kill, wait: wait}, nil
}

// unconfinedExit converts the state of an ended process. The caller handles the output limit.
func unconfinedExit(state *os.ProcessState, err error) (Exit, error) {
	if state == nil {
		return Exit{}, err
	}
	e := Exit{Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime()}
	if number, name := signalOf(state); name != "" {
		e.Code, e.Signal = 128+number, name
	}
	if _, failed := errors.AsType[*exec.ExitError](err); failed || errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, exceeded(endedOutput)) {
		return e, nil
	}
	return e, err
}

// refusedCommand returns a command that could not be started. Like a shell, it prints the error and exits.
func refusedCommand(err error, stderr stream) *running {
	return &running{kill: func() {}, wait: func() (Exit, error) {
		_, _ = stderr.Write([]byte(err.Error() + "\n")) // the writer's error ends the command
		return Exit{Code: refusalCode(err)}, nil
	}}
}

// refusalCode returns the exit code of a shell for a program that does not exist or cannot be run.
func refusalCode(err error) int {
	if errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}

// Level is a strength of confinement.
type Level string

// The levels, from strongest to weakest. The package documentation lists their gaps.
const (
	Full     Level = "full"
	Landlock Level = "landlock"
	Off      Level = "off"
)

// strength returns a number that orders the levels; 0 if the level is unknown.
func (l Level) strength() int {
	switch l {
	case Full:
		return 3
	case Landlock:
		return 2
	case Off:
		return 1
	default:
		return 0
	}
}

func (l Level) require(h Host) error {
	switch {
	case l.strength() == 0:
		return fmt.Errorf("unknown sandbox level %q; use one of full, landlock, off", string(l))
	case h.Level.strength() < l.strength():
		return &LevelError{Required: l, Given: h.Level, Missing: h.Missing}
	}
	return nil
}

// LevelError reports that the host cannot provide the required confinement.
type LevelError struct {
	Required Level
	Given    Level    // level that the host gives
	Missing  []string // a sentence for each missing feature, with its remedy
}

// Error names the missing features of the host and their remedies.
func (e *LevelError) Error() string {
	missing := strings.Join(e.Missing, "; ")
	if missing == "" {
		missing = "the reason is not known"
	}
	return fmt.Sprintf("commands have to run at sandbox level %q, but this host gives %q: %s (conclave sandbox check tells more; a weaker level can be set in sandbox.level)",
		e.Required, e.Given, missing)
}

// Limits bounds one command and all its processes. Zero means no limit.
type Limits struct {
	Time      time.Duration // time from start to end
	CPU       time.Duration // processor time
	Memory    int64         // memory in bytes
	Processes int           // number of processes and threads
	Disk      int64         // bytes in the workspace and the temporary directory, including those of earlier commands
	Files     int           // files and directories in the workspace and the temporary directory
	Output    int64         // bytes of standard output and standard error that are delivered
}

// Names of the limits that can end a command, for Exit.Ended.
const (
	endedTime      = "time"
	endedCPU       = "cpu"
	endedMemory    = "memory"
	endedProcesses = "processes"
	endedDisk      = "disk"
	endedFiles     = "files"
	endedOutput    = "output"
)

// Host describes the sandbox features of a host.
type Host struct {
	Level    Level    // the strongest that works
	Missing  []string // a sentence for each feature missing for level full, with its remedy
	Landlock int      // the kernel's Landlock version; 0 if it has no Landlock
	Cgroup   string   // a cgroup v2 directory in which groups can limit memory and processes, or empty
}

// Options configures a sandbox.
type Options struct {
	// Workspace is the absolute path of the commands' directory. At level full commands see
	// it as /workspace.
	Workspace string
	// Tree, if set, returns a detached mount of the workspace in which all files belong to the given
	// user of the host. It is for a workspace in another mount namespace: the path of the workspace is
	// not resolved, and changes must be on the file system of Temp. It needs level full.
	Tree func(owner int) (*os.File, error) `json:"-"`
	// Temp is an absolute path outside the workspace, in which /tmp and the home directory are
	// created. If empty, the system's temporary directory is used.
	Temp string
	// ReadOnly lists paths relative to the workspace that commands can only read. Missing paths are
	// ignored.
	ReadOnly []string
	// Toolchains lists absolute paths of directories with further programs. Commands can read them.
	// Their bin directories, or the directories themselves, come first in PATH.
	Toolchains []string
	// Private lists directories, such as the worker's data, that no toolchain may equal, contain or
	// lie in.
	Private []string
	// Caches provides the caches of build tools; the zero value provides none.
	Caches Caches `json:"-"`
	// Network provides network access at level full. Without it commands have none.
	Network Network `json:"-"`
	// Level is the required level. Open returns a *LevelError if the host cannot provide it.
	Level  Level
	Limits Limits
	// Beyond makes the limits of disk and files apply only to the growth of the workspace since
	// Open.
	Beyond bool
	// Host is the result of Probe. If it is the zero value, Open calls Probe.
	Host Host

	own string // path of this binary, if commands can run it
}

// Caches are directories that build tools fill and that are not part of the workspace.
type Caches struct {
	// Dir is a directory of the host with everything that commands have added. It counts toward the
	// limits of disk and files.
	Dir string
	// Open returns the caches that one command can use. It may wait for their content.
	Open func(ctx context.Context, args []string) []Cache
}

// Cache is a directory that commands can change.
type Cache struct {
	Name     string // its path in /cache, where commands see it at level full
	Variable string // the environment variable that names it; empty for a directory in another cache
	Dir      string // its path on the host

	// Tree, if set, returns a mount in place of Dir, as Options.Tree does. It needs level full.
	Tree func(owner int) (*os.File, error) `json:"-"`
}

// Network is a proxy outside the sandbox that commands reach on their own loopback.
type Network struct {
	// Reaches lists the allowed destinations, for messages.
	Reaches string
	// Serve starts the proxy of one command on a listening socket on the command's loopback. The
	// socket is closed when Serve returns; closing the proxy closes all connections. If nil, there
	// is no network.
	Serve func(socket *os.File) io.Closer
}

// proxyAddress is the address of the proxy, on a command's own loopback.
const proxyAddress = "127.0.0.1:3128"

const proxyPort = 3128

// workspacePath is the path of the workspace at level full.
const workspacePath = "/workspace"

// Command is a program to run.
type Command struct {
	Args []string          // the program, looked up in the sandbox's PATH unless it has a slash, and its arguments
	Env  map[string]string // added to the sandbox's own variables; the worker's are never passed on
	Dir  string            // the working directory, relative to the workspace; empty means the workspace
	Time time.Duration     // time limit; 0 means that of the sandbox
	// Stdout and Stderr may be nil or the same writer. They are not written to concurrently.
	Stdout, Stderr io.Writer
}

// Exit describes how a command ended.
type Exit struct {
	Code   int    // the exit code; 128 plus the signal's number if it was killed
	Signal string // the signal that killed it, such as "SIGKILL"
	// Ended is the exceeded limit that ended the command: time, cpu, memory, processes, disk, files
	// or output. It is empty if no limit did.
	Ended    string
	Duration time.Duration
	CPU      time.Duration // processor time of all its known processes
}

// Probe tests the host with a few attacks in a sandbox, which takes some tens of milliseconds.
func Probe(ctx context.Context) Host { return probeHost(ctx) }
