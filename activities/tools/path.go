package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"reflect"
	"strconv"
	"strings"
	"syscall"

	"conclave/engine/text"
)

// cleanPath cleans a path from a model. Paths that lead outside through links are refused by
// os.Root.
func cleanPath(name string) (string, error) {
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

// writable cleans a path for writing. No part of the path may be a link, because a link could lead
// into a read-only directory.
func (f *fileTools) writable(name string) (string, error) {
	clean, err := cleanPath(name)
	if err != nil {
		return "", err
	}
	if clean == "." {
		return "", refuse("%s is the workspace itself; name a file in it", quote(name))
	}
	if err := f.readOnly(clean); err != nil {
		return "", err
	}
	parts := strings.Split(clean, "/")
	for i := range parts {
		prefix := path.Join(parts[:i+1]...)
		info, err := f.root.Lstat(prefix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return clean, nil
		case err != nil:
			return "", explain(prefix, err)
		case info.IsDir() && info.Mode()&0o200 == 0:
			return "", refuse("%s is read-only: %s/ only shows files; copy_path what you need and change the copy", quote(clean), prefix)
		case info.Mode()&fs.ModeSymlink != 0:
			return "", refuse("%s is a symbolic link; write to the file itself", quote(prefix))
		case i < len(parts)-1 && !info.IsDir():
			return "", refuse("%s is a file, so nothing can be written below it", quote(prefix))
		}
	}
	return clean, nil
}

// open opens a regular file for reading. It does not block on FIFOs and devices.
func (f *fileTools) open(name string) (*os.File, fs.FileInfo, error) {
	info, err := f.root.Stat(name)
	if err == nil {
		err = regular(name, info)
	}
	if err != nil {
		return nil, nil, explain(name, err)
	}
	return openRegular(f.root, name, name)
}

// openRegular opens the file at in root, and returns an error if it is not a regular file with a
// single link. Errors call the file name.
func openRegular(root *os.Root, at, name string) (*os.File, fs.FileInfo, error) {
	file, err := root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, explain(name, err)
	}
	info, err := file.Stat()
	if err == nil {
		err = errors.Join(regular(name, info), singleLink(name, info))
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, explain(name, err)
	}
	return file, info, nil
}

// load reads a text file of at most maxFile bytes for editing.
func (f *fileTools) load(name string) (string, fs.FileInfo, error) {
	content, info, err := f.readAll(name, maxFile, "edited")
	if err == nil && isBinary(content) {
		err = refuse("%s is a binary file of %s; it cannot be edited as text", quote(name), text.Size(info.Size()))
	}
	return string(content), info, err
}

func (f *fileTools) readAll(name string, limit int64, use string) ([]byte, fs.FileInfo, error) {
	file, info, err := f.open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, nil, explain(name, err)
	case int64(len(content)) > limit:
		return nil, nil, refuse("%s has more than %s and cannot be %s", quote(name), text.Size(limit), use)
	}
	return content, info, nil
}

// ReadFile reads a regular file of a workspace, of at most limit bytes, subject to the rules of the
// file tools. If they refuse the file, objection is a sentence for the model; an error is a fault
// of the host.
func ReadFile(workspace, name string, limit int64) (content []byte, objection string, err error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, "", fmt.Errorf("open the workspace: %w", err)
	}
	defer func() { _ = root.Close() }()
	clean, err := cleanPath(name)
	if err == nil {
		content, _, err = (&fileTools{root: root}).readAll(clean, limit, "read")
	}
	if refused, ok := errors.AsType[refusal](err); ok {
		return nil, string(refused), nil
	}
	return content, "", err
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

// singleLink refuses files with several hard links. Programs such as MCP servers might have created
// links to files outside the workspace.
func singleLink(name string, info fs.FileInfo) error {
	if linkCount(info) > 1 {
		return refuse("%s has several names (hard links), of which some may be outside the workspace; copy it to a new file with cp, which has one", quote(name))
	}
	return nil
}

// linkCount returns the number of hard links to a file, or 1 if the system does not count them.
func linkCount(info fs.FileInfo) uint64 {
	stat := reflect.Indirect(reflect.ValueOf(info.Sys()))
	if stat.Kind() == reflect.Struct {
		if links := stat.FieldByName("Nlink"); links.IsValid() && links.CanUint() {
			return links.Uint()
		}
	}
	return 1
}

// explain converts an error on which the model can act into a refusal, and adds the path to any
// other error.
func explain(name string, err error) error {
	if _, refused := errors.AsType[refusal](err); refused {
		return err
	}
	pathError, _ := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(name, outputDir+"/"):
		return refuse("there is no %s; only the newest outputs are kept, and only as long as the step stays on its worker: run the command again", quote(name))
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
	case pathError != nil && strings.Contains(pathError.Err.Error(), "escapes from parent"):
		return refuse("%s leads out of the workspace by a symbolic link; only files inside can be used", quote(name))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// quote formats a path for a sentence. It adds quotation marks only if the path could be misread.
func quote(name string) string {
	name = text.Truncate(name, 200)
	if strings.ContainsAny(name, " ,;:") {
		return strconv.Quote(name)
	}
	return printable(name)
}

// printable formats a path for one line of a list, because names may contain line breaks.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// isBinary reports whether the beginning of content contains a NUL byte.
func isBinary(content []byte) bool {
	return strings.ContainsRune(string(content[:min(len(content), 8<<10)]), 0)
}
