package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Sandbox runs commands in one workspace. It is safe for concurrent use.
type Sandbox struct {
	options Options
	temp    string // the temporary directory on the host
	inside  string // the workspace's path in the sandbox
	tempIn  string // the temporary directory's path in the sandbox
	host    hostState
	used    atomic.Pointer[usage] // the last measurement

	life context.Context // ends with the error errClosed
	end  context.CancelCauseFunc
	mu   sync.Mutex // orders runs.Add and end
	runs sync.WaitGroup

	closing  sync.Once
	closeErr error
}

var errClosed = errors.New("the sandbox is closed")

// Open creates a sandbox for a workspace. The caller must close it.
func Open(o Options) (_ *Sandbox, err error) {
	if o.Host.Level == "" {
		o.Host = probe(context.Background())
	}
	if err := o.Level.require(o.Host); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open a sandbox for %s: %w", o.Workspace, err)
		}
	}()
	if err := o.check(); err != nil {
		return nil, err
	}
	temp, err := makeTemp(o.Temp)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{options: o, temp: temp, inside: o.Workspace, tempIn: temp}
	s.life, s.end = context.WithCancelCause(context.Background())
	if o.Level == Full || o.Level == Gvisor {
		s.inside, s.tempIn = workspacePath, "/tmp"
	}
	s.prepare()
	used, err := s.measure(0, false)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.used.Store(&used)
	if o.Beyond {
		s.options.Limits.allow(used)
	}
	return s, nil
}

// allow raises the limits of disk and files by a usage, if they are set.
func (l *Limits) allow(u usage) {
	if l.Disk > 0 {
		l.Disk += u.bytes
	}
	if l.Files > 0 {
		l.Files += u.files
	}
}

// Leftovers returns an identifier of the temporary directory if commands have left files in it, or
// "".
func (s *Sandbox) Leftovers() string {
	entries, err := os.ReadDir(s.temp)
	if err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "home" }) {
		return ""
	}
	return filepath.Base(s.temp)
}

// makeTemp creates the temporary directory and the home of commands. It returns the real path,
// which Landlock rules and mounts require.
func makeTemp(parent string) (string, error) {
	temp, err := os.MkdirTemp(parent, "sandbox-")
	if err != nil {
		return "", err
	}
	if temp, err = filepath.EvalSymlinks(temp); err != nil {
		return "", err
	}
	return temp, os.Mkdir(filepath.Join(temp, "home"), 0o700)
}

func (o *Options) check() error {
	workspace, err := o.workspace()
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	o.Workspace = workspace
	if o.Temp == "" {
		o.Temp = os.TempDir()
	}
	if o.Temp, err = directory(o.Temp); err != nil {
		return fmt.Errorf("directory for temporary files: %w", err)
	}
	if within(o.Temp, workspace) {
		return fmt.Errorf("the directory for temporary files, %s, lies in the workspace; name one outside", o.Temp)
	}
	if o.Network.Serve != nil && o.Level != Full {
		return fmt.Errorf("commands cannot have a network at level %q: only level full can limit it to a list", o.Level)
	}
	for _, part := range o.ReadOnly {
		if !filepath.IsLocal(part) || filepath.Clean(part) == "." {
			return fmt.Errorf("read-only part %q is not a path inside the workspace", part)
		}
	}
	o.Toolchains, err = toolchains(*o)
	return err
}

// workspace returns the real path of the workspace, or the given one if it is a mount of its own.
func (o *Options) workspace() (string, error) {
	switch {
	case o.Tree == nil:
		return directory(o.Workspace)
	case o.Level != Full:
		return "", fmt.Errorf("it is a mount of its own, which needs level %q", Full)
	}
	return o.Workspace, nil
}

// directory returns the real path of an existing directory.
func directory(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not an absolute path", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if missing, ok := errors.AsType[*fs.PathError](err); ok { // it names the first missing part of the path
		return "", &fs.PathError{Op: "find", Path: path, Err: missing.Err}
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	info, err := os.Stat(real)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", path)
	}
	return real, err
}

// within reports whether path is dir or lies in it. Both must be clean and absolute.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// begin registers a run, which ends with runs.Done. It fails if the sandbox is closed.
func (s *Sandbox) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return errClosed
	}
	s.runs.Add(1)
	return nil
}

// Close kills running commands and removes the temporary directory. Each call waits until that is
// done.
func (s *Sandbox) Close() error {
	s.closing.Do(func() {
		s.mu.Lock()
		s.end(errClosed)
		s.mu.Unlock()
		s.runs.Wait()
		err := s.release()
		// Directories without permissions cannot be removed; measure restores their permissions.
		if _, walkErr := measure(s.temp, nil, true); walkErr != nil && !errors.Is(walkErr, exceeded(endedFiles)) {
			err = errors.Join(err, walkErr)
		}
		if err = errors.Join(err, os.RemoveAll(s.temp)); err != nil {
			s.closeErr = fmt.Errorf("close the sandbox of %s: %w", s.options.Workspace, err)
		}
	})
	return s.closeErr
}
