package mcp

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
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

// markName is the environment variable that identifies a server's processes, including detached ones.
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

// startProgram runs the server's program with a mark, which must be unique, in an empty directory: many
// launchers load code from their working directory, which in the workspace is an agent's or a base's.
func startProgram(s Server, workspace, home, mark string) (*process, error) {
	env := programEnv(s, home, mark)
	env[Workspace] = workspace
	path, err := lookupProgram(s.Command, env["PATH"])
	if err != nil {
		return nil, err
	}
	empty, err := os.MkdirTemp(home, "start-")
	if err != nil {
		return nil, fmt.Errorf("make an empty directory for the program: %w", err)
	}
	cmd := exec.Command(path, s.Args...)
	cmd.Dir, cmd.SysProcAttr = empty, sysAttributes()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	slices.Sort(cmd.Env)
	p := &process{mark: mark, exited: make(chan struct{}), quiet: make(chan struct{})}
	theirs, err := p.connectPipes(cmd)
	defer closeFiles(theirs)
	if err != nil {
		return nil, err
	}
	if err := p.runOnThread(cmd); err != nil {
		p.closePipes()
		return nil, err
	}
	go func() {
		defer close(p.quiet)
		_, _ = io.Copy(&p.tail, p.err) // reads until the pipe is closed
	}()
	return p, nil
}

// tempName is the directory for temporary files within a server's HOME. Browsers keep profiles there.
const tempName = "tmp"

// maxTempPath bounds the path of that directory, in bytes. Browsers create sockets whose paths are
// about 45 bytes longer, and the limit for a socket is 107.
const maxTempPath = 60

func programEnv(s Server, home, mark string) map[string]string {
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": home}
	if temp := filepath.Join(home, tempName); len(temp) <= maxTempPath {
		env["TMPDIR"] = temp
	}
	maps.Copy(env, s.Env)
	env[markName] = mark
	return env
}

// lookupProgram finds a program in PATH. It skips relative directories, which would depend on where the
// worker was started.
func lookupProgram(command, path string) (string, error) {
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

// connectPipes connects the command and returns its ends of the pipes, which the caller closes after the
// start.
func (p *process) connectPipes(cmd *exec.Cmd) ([]*os.File, error) {
	inRead, inWrite, err1 := os.Pipe()
	outRead, outWrite, err2 := os.Pipe()
	errRead, errWrite, err3 := os.Pipe()
	p.in, p.out, p.err = inWrite, outRead, errRead
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inRead, outWrite, errWrite
	theirs := []*os.File{inRead, outWrite, errWrite}
	if err := errors.Join(err1, err2, err3); err != nil {
		p.closePipes()
		return theirs, fmt.Errorf("make pipes for the program: %w", err)
	}
	return theirs, nil
}

// runOnThread starts the command and waits for its exit on one locked thread, because Linux kills the
// program when the thread that started it ends.
func (p *process) runOnThread(cmd *exec.Cmd) error {
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

// describeEnd describes the program after its connection broke: its exit, if it has exited, and its last
// output.
func (p *process) describeEnd() string {
	// The connection often breaks because the program is exiting: wait briefly for that.
	closedWithin(drainGrace, p.exited, p.quiet)
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

func closedWithin(limit time.Duration, channels ...<-chan struct{}) bool {
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

func (p *process) stop() {
	p.stopping.Do(func() {
		before := p.familyMembers() // read before the program's exit hides its relatives
		p.in.Close()
		if !closedWithin(closeGrace, p.exited) {
			p.terminate()
			if !closedWithin(termGrace, p.exited) {
				p.kill()
				closedWithin(killGrace, p.exited)
			}
		}
		p.sweepFamily(before)
		p.closePipes()
	})
}

func (p *process) closePipes() { closeFiles([]*os.File{p.in, p.out, p.err}) }

func closeFiles(files []*os.File) {
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

// minSecret is the minimum length of an environment value that is redacted, in bytes.
const minSecret = 8

// Default timeouts of a Server.
const (
	defaultCall  = 2 * time.Minute
	defaultStart = 30 * time.Second // launchers such as npx start slowly
)

// Server is one MCP server, by Command or by URL, as validated by the configuration.
type Server struct {
	Name string // its part of the tools' names; unique in a step

	// Command is an absolute path, or a name that is looked up in the absolute directories of PATH:
	// that of Env if set, otherwise the worker's.
	Command string

	// Args are the arguments. The placeholder ${CONCLAVE_WORKSPACE}, an argument "." and the end "=." of
	// one stand for the workspace.
	Args []string

	// Env is the program's environment, in which the placeholder is replaced, too. Only PATH, HOME (an
	// empty directory), TMPDIR, CONCLAVE_WORKSPACE and a mark are added.
	Env map[string]string

	URL   string // http or https, without credentials
	Token string // sent to URL as a bearer token, and nowhere else

	Allowed  []string // the offered tools, by the server's names; nil for all
	Excluded []string // tools that are not offered, even if Allowed lists them

	Shared bool // the steps of a run share the server, whose workspace is a directory of its own

	CallTimeout  time.Duration // longest time of one tool call; 0 means 2 minutes
	StartTimeout time.Duration // longest time of connecting; 0 means 30 seconds
}

// StartError reports a failed connection and the last lines of the server's standard error.
type StartError struct {
	Server string
	Err    error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("connect MCP server %q: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Find returns an error if the server's program is not installed on this machine.
func (s Server) Find() error {
	if s.Command == "" {
		return nil
	}
	found, err := lookupProgram(s.Command, programEnv(s, "", "")["PATH"])
	if err == nil {
		_, err = exec.LookPath(found)
	}
	if err != nil {
		return fmt.Errorf("MCP server %q: %w", s.Name, err)
	}
	return nil
}

func (s Server) inWorkspace(workspace string) Server {
	const placeholder = "${" + Workspace + "}"
	s.Args, s.Env = slices.Clone(s.Args), maps.Clone(s.Env)
	for i, arg := range s.Args {
		if before, ok := strings.CutSuffix(arg, "."); ok && (before == "" || strings.HasSuffix(before, "=")) {
			arg = before + placeholder
		}
		s.Args[i] = strings.ReplaceAll(arg, placeholder, workspace)
	}
	for name, value := range s.Env {
		s.Env[name] = strings.ReplaceAll(value, placeholder, workspace)
	}
	return s
}

func (s Server) rootDirectories(workspace string) []string {
	dirs := []string{workspace}
	for _, arg := range s.Args {
		if _, of, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = of
		}
		if info, err := os.Stat(arg); err == nil && info.IsDir() && filepath.IsAbs(arg) && arg != workspace {
			dirs = append(dirs, filepath.Clean(arg))
		}
	}
	return dirs
}

func (s Server) newRedactor() *text.Redactor {
	var secrets []string
	for name, value := range s.Env {
		if name != "PATH" && name != "HOME" && len(value) >= minSecret {
			secrets = append(secrets, value)
		}
	}
	if u, err := url.Parse(s.URL); err == nil && u.RawQuery != "" {
		secrets = append(secrets, u.RawQuery)
	}
	if s.Token != "" {
		secrets = append(secrets, s.Token)
	}
	return text.NewRedactor(secrets)
}
