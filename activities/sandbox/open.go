package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// Sandbox runs commands in one workspace. It is safe for concurrent use.
type Sandbox struct {
	options Options
	temp    string // the temporary directory on the host
	inside  string // the workspace's path as commands see it
	tempIn  string // the temporary directory's path as commands see it
	host    hosting
	used    atomic.Pointer[usage] // when it was last measured

	mu     sync.Mutex
	closed bool
	next   int
	kills  map[int]func() // of the runs under way
	runs   sync.WaitGroup

	closing  sync.Once
	closeErr error
}

var errClosed = errors.New("the sandbox is closed")

func open(o Options) (*Sandbox, error) {
	if o.Host.Level == "" {
		o.Host = probe(context.Background())
	}
	if err := o.Level.require(o.Host); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("open a sandbox for %s: %w", o.Workspace, err)
	}
	temp, err := makeTemp(o.Temp)
	if err != nil {
		return nil, fmt.Errorf("open a sandbox for %s: %w", o.Workspace, err)
	}
	s := &Sandbox{options: o, temp: temp, inside: o.Workspace, tempIn: temp, kills: map[int]func(){}}
	if o.Level == Full {
		s.inside, s.tempIn = WorkspacePath, "/tmp"
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("open a sandbox for %s: %w", o.Workspace, err), os.RemoveAll(temp))
	}
	found, err := s.measure(0, false)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a sandbox for %s: %w", o.Workspace, err), s.close())
	}
	s.used.Store(&found)
	return s, nil
}

// makeTemp makes the directory that holds the commands' temporary files and home directory. Its
// path has no symbolic link, because paths with one are not what Landlock and mounts are told.
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

// check refuses options that would confine something else than is meant.
func (o *Options) check() error {
	workspace, err := directory(o.Workspace)
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
	for _, part := range o.ReadOnly {
		if !filepath.IsLocal(part) || filepath.Clean(part) == "." {
			return fmt.Errorf("read-only part %q is not a path inside the workspace", part)
		}
	}
	o.Toolchains, err = toolchains(*o)
	return err
}

// directory gives the path of an existing directory without symbolic links.
func directory(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not an absolute path", path)
	}
	real, err := filepath.EvalSymlinks(path)
	var part *fs.PathError
	if errors.As(err, &part) { // it names the first part that is not there
		return "", &fs.PathError{Op: "find", Path: path, Err: part.Err}
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

// within says whether a path is a directory or lies in it; both are clean and absolute.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// begin counts a run in, with what kills it, and gives what counts it out.
func (s *Sandbox) begin(kill func()) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	id := s.next
	s.next++
	s.kills[id] = kill
	s.runs.Add(1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.kills, id)
		s.runs.Done()
	}, nil
}

// close may be called more than once; every call returns when all is done.
func (s *Sandbox) close() error {
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		for _, kill := range s.kills {
			go kill() // it may have to wait for a writer that waits for us
		}
		s.mu.Unlock()
		s.runs.Wait()
		err := s.release()
		// What the owner has shut cannot be removed until it is open.
		if _, walkErr := measure(s.temp, nil, true); walkErr != nil && !errors.Is(walkErr, errTooMany) {
			err = errors.Join(err, walkErr)
		}
		if err = errors.Join(err, os.RemoveAll(s.temp)); err != nil {
			s.closeErr = fmt.Errorf("close the sandbox of %s: %w", s.options.Workspace, err)
		}
	})
	return s.closeErr
}
