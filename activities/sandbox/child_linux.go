package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	childName = "conclave-sandbox"      // the name under which this binary runs as the child
	idleName  = "conclave-sandbox-idle" // the name under which this binary only waits
)

// File descriptors of the child in addition to the standard ones.
const (
	controlFD = 3 // receives the spec; closed when the command is to end or the worker has died
	statusFD  = 4 // sends the status at the end
	treesFD   = 5 // the first of the mounts of spec.Trees; the socket of spec.Network follows the last one
)

// spec tells the child how to confine the command.
type spec struct {
	Level      Level
	Args       []string
	Env        []string
	Path       []string // directories of programs
	Dir        string   // relative to the workspace
	Workspace  string   // path on the host
	Temp       string   // path on the host
	ReadOnly   []string
	Toolchains []string
	Caches     []Cache  // without those passed in Trees
	Trees      []string // mount points, in the new root, of the mounts passed from treesFD on
	Switch     bool     // the child starts as the worker's user and becomes the namespace's
	Landlock   int
	Limits     Limits
	Accounted  bool // a memory cgroup limits the memory
	Counted    bool // the kernel counts this command's processes separately, so that it can limit them
	Network    bool // the proxy's listener is passed over the descriptor after the others
	AskThreads bool // the kernel does not limit threads, so the child does
}

type status struct {
	Error string // a fault of the sandbox
	Exit  Exit
}

// The child runs during package initialization. The package has few imports, so that this happens
// early.
var _ = runChild()

func runChild() bool { //nolint:unparam // a package variable needs a value
	if len(os.Args) != 1 || len(os.Environ()) > 0 {
		return false
	}
	switch {
	case os.Args[0] == childName && isPipe(controlFD) && isPipe(statusFD):
		serveAndExit()
	case os.Args[0] == idleName && isPipe(0):
		_, _ = os.Stdin.Read(make([]byte, 1)) // returns when the worker closes the pipe or dies
		syscall.Exit(0)
	}
	return false
}

func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

// serveAndExit does not return. It exits without os.Exit, whose work can take time; the race detector, for
// example, waits for a second.
func serveAndExit() {
	unix.CloseOnExec(controlFD)
	unix.CloseOnExec(statusFD)
	// One thread confines itself and starts the command; the others watch and kill it. The confined
	// thread must not be the first one, whose credentials the kernel checks when a command sends a
	// signal.
	done := make(chan int)
	go func() {
		runtime.LockOSThread()
		done <- serveSpec(os.NewFile(controlFD, "control"), os.NewFile(statusFD, "status"))
	}()
	syscall.Exit(<-done)
}

func serveSpec(control, report *os.File) int {
	var s spec
	if err := json.NewDecoder(control).Decode(&s); err != nil {
		return 1 // the worker has died
	}
	var st status
	var err error
	if st.Exit, err = s.executeCommand(control); err != nil {
		st.Error = err.Error()
	}
	if err := json.NewEncoder(report).Encode(st); err != nil {
		return 1
	}
	return 0
}

// executeCommand confines the thread, runs the command and waits for its end. The order matters: each step
// removes rights that earlier steps need.
func (s spec) executeCommand(control *os.File) (Exit, error) {
	tasks, err := s.enterIsolation()
	if err != nil {
		return Exit{}, err
	}
	g, err := newGuard(s, tasks, control)
	if err != nil {
		return Exit{}, err
	}
	if s.Network {
		if err := passListener(treesFD + len(s.Trees)); err != nil {
			return Exit{}, fmt.Errorf("pass the listener of the network: %w", err)
		}
	}
	restore := s.protectParts()
	defer restore()
	program, dir, err := s.findProgram()
	if err != nil {
		return refuseProgram(err), nil
	}
	listener, err := s.confineThread()
	if err != nil {
		return Exit{}, err
	}
	if s.AskThreads {
		t := &threads{listener: listener, tasks: tasks, limit: s.Limits.Processes, dying: g.dying}
		go t.answerCalls()
	}
	pid, err := s.forkCommand(program, dir)
	switch {
	case isRefusal(err):
		return refuseProgram(fmt.Errorf("%s: %w", program, err)), nil
	case err != nil:
		return Exit{}, fmt.Errorf("start %s: %w", program, err)
	}
	return g.awaitCommand(pid), nil
}

