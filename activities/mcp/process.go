package mcp

import (
	"errors"
	"fmt"
	"io"
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

// How a server's processes are ended: its input is closed, then it is asked,
// then everything is killed.
const (
	closeGrace = time.Second
	termGrace  = 600 * time.Millisecond
	killGrace  = 2 * time.Second // the system's own time to end what is killed

	// drainGrace is how long output is read after the program has ended: what it
	// started may hold the pipe open.
	drainGrace = 300 * time.Millisecond
)

// markName is the environment variable by which the processes of a server are
// known, however they detach themselves.
const markName = "CONCLAVE_MCP_MARK"

// process is a server's program, in a session and process group of its own.
type process struct {
	pid    int
	mark   string
	in     *os.File // what we write
	out    *os.File // what we read
	err    *os.File
	tail   tail          // of standard error, and of what is no message on standard output
	exited chan struct{} // closed when the program has ended and is reaped
	quiet  chan struct{} // closed when standard error has ended
	state  *os.ProcessState

	stopping sync.Once
}

// start runs the server's program. mark has to be unlike any other.
func start(s Server, dir, home, mark string) (*process, error) {
	env := environment(s, home, mark)
	path, err := lookup(s.Command, env["PATH"])
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, s.Args...)
	cmd.Dir, cmd.SysProcAttr = dir, attributes()
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
		_, _ = io.Copy(&p.tail, p.err) // ends with the pipe; there is nobody to tell
	}()
	return p, nil
}

// environment is all that the program gets.
func environment(s Server, home, mark string) map[string]string {
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": home}
	for name, value := range s.Env {
		env[name] = value
	}
	env[markName] = mark
	return env
}

// lookup finds a program. Directories that are not absolute are left out: they
// would be the workspace's.
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
	return "", fmt.Errorf("there is no program %q in PATH (%s); install it, or give its absolute path", command, path)
}

// pipes connects the command, and returns its ends, to be closed once it runs.
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

// run starts the command and waits for its end in the background, all on one
// thread: the system kills the program when the thread that started it ends.
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
		_ = cmd.Wait() // how it ended is in its state
		p.state = cmd.ProcessState
		close(p.exited)
		time.AfterFunc(drainGrace, func() { p.out.Close() })
	}()
	return <-started
}

// ended is what there is to say of the program after its connection broke:
// how it ended, if it did, and what it wrote last.
func (p *process) ended() string {
	// What broke the connection is often the program's end, about to be noticed.
	within(drainGrace, p.exited, p.quiet)
	text := ""
	select {
	case <-p.exited:
		if p.state != nil {
			text = "; the program ended (" + p.state.String() + ")"
		}
	default:
	}
	if said := p.tail.String(); said != "" {
		text += "; it wrote last:\n" + said
	}
	return text
}

// within waits for all the channels to close, but no longer than limit.
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

// stop ends the program and everything that it started, and releases the pipes.
func (p *process) stop() {
	p.stopping.Do(func() {
		before := p.family() // ties that the program's own end would cut
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
	maxTail  = 8 << 10 // bytes kept of what a server writes beside the protocol
	maxShown = 2 << 10 // bytes of it, or of any foreign message, shown in an error
)

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-maxTail):]...)
	if over := len(t.kept) - maxTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// String is the end of what was written, fit to be shown.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	shown := strings.TrimSpace(text.Terminal(string(t.kept)))
	if len(shown) > maxShown {
		shown = "…" + strings.ToValidUTF8(shown[len(shown)-maxShown:], "")
	}
	return shown
}
