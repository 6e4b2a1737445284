package mcp

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/engine/text"
)

// Grace periods between the stages that end a server's processes: closed input, termination, kill.
const (
	closeGrace = time.Second
	termGrace  = 600 * time.Millisecond
	killGrace  = 2 * time.Second // time for the system to end killed processes

	// drainGrace bounds the reading of output after the program has exited, because its children
	// may hold the pipe open.
	drainGrace = 300 * time.Millisecond
)

// markName is the environment variable that identifies a server's processes, including detached
// ones.
const markName = "CONCLAVE_MCP_MARK"

// process is a server's program, which has its own session and process group.
type process struct {
	pid    int
	mark   string
	in     *os.File      // our end of standard input
	out    *os.File      // our end of standard output
	err    *os.File      // our end of standard error
	tail   tail          // the end of standard error, and of noise on standard output
	exited chan struct{} // closed when the program has exited and is reaped
	quiet  chan struct{} // closed at the end of standard error
	state  *os.ProcessState

	stopping sync.Once
}

// Workspace is the variable with the directory of the agent's files.
const Workspace = "CONCLAVE_WORKSPACE"

// start runs the server's program with a mark, which must be unique, in an empty directory: many
// launchers load code from their working directory, which in the workspace is an agent's or a base's.
func start(s Server, workspace, home, mark string) (*process, error) {
	env := environment(s, home, mark)
	env[Workspace] = workspace
	path, err := lookup(s.Command, env["PATH"])
	if err != nil {
		return nil, err
	}
	empty, err := os.MkdirTemp(home, "start-")
	if err != nil {
		return nil, fmt.Errorf("making an empty directory for the program: %w", err)
	}
	cmd := exec.Command(path, s.Args...)
	cmd.Dir, cmd.SysProcAttr = empty, attributes()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	slices.Sort(cmd.Env)
	p := &process{mark: mark, exited: make(chan struct{}), quiet: make(chan struct{})}
	theirs, err := p.pipes(cmd)
	defer closeAll(theirs)
	if err != nil {
		return nil, err
	}
	if err := p.run(cmd); err != nil {
		p.closePipes()
		return nil, err
	}
	go func() {
		defer close(p.quiet)
		_, _ = io.Copy(&p.tail, p.err) // reads until the pipe is closed
	}()
	return p, nil
}

// tempName is the directory for temporary files within a server's HOME. Browsers keep profiles
// there.
const tempName = "tmp"

// maxTempPath bounds the path of that directory, in bytes. Browsers create sockets whose paths are
// about 45 bytes longer, and the limit for a socket is 107.
const maxTempPath = 60

func environment(s Server, home, mark string) map[string]string {
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": home}
	if temp := filepath.Join(home, tempName); len(temp) <= maxTempPath {
		env["TMPDIR"] = temp
	}
	maps.Copy(env, s.Env)
	env[markName] = mark
	return env
}

// lookup finds a program in PATH. It skips relative directories, which would depend on where the
// worker was started.
func lookup(command, path string) (string, error) {
	if filepath.IsAbs(command) {
		return command, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, command)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("there is no program %q in PATH; install it, or give its absolute path (PATH is %s)", command, path)
}

// pipes connects the command and returns its ends of the pipes, which the caller closes after the
// start.
func (p *process) pipes(cmd *exec.Cmd) ([]*os.File, error) {
	inRead, inWrite, err1 := os.Pipe()
	outRead, outWrite, err2 := os.Pipe()
	errRead, errWrite, err3 := os.Pipe()
	p.in, p.out, p.err = inWrite, outRead, errRead
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inRead, outWrite, errWrite
	theirs := []*os.File{inRead, outWrite, errWrite}
	if err := errors.Join(err1, err2, err3); err != nil {
		p.closePipes()
		return theirs, fmt.Errorf("making pipes for the program: %w", err)
	}
	return theirs, nil
}

// run starts the command and waits for its exit on one locked thread, because Linux kills the
// program when the thread that started it ends.
func (p *process) run(cmd *exec.Cmd) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait() // the state has the exit code
		p.state = cmd.ProcessState
		close(p.exited)
		time.AfterFunc(drainGrace, func() { p.out.Close() })
	}()
	return <-started
}

// report describes the program after its connection broke: its exit, if it has exited, and its last
// output.
func (p *process) report() string {
	// The connection often breaks because the program is exiting: wait briefly for that.
	within(drainGrace, p.exited, p.quiet)
	about := ""
	select {
	case <-p.exited:
		if p.state != nil {
			about = "; the program ended (" + p.state.String() + ")"
		}
	default:
	}
	if last := p.tail.String(); last != "" {
		about += "; it wrote last:\n" + last
	}
	return about
}

// within reports whether all the channels are closed within the limit.
func within(limit time.Duration, channels ...<-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, c := range channels {
		select {
		case <-c:
		case <-timer.C:
			return false
		}
	}
	return true
}

// stop ends the program and all processes that it started, and releases the pipes.
func (p *process) stop() {
	p.stopping.Do(func() {
		before := p.family() // read before the program's exit hides its relatives
		p.in.Close()
		if !within(closeGrace, p.exited) {
			p.terminate()
			if !within(termGrace, p.exited) {
				p.kill()
				within(killGrace, p.exited)
			}
		}
		p.sweep(before)
		p.closePipes()
	})
}

func (p *process) closePipes() { closeAll([]*os.File{p.in, p.out, p.err}) }

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

const (
	maxTail  = 8 << 10 // bytes kept of a server's output beside the protocol
	maxShown = 2 << 10 // bytes of them shown in an error
)

// tail is a writer that keeps at least the last maxTail bytes.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-maxTail):]...)
	if len(t.kept) > 2*maxTail { // not at every write, because a flood has very many lines
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-maxTail:]...)
	}
	return len(p), nil
}

// String returns the last maxShown bytes, cleaned for terminals.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	shown := strings.TrimSpace(text.Terminal(string(t.kept)))
	if len(shown) > maxShown {
		shown = "…" + text.Tail(shown, maxShown)
	}
	return shown
}