func refuseProgram(err error) Exit {
	fmt.Fprintln(os.Stderr, err)
	return Exit{Code: refusalCode(err)}
}

// enterIsolation hides the child's descriptors and, at level full, enters the new root. It uses the
// namespace's own /proc if there is one.
func (s spec) enterIsolation() (*tasks, error) {
	if err := hideDescriptors(len(s.Trees)); err != nil {
		return nil, err
	}
	tasks, err := openTasks()
	if err != nil || s.Level != Full {
		return tasks, err
	}
	if err := s.enterRoot(); err != nil {
		return nil, fmt.Errorf("make the root of the sandbox: %w", err)
	}
	if own, err := openTasks(); err == nil && own.self == 1 {
		return own, nil
	}
	return tasks, nil
}

func hideDescriptors(trees int) error {
	for fd := treesFD; fd < treesFD+trees; fd++ {
		unix.CloseOnExec(fd)
	}
	if err := unix.CloseRange(uint(treesFD+trees), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close descriptors on exec: %w", err)
	}
	return nil
}

// confineThread removes this thread's rights. It returns the listener of the filter, or -1 if the filter has
// no listener.
func (s spec) confineThread() (int, error) {
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

func (s spec) findProgram() (string, string, error) {
	dir := s.pathInside(s.Dir)
	if info, err := os.Stat(dir); err != nil {
		return "", "", err
	} else if !info.IsDir() {
		return "", "", &os.PathError{Op: "change to", Path: dir, Err: syscall.ENOTDIR}
	}
	program, err := lookPath(s.Args[0], s.Path, dir)
	return program, dir, err
}

func (s spec) pathInside(name string) string {
	if s.Level == Full {
		return workspacePath + "/" + name
	}
	return s.Workspace + "/" + name
}

func (s spec) forkCommand(program, dir string) (int, error) {
	pid := 0
	err := s.withForkLimits(func() (err error) {
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

// closeFD closes a descriptor to which nothing was written.
func closeFD(fd int) { _ = unix.Close(fd) }

// isRefusal reports whether an error means that the program cannot be run, rather than a fault of
// the host.
func isRefusal(err error) bool {
	number, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains([]syscall.Errno{
		syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP,
		syscall.E2BIG, syscall.ETXTBSY, syscall.EPERM, syscall.ENAMETOOLONG,
	}, number)
}

// passage is the worker's end of a command's network access. The child opens a listener on the
// command's loopback and passes it to the worker, whose proxy serves it. The child does not import
// package net, whose initialization would delay every command.
type passage struct {
	socket int           // socket that receives the listener
	theirs *os.File      // the child's end of the socket
	served chan struct{} // closed when proxy is known
	proxy  io.Closer     // nil if the child made no listener
}

func openPassage() (*passage, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the sockets of the network: %w", err)
	}
	return &passage{socket: ends[0], theirs: os.NewFile(uintptr(ends[1]), "network"), served: make(chan struct{})}, nil
}

func (p *passage) serveProxy(way Network) {
	defer close(p.served)
	defer closeFD(p.socket)
	rights := make([]byte, unix.CmsgSpace(4)) // room for one descriptor
	n, err := 0, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		_, n, _, _, err = unix.Recvmsg(p.socket, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return // the child failed, and reports it
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return
	}
	passed, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(passed) != 1 {
		return
	}
	file := os.NewFile(uintptr(passed[0]), "listener")
	defer file.Close()
	p.proxy = way.Serve(file)
}

// close closes the proxy. It is called after the child has ended, or if the child was not started.
func (p *passage) close(started bool) {
	if !started {
		_ = p.theirs.Close()
		closeFD(p.socket)
		return
	}
	<-p.served // the end of the child closed its socket
	if p.proxy != nil {
		_ = p.proxy.Close()
	}
}

// passListener opens the proxy's listener in the child's network and sends it to the worker over a
// socket. The command inherits neither.
func passListener(socket int) error {
	defer closeFD(socket)
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(listener)
	if err := unix.Bind(listener, &unix.SockaddrInet4{Port: proxyPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(listener, unix.SOMAXCONN); err != nil {
		return err
	}
	return unix.Sendmsg(socket, []byte{0}, unix.UnixRights(listener), nil, 0)
}
