package directory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// The most that is read.
const (
	maxDocument = 4 << 20 // bytes of one file; an answer has at most team.MaxAnswer
	maxEntries  = 100_000 // names in one directory
)

// fileError says why a name is not the file that it should be.
type fileError struct{ problem string }

func (e *fileError) Error() string { return e.problem }

// readFile reads a regular file. It is nil without an error if there is none,
// and the error is a *fileError if there is something else.
func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := open(root, name, fs.FileMode.IsRegular, "a file")
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return nil, &fileError{problem: "cannot be read: " + cause(err)}
	}
	if len(data) > maxDocument {
		return nil, &fileError{problem: fmt.Sprintf("has more than %d bytes, the most that is read", maxDocument)}
	}
	return data, nil
}

// list returns the entries of a directory by name, nil if there is none. The
// error is a *fileError if there is something else.
func list(root *os.Root, name string) ([]fs.DirEntry, error) {
	f, err := open(root, name, fs.FileMode.IsDir, "a directory")
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxEntries + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, &fileError{problem: "cannot be read: " + cause(err)}
	case len(entries) > maxEntries:
		return nil, &fileError{problem: fmt.Sprintf("has more than %d entries, the most that are read", maxEntries)}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// open opens what lies under a name, if it is what is wanted: it neither follows
// a link nor waits for a writer, also if the name is exchanged meanwhile.
func open(root *os.Root, name string, wanted func(fs.FileMode) bool, what string) (*os.File, error) {
	before, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, &fileError{problem: "cannot be read: " + cause(err)}
	case !wanted(before.Mode()):
		return nil, &fileError{problem: "is " + kind(before.Mode()) + ", not " + what}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, &fileError{problem: "cannot be read: " + cause(err)}
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(before, now) {
		f.Close()
		return nil, &fileError{problem: "was exchanged while it was read"}
	}
	return f, nil
}

// kind names what something is, with its article.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// cause is an error without the path, which a warning names already.
func cause(err error) string {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}
