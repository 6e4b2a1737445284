package sandbox

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// user is the name of the user under which commands run at level full.
const user = "agent"

// ownLoopback lists the names of a command's own loopback, for which it must not use the proxy.
const ownLoopback = "localhost,127.0.0.1,::1"

// environment returns the environment of a command. It includes none of the worker's variables.
func (s *Sandbox) environment(added map[string]string) []string {
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

// toolchains validates the operator's toolchains and returns their real paths without duplicates.
func toolchains(o Options) ([]string, error) {
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
		path, err := directory(name)
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

// refuseToolchain returns the reason why a directory may not be a toolchain, or "".
func refuseToolchain(path string, private []string, home string) string {
	for _, dir := range slices.Concat(shared, sealed) {
		if within(dir, path) {
			return "is or holds " + dir
		}
	}
	for _, dir := range sealed {
		if within(path, dir) {
			return "lies in " + dir
		}
	}
	if parent := filepath.Dir(path); parent == "/home" || parent == "/Users" {
		return "is a home directory"
	}
	for _, dir := range private {
		if within(dir, path) || within(path, dir) {
			return "is, holds or lies in " + dir
		}
	}
	if home != "" && within(home, path) {
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
