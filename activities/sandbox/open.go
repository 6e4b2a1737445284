package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
		o.Host = probeHost(context.Background())
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
	if o.Level == Full {
		s.inside, s.tempIn = workspacePath, "/tmp"
	}
	s.prepareHost()
	used, err := s.measureUsage(0, false)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.used.Store(&used)
	if o.Beyond {
		s.options.Limits.raiseBy(used)
	}
	return s, nil
}

func (l *Limits) raiseBy(u usage) {
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
	workspace, err := o.realWorkspace()
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	o.Workspace = workspace
	if o.Temp == "" {
		o.Temp = os.TempDir()
	}
	if o.Temp, err = realDirectory(o.Temp); err != nil {
		return fmt.Errorf("directory for temporary files: %w", err)
	}
	if isWithin(o.Temp, workspace) {
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
	o.Toolchains, err = checkToolchains(*o)
	return err
}

// realWorkspace returns the real path of the workspace, or the given one if it is a mount of its own.
func (o *Options) realWorkspace() (string, error) {
	switch {
	case o.Tree == nil:
		return realDirectory(o.Workspace)
	case o.Level != Full:
		return "", fmt.Errorf("it is a mount of its own, which needs level %q", Full)
	}
	return o.Workspace, nil
}

func realDirectory(path string) (string, error) {
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

// isWithin reports whether path is dir or lies in it. Both must be clean and absolute.
func isWithin(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// beginRun registers a run, which ends with runs.Done. It fails if the sandbox is closed.
func (s *Sandbox) beginRun() error {
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
		err := s.releaseHost()
		// Directories without permissions cannot be removed; directoryUsage restores their permissions.
		if _, walkErr := directoryUsage(s.temp, nil, true); walkErr != nil && !errors.Is(walkErr, exceeded(endedFiles)) {
			err = errors.Join(err, walkErr)
		}
		if err = errors.Join(err, os.RemoveAll(s.temp)); err != nil {
			s.closeErr = fmt.Errorf("close the sandbox of %s: %w", s.options.Workspace, err)
		}
	})
	return s.closeErr
}

// mountPoint returns the path of the cache in the root of level full.
func (c Cache) mountPoint() string { return cachesMount + "/" + c.Name }

const cachesMount = "cache"

// user is the name of the user under which commands run at level full.
const user = "agent"

// ownLoopback lists the names of a command's own loopback, for which it must not use the proxy.
const ownLoopback = "localhost,127.0.0.1,::1"

// commandEnvironment returns the environment of a command. It includes none of the worker's variables.
func (s *Sandbox) commandEnvironment(added map[string]string, caches []Cache) []string {
	home := filepath.Join(s.tempIn, "home")
	env := map[string]string{
		"PATH":   strings.Join(searchPath(s.options.Toolchains), string(os.PathListSeparator)),
		"HOME":   home,
		"TMPDIR": s.tempIn,
		"USER":   user, "LOGNAME": user,
		"LANG":                "C.UTF-8",
		"GIT_CONFIG_NOSYSTEM": "1", // an unreadable file of the host would be an error to git
		"TERM":                "dumb",
		"PWD":                 s.inside,
	}
	if runtime.GOOS == "windows" {
		for _, name := range []string{"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT"} {
			env[name] = os.Getenv(name)
		}
		env["TEMP"], env["TMP"], env["USERPROFILE"] = s.tempIn, s.tempIn, home
	}
	if s.options.Network.Serve != nil {
		for _, name := range []string{"http_proxy", "https_proxy"} {
			env[name], env[strings.ToUpper(name)] = "http://"+proxyAddress, "http://"+proxyAddress
		}
		env["no_proxy"], env["NO_PROXY"] = ownLoopback, ownLoopback
	}
	for _, c := range caches {
		switch {
		case c.Variable == "":
		case s.options.Level == Full:
			env[c.Variable] = "/" + c.mountPoint()
		default:
			env[c.Variable] = c.Dir
		}
	}
	maps.Copy(env, added)
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// Directories that restrict toolchains. A toolchain must not be or contain a shared or sealed
// directory, nor lie in a sealed one.
var (
	shared = []string{"/", "/var", "/var/lib", "/tmp", "/home", "/root", "/Users"}
	sealed = []string{"/etc", "/proc", "/sys", "/dev", "/run", "/boot", "/var/run"}
)

// checkToolchains validates the operator's toolchains and returns their real paths without duplicates.
func checkToolchains(o Options) ([]string, error) {
	private := []string{o.Workspace, o.Temp}
	for _, dir := range o.Private {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		private = append(private, dir) // also a directory that does not exist yet
	}
	home := ""
	if dir, err := os.UserHomeDir(); err == nil {
		if dir, err = filepath.EvalSymlinks(dir); err == nil {
			home = dir
			for _, secret := range []string{".ssh", ".config", ".aws", ".gnupg", ".kube", ".docker"} {
				private = append(private, filepath.Join(home, secret))
			}
		}
	}
	var found []string
	for _, name := range o.Toolchains {
		path, err := realDirectory(name)
		if err != nil {
			return nil, fmt.Errorf("toolchain: %w", err)
		}
		if reason := refuseToolchain(path, private, home); reason != "" {
			return nil, fmt.Errorf("toolchain %s: it %s, so commands could read more than programs; name the directory of the toolchain itself", name, reason)
		}
		if !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	return found, nil
}

func refuseToolchain(path string, private []string, home string) string {
	for _, dir := range slices.Concat(shared, sealed) {
		if isWithin(dir, path) {
			return "is or holds " + dir
		}
	}
	for _, dir := range sealed {
		if isWithin(path, dir) {
			return "lies in " + dir
		}
	}
	if parent := filepath.Dir(path); parent == "/home" || parent == "/Users" {
		return "is a home directory"
	}
	for _, dir := range private {
		if isWithin(dir, path) || isWithin(path, dir) {
			return "is, holds or lies in " + dir
		}
	}
	if home != "" && isWithin(home, path) {
		return "is or holds " + home
	}
	return ""
}

// searchPath returns the PATH of commands: the toolchains, then the system's directories.
func searchPath(toolchains []string) []string {
	var path []string
	for _, dir := range toolchains {
		if info, err := os.Stat(filepath.Join(dir, "bin")); err == nil && info.IsDir() {
			dir = filepath.Join(dir, "bin")
		}
		path = append(path, dir)
	}
	switch runtime.GOOS {
	case "windows":
		root := os.Getenv("SystemRoot")
		return append(path, filepath.Join(root, "System32"), root)
	case "darwin":
		path = append(path, "/opt/homebrew/bin")
	}
	return append(path, "/usr/local/go/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
}

// FindProgram returns the path of a program that commands have.
func FindProgram(name string, toolchains []string) (string, error) {
	return lookPath(name, searchPath(toolchains), "/")
}

// lookPath finds a program in the directories of path or, if its name contains a slash, relative to
// dir.
func lookPath(name string, path []string, dir string) (string, error) {
	if strings.ContainsAny(name, `/`) || runtime.GOOS == "windows" && strings.ContainsAny(name, `\`) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	for _, d := range path {
		candidate := filepath.Join(d, name)
		if runtime.GOOS == "windows" {
			if found, err := exec.LookPath(candidate); err == nil {
				return found, nil
			}
			continue
		}
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", &fs.PathError{Op: "find the program", Path: name, Err: fmt.Errorf("%w in any of %s", fs.ErrNotExist, strings.Join(path, string(os.PathListSeparator)))}
}
