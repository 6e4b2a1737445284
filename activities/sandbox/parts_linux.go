package sandbox

import (
	"io/fs"
	"os"
	"path"
)

// protect takes the permission to write from the read-only parts where no mount can do so, and gives
// what gives it back. The child does it rather than the worker, so that it is given back also when
// the worker is killed. A command that gives itself the permission can still write to them.
func (s spec) protect() (restore func()) {
	if s.Level != Landlock || len(s.ReadOnly) == 0 {
		return func() {}
	}
	root, err := os.OpenRoot(s.Workspace)
	if err != nil {
		return func() {} // to find the program will fail too, and say why
	}
	taken := map[string]fs.FileMode{}
	take := func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o222 != 0 && root.Chmod(name, info.Mode().Perm()&^0o222) == nil {
			taken[name] = info.Mode().Perm()
		}
		return nil
	}
	for _, part := range s.ReadOnly {
		_ = fs.WalkDir(root.FS(), path.Clean(part), take) // take passes over what it cannot change
	}
	return func() {
		for name, mode := range taken {
			// The caller's thread may be confined by now, and the file may be gone.
			_ = elsewhere(func() error { return root.Chmod(name, mode) })
		}
	}
}
