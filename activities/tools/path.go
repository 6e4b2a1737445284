package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// peers is the read-only directory of the files of shown answers.
const peers = "peers"

// inside cleans a model's path. What is lexically outside is refused here with
// a clear sentence; what is so by links, by os.Root.
func inside(name string) (string, error) {
	switch {
	case strings.TrimSpace(name) == "":
		return "", refuse("the path is empty; give one relative to the workspace, or . for the workspace itself")
	case strings.ContainsRune(name, 0):
		return "", refuse("the path %q contains a NUL byte", name)
	case path.IsAbs(name):
		return "", refuse("the path %s is absolute; give one relative to the workspace", quote(name))
	}
	clean := path.Clean(name)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", refuse("the path %s leads out of the workspace; only files inside can be used", quote(name))
	}
	return clean, nil
}

// writable cleans a path that is to be written. No part of it may be a link: a
// link could lead into peers/, or to a file that the model did not name.
func (f *Files) writable(name string) (string, error) {
	clean, err := inside(name)
	if err != nil {
		return "", err
	}
	if clean == "." {
		return "", refuse("%s is the workspace itself; name a file in it", quote(name))
	}
	parts := strings.Split(clean, "/")
	if strings.EqualFold(parts[0], peers) {
		return "", refuse("%s is read-only: peers/ holds the files of the answers shown; copy_path what you need and change the copy", quote(clean))
	}
	for i := range parts {
		prefix := path.Join(parts[:i+1]...)
		info, err := f.root.Lstat(prefix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return clean, nil
		case err != nil:
			return "", explain(prefix, err)
		case info.Mode()&fs.ModeSymlink != 0:
			return "", refuse("%s is a symbolic link; write to the file itself", quote(prefix))
		case i < len(parts)-1 && !info.IsDir():
			return "", refuse("%s is a file, so nothing can be written below it", quote(prefix))
		}
	}
	return clean, nil
}

// open opens a regular file to read. It never waits: whatever else has a name,
// such as a FIFO or a device, is refused before and after opening.
func (f *Files) open(name string) (*os.File, fs.FileInfo, error) {
	info, err := f.root.Stat(name)
	if err == nil {
		err = regular(name, info)
	}
	if err != nil {
		return nil, nil, explain(name, err)
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, explain(name, err)
	}
	info, err = file.Stat()
	if err == nil {
		err = errors.Join(regular(name, info), alone(name, info))
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, explain(name, err)
	}
	return file, info, nil
}

// load reads a text file of at most maxFile bytes.
func (f *Files) load(name string) (string, fs.FileInfo, error) {
	file, info, err := f.open(name)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return "", nil, explain(name, err)
	case len(content) > maxFile:
		return "", nil, refuse("%s has %s; files of more than %s cannot be edited", quote(name), size(info.Size()), size(maxFile))
	case isBinary(content):
		return "", nil, refuse("%s is a binary file of %s; it cannot be edited as text", quote(name), size(info.Size()))
	}
	return string(content), info, nil
}

func regular(name string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return refuse("%s is a directory; list_files shows what is in it", quote(name))
	case !info.Mode().IsRegular():
		return refuse("%s is not a regular file (%s)", quote(name), info.Mode().Type())
	}
	return nil
}

// alone refuses a file with several names: one of them could be outside of the
// workspace. What a step is given has one name each, and in the sandbox nothing
// outside can be linked; programs beside it, such as MCP servers, could do that.
func alone(name string, info fs.FileInfo) error {
	if names(info) > 1 {
		return refuse("%s has several names (hard links), of which some may be outside the workspace; copy it to a new file with cp, which has one", quote(name))
	}
	return nil
}

// explain turns an operating system's error that the model can do something about
// into a refusal. Others stay what they are.
func explain(name string, err error) error {
	var refused refusal
	if errors.As(err, &refused) {
		return err
	}
	var where *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(name, outputDir+"/"):
		return refuse("there is no %s; only the newest outputs are kept, and none when the work goes on elsewhere: run the command again", quote(name))
	case errors.Is(err, fs.ErrNotExist):
		return refuse("there is no %s; list_files shows what is there", quote(name))
	case errors.Is(err, fs.ErrPermission):
		return refuse("%s may not be used: permission denied", quote(name))
	case errors.Is(err, syscall.ENOTDIR):
		return refuse("%s goes through a file as if it were a directory", quote(name))
	case errors.Is(err, syscall.EISDIR):
		return refuse("%s is a directory", quote(name))
	case errors.Is(err, syscall.ENAMETOOLONG):
		return refuse("the path %s is too long", quote(name))
	case errors.Is(err, syscall.ELOOP):
		return refuse("%s is a symbolic link that leads in circles", quote(name))
	case errors.Is(err, syscall.ENXIO):
		return refuse("%s is not a regular file", quote(name))
	case errors.As(err, &where) && strings.Contains(where.Err.Error(), "escapes from parent"):
		return refuse("%s leads out of the workspace by a symbolic link; only files inside can be used", quote(name))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// quote shows a path in a sentence: plain if it can be misread for nothing else.
func quote(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "…"
	}
	if strings.ContainsAny(name, " ,;:") {
		return strconv.Quote(name)
	}
	return printable(name)
}

// printable shows a path on a line of its own: names may contain line ends.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// isBinary reports whether content is not text: whether its beginning has a NUL.
func isBinary(content []byte) bool {
	return strings.ContainsRune(string(content[:min(len(content), 8<<10)]), 0)
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
}
