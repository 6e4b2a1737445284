package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// lookPath finds a program in directories, or in dir if its name has a slash; the worker's own PATH
// has no part in it.
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
