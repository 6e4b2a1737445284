package sandbox

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// user is what commands are called at level full.
const user = "agent"

// environment is all that a command has: it is built here, nothing of the worker's is passed on.
func (s *Sandbox) environment(added map[string]string) []string {
	home := filepath.Join(s.tempIn, "home")
	env := map[string]string{
		"PATH":   strings.Join(searchPath(s.options.Toolchains), string(os.PathListSeparator)),
		"HOME":   home,
		"TMPDIR": s.tempIn,
		"USER":   user, "LOGNAME": user,
		"LANG": "C.UTF-8",
		// An unreadable file of the host would be an error to git.
		"GIT_CONFIG_NOSYSTEM": "1",
		"TERM":                "dumb",
		"PWD":                 s.inside,
	}
	if runtime.GOOS == "windows" {
		for _, name := range []string{"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT"} {
			env[name] = os.Getenv(name)
		}
		env["TEMP"], env["TMP"], env["USERPROFILE"] = s.tempIn, s.tempIn, home
	}
	for name, value := range added {
		env[name] = value
	}
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
