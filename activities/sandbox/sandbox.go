package sandbox

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Level is how well a command is confined.
type Level string

// The levels, from strongest to weakest. The package documentation says what each leaves open.
const (
	Full     Level = "full"
	Landlock Level = "landlock"
	Off      Level = "off"
)

// Limits bound one command with all its processes together. Zero means no limit.
type Limits struct {
	Time      time.Duration // from start to end
	CPU       time.Duration // processor time
	Memory    int64         // bytes
	Processes int           // processes and threads
	Disk      int64         // bytes in the workspace and the temporary directory together, with what was there before
	Files     int           // files and directories in the workspace and the temporary directory together
	Output    int64         // bytes of standard output and standard error together that are delivered
}

// Reason says which limit ended a command; it is empty for one that ended by itself.
type Reason string

// The limits that end a command.
const (
	EndedTime      Reason = "time"
	EndedCPU       Reason = "cpu"
	EndedMemory    Reason = "memory"
	EndedProcesses Reason = "processes"
	EndedDisk      Reason = "disk"
	EndedFiles     Reason = "files"
	EndedOutput    Reason = "output"
)

// Host is what a host gives.
type Host struct {
	Level    Level    // the strongest that works here
	Missing  []string // what full lacks here and the remedy, a sentence each; empty when Level is full
	Landlock int      // the kernel's Landlock version; 0 without
	Cgroup   string   // a cgroup v2 directory where groups with memory and process limits can be made; empty without
	IDMap    bool     // files can be given to another user by the mount (a worker that is root uses it)
}

// Options describe a sandbox.
type Options struct {
	// Workspace is the directory, absolute, that commands work in. At level full they see it as
	// WorkspacePath, at the others under its own path.
	Workspace string
	// Temp is a directory, absolute and outside the workspace, in which the sandbox makes its
	// temporary one (the commands' /tmp and home directory). Close removes that. Empty means the
	// system's.
	Temp string
	// ReadOnly are parts of the workspace that commands can read but not change, relative to it.
	// What does not exist is ignored.
	ReadOnly []string
	// Toolchains are directories, absolute, with programs beyond the system's (such as /opt/go or
	// a directory of a version manager), readable by commands. Their bin directories, or the
	// directories themselves, come first in PATH.
	Toolchains []string
	// Private are directories that must never be readable by a command: a toolchain that is,
	// holds or lies in one is refused. The worker names its data directory here.
	Private []string
	// Level is what is required. A host that gives less is refused with *LevelError; a host that
	// gives more runs commands at the required level all the same.
	Level  Level
	Limits Limits
	// Host is the result of Probe. The zero value makes Open ask for itself.
	Host Host
}

// WorkspacePath is where commands see the workspace at level full.
const WorkspacePath = "/workspace"

// Command is one program to be run.
type Command struct {
	Args []string          // the program, looked up in the sandbox's PATH unless it has a slash, and its arguments
	Env  map[string]string // added to the few variables that the sandbox sets; nothing of the worker's is passed on
	Dir  string            // where it starts, relative to the workspace; empty means the workspace
	// Stdout and Stderr may be the same writer, are never written to at the same moment, and may
	// be nil. The command's standard input is empty.
	Stdout, Stderr io.Writer
}

// Exit says how a command ended.
type Exit struct {
	Code      int    // what the program returned; 128 plus the signal's number if it was killed
	Signal    string // the name of the signal that killed it, such as "SIGKILL"
	Ended     Reason // the limit that it went beyond
	Duration  time.Duration
	CPU       time.Duration // processor time of all its processes that is known of
	MaxMemory int64         // bytes, the most that was seen
}

// Probe finds out what this host gives by trying: it starts /bin/true and a few attacks in a
// sandbox. It takes some tens of milliseconds; ask once and keep the answer.
func Probe(ctx context.Context) Host { return probe(ctx) }

// Open makes a sandbox around a workspace. Close it.
func Open(o Options) (*Sandbox, error) { return open(o) }

// Run runs a command and returns when it and everything it started are gone. A command that fails
// or goes beyond a limit is an Exit; an error is a fault of the machinery or the end of ctx.
// Several calls may run at the same time; each has the limits to itself but for disk and files.
func (s *Sandbox) Run(ctx context.Context, c Command) (Exit, error) { return s.run(ctx, c) }

// Close kills whatever is left and removes the temporary directory. Runs still under way end with
// an error.
func (s *Sandbox) Close() error { return s.close() }

// Workspace is the path under which commands see the workspace.
func (s *Sandbox) Workspace() string { return s.inside }

// Level is the level at which commands run.
func (s *Sandbox) Level() Level { return s.options.Level }

// LevelError is the refusal to run commands less confined than required.
type LevelError struct {
	Required Level
	Given    Level    // what the host gives
	Missing  []string // what is missing and the remedy, a sentence each
}

// Error says what the host lacks, and what can be done.
func (e *LevelError) Error() string {
	missing := strings.Join(e.Missing, "; ")
	if missing == "" {
		missing = "the reason is not known"
	}
	return fmt.Sprintf("commands have to run at sandbox level %q, but this host gives %q: %s (conclave sandbox check tells more; a weaker level can be set in sandbox.level)",
		e.Required, e.Given, missing)
}

// strength orders the levels; an unknown one has none.
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

// require refuses a host that gives less than the level.
func (l Level) require(h Host) error {
	if l.strength() == 0 {
		return fmt.Errorf("sandbox level %q is none of full, landlock, off", string(l))
	}
	if h.Level.strength() < l.strength() {
		return &LevelError{Required: l, Given: h.Level, Missing: h.Missing}
	}
	return nil
}
