package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// childName is what the child finds as its own name; idleName makes one that only waits.
const (
	childName = "conclave-sandbox"
	idleName  = "conclave-sandbox-idle"
)

// Descriptors of the child beside the standard three.
const (
	controlFD = 3 // the spec, then nothing until the worker closes it or dies
	statusFD  = 4 // one status, at the end
	treesFD   = 5 // the workspace and the temporary directory as mounts, if spec.Trees
)

// spec is what the child has to do.
type spec struct {
	Level      Level
	Args       []string
	Env        []string
	Path       []string // where programs are looked up
	Dir        string   // relative to the workspace
	Workspace  string   // the host's path
	Temp       string   // the host's path
	ReadOnly   []string
	Toolchains []string
	Trees      bool // treesFD and the one after are given
	Switch     bool // the process has another user's id than the namespace's, and takes that on
	Landlock   int
	Limits     Limits
	Accounted  bool // a memory group counts all memory
	Counted    bool // the kernel counts the processes of this command alone, so it can limit them
	Ask        bool // the kernel does not limit processes and threads, so this process does
}

// status is how it ended.
type status struct {
	Error     string `json:",omitempty"` // a fault of the machinery
	Refused   int    `json:",omitempty"` // the exit code of a program that could not be started
	Code      int
	Signal    int           `json:",omitempty"`
	Ended     Reason        `json:",omitempty"`
	CPU       time.Duration // of all processes
	MaxMemory int64         // bytes
}

// The child does its part while packages are initialised (see the package documentation). What this
// package imports decides how long it waits for that: runtime/debug, for one, comes after most packages
// of a large program.
var _ = begun()

func begun() bool { //nolint:unparam // a package variable needs a value
	if len(os.Args) != 1 || len(os.Environ()) > 0 {
		return false
	}
	switch {
	case os.Args[0] == childName && isPipe(controlFD) && isPipe(statusFD):
		enter()
	case os.Args[0] == idleName && isPipe(0):
		_, _ = os.Stdin.Read(make([]byte, 1)) // ends with the worker, or when it has what it wants
		syscall.Exit(0)
	}
	return false
}

func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

// enter is the child; it does not return. It ends without what os.Exit does for the program, such as
// the race detector's last second.
func enter() {
	unix.CloseOnExec(controlFD)
	unix.CloseOnExec(statusFD)
	// One thread confines itself and starts the command, which inherits that; the others of this
	// process stay as they are, to watch and to kill. It must not be the first one: whom a command may
	// send a signal is decided by the first thread of the receiver.
	done := make(chan int)
	go func() {
		runtime.LockOSThread()
		done <- serve(os.NewFile(controlFD, "control"), os.NewFile(statusFD, "status"))
	}()
	syscall.Exit(<-done)
}

// serve does what the worker wants, tells how it ended, and gives the exit code.
func serve(control, report *os.File) int {
	var s spec
	if err := json.NewDecoder(control).Decode(&s); err != nil {
		return 1 // the worker is gone
	}
	if err := json.NewEncoder(report).Encode(s.perform(control)); err != nil {
		return 1
	}
	return 0
}

// perform confines the thread, runs the command and sees it through. The order matters: each step
// takes away what the ones before it needed.
func (s spec) perform(control *os.File) status {
	if err := closeOthers(s.Trees); err != nil {
		return status{Error: err.Error()}
	}
	tasks, err := openTasks()
	if err != nil {
		return status{Error: err.Error()}
	}
	if s.Level == Full {
		if err := s.enterRoot(); err != nil {
			return status{Error: "make the root of its own: " + err.Error()}
		}
		if own, err := openTasks(); err == nil && own.self == 1 {
			tasks = own // has only what is in the namespace
		}
	}
	g, err := newGuard(s, tasks, control)
	if err != nil {
		return status{Error: err.Error()}
	}
	restore := s.protect()
	defer restore()
	program, dir, err := s.program()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return status{Refused: refusalCode(err)}
	}
	listener, err := s.confine()
	if err != nil {
		return status{Error: err.Error()}
	}
	if s.Ask {
		t := &threads{listener: listener, tasks: tasks, limit: s.Limits.Processes, dying: g.dying}
		go t.answer()
	}
	pid, err := s.fork(program, dir)
	if err != nil {
		if !isRefusal(err) {
			return status{Error: fmt.Sprintf("start %s: %v", program, err)}
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		return status{Refused: refusalCode(err)}
	}
	return g.see(pid)
}

// closeOthers makes sure that a command inherits no descriptor of ours.
func closeOthers(trees bool) error {
	first := uint(treesFD)
	if trees {
		first += 2
		unix.CloseOnExec(treesFD)
		unix.CloseOnExec(treesFD + 1)
	}
	if err := unix.CloseRange(first, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep descriptors to ourselves: %w", err)
	}
	return nil
}

// confine takes from this thread what the command must not have, and gives the listener of the
// filter, if it has one.
func (s spec) confine() (int, error) {
	if err := s.limitResources(); err != nil {
		return -1, fmt.Errorf("limit resources: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("forbid new privileges: %w", err)
	}
	if err := dropPrivileges(); err != nil {
		return -1, fmt.Errorf("drop privileges: %w", err)
	}
	if err := s.restrictPaths(); err != nil {
		return -1, fmt.Errorf("restrict paths by Landlock version %d: %w", s.Landlock, err)
	}
	listener, err := s.filterCalls()
	if err != nil {
		return -1, fmt.Errorf("filter system calls: %w", err)
	}
	return listener, nil
}

// program finds what is to be run, and where.
func (s spec) program() (string, string, error) {
	dir := s.join(s.Dir)
	if info, err := os.Stat(dir); err != nil {
		return "", "", err
	} else if !info.IsDir() {
		return "", "", &os.PathError{Op: "change to", Path: dir, Err: syscall.ENOTDIR}
	}
	program, err := lookPath(s.Args[0], s.Path, dir)
	return program, dir, err
}

// join gives the path that a command sees of something in the workspace.
func (s spec) join(name string) string {
	if s.Level == Full {
		return WorkspacePath + "/" + name
	}
	return s.Workspace + "/" + name
}

// fork starts the command from the confined thread.
func (s spec) fork(program, dir string) (int, error) {
	pid := 0
	err := s.during(func() (err error) {
		pid, err = syscall.ForkExec(program, s.Args, &syscall.ProcAttr{
			Dir:   dir,
			Env:   s.Env,
			Files: []uintptr{0, 1, 2},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		return err
	})
	return pid, err
}

// closeFD closes a descriptor that nothing was written to.
func closeFD(fd int) { _ = unix.Close(fd) }

// isRefusal tells a program that cannot be run from a host that cannot run programs.
func isRefusal(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number) && slices.Contains([]syscall.Errno{
		syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP,
		syscall.E2BIG, syscall.ETXTBSY, syscall.EPERM, syscall.ENAMETOOLONG,
	}, number)
}
