package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Level is a strength of confinement.
type Level string

// The levels, from strongest to weakest. The package documentation lists their gaps.
const (
	Gvisor   Level = "gvisor"
	Full     Level = "full"
	Landlock Level = "landlock"
	Off      Level = "off"
)

// strength returns a number that orders the levels; 0 if the level is unknown.
func (l Level) strength() int {
	switch l {
	case Gvisor:
		return 4
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

// require returns an error if the host cannot provide the level.
func (l Level) require(h Host) error {
	switch {
	case l.strength() == 0:
		return fmt.Errorf("unknown sandbox level %q; use one of gvisor, full, landlock, off", string(l))
	case l == Gvisor && h.Gvisor == "":
		return &LevelError{Required: l, Given: h.Level, Missing: []string{"there is no program runsc on the PATH of the worker; install gVisor"}}
	case l != Gvisor && h.Level.strength() < l.strength():
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
	Level    Level    // the strongest that works, without gVisor
	Missing  []string // a sentence for each feature missing for level full, with its remedy
	Landlock int      // the kernel's Landlock version; 0 if it has no Landlock
	Cgroup   string   // a cgroup v2 directory in which groups can limit memory and processes, or empty
	Gvisor   string   // the path of gVisor's program runsc, or empty
}

// Options configures a sandbox.
type Options struct {
	// Workspace is the absolute path of the commands' directory. At levels gvisor and full commands
	// see it as /workspace.
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

// workspacePath is the path of the workspace at levels gvisor and full.
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

// Probe tests the host with a few attacks in a sandbox, which takes some tens of milliseconds. It
// finds gVisor, but does not start it.
func Probe(ctx context.Context) Host { return probe(ctx) }

// Try runs a command and a few attacks at a level.
func (h Host) Try(ctx context.Context, level Level) error {
	if err := level.require(h); err != nil {
		return err
	}
	h.Level = level
	return try(ctx, h)
}
