package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

func (f *Files) write(a arguments) (string, error) {
	if len(a.Content) > maxFile {
		return "", refuse("the content has %s; a file may have %s, so split it", size(int64(len(a.Content))), size(maxFile))
	}
	if strings.HasSuffix(a.Path, "/") {
		return "", refuse("%s names a directory; name a file", quote(a.Path))
	}
	name, err := f.writable(a.Path)
	if err != nil {
		return "", err
	}
	mode, existed, err := f.replaceable(name)
	if err != nil {
		return "", err
	}
	if err := f.put(name, strings.NewReader(a.Content), mode); err != nil {
		return "", err
	}
	verb := "created"
	if existed {
		verb = "replaced"
	}
	return fmt.Sprintf("%s %s (%s)", verb, quote(name), size(int64(len(a.Content)))), nil
}

// replaceable checks what is at a writable path now, and returns the
// permissions that a file written there gets.
func (f *Files) replaceable(name string) (mode fs.FileMode, exists bool, err error) {
	info, err := f.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0o644, false, nil
	case err != nil:
		return 0, false, explain(name, err)
	}
	return info.Mode().Perm(), true, regular(name, info)
}

// put writes a file as a new one and renames it into place: a reader sees the
// old or the new content, and a hard link elsewhere keeps the old one.
func (f *Files) put(name string, content io.Reader, mode fs.FileMode) error {
	if dir := path.Dir(name); dir != "." {
		if err := f.root.MkdirAll(dir, 0o755); err != nil {
			return explain(name, err)
		}
	}
	temporary, file, err := f.temporary(path.Dir(name), mode)
	if err != nil {
		return explain(name, err)
	}
	_, err = io.Copy(file, content)
	if err = errors.Join(err, file.Close()); err == nil {
		// The umask may have taken bits that the file had.
		if err = f.root.Chmod(temporary, mode); err == nil {
			err = f.root.Rename(temporary, name)
		}
	}
	if err != nil {
		return errors.Join(explain(name, err), f.root.Remove(temporary))
	}
	return nil
}

// temporary creates a file under a name that nothing has.
func (f *Files) temporary(dir string, mode fs.FileMode) (string, *os.File, error) {
	for i := 0; ; i++ {
		name := path.Join(dir, fmt.Sprintf(".writing-%d~", i))
		file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
		if errors.Is(err, fs.ErrExist) && i < maxEntries {
			continue
		}
		return name, file, err
	}
}
