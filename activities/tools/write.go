package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"conclave/engine/text"
)

func (f *fileTools) writeFile(a arguments) (string, error) {
	if len(a.Content) > maxFile {
		return "", refuse("the content has %s; a file may have %s, so split it", text.Size(int64(len(a.Content))), text.Size(maxFile))
	}
	if strings.HasSuffix(a.Path, "/") {
		return "", refuse("%s names a directory; name a file", quote(a.Path))
	}
	name, err := f.writablePath(a.Path)
	if err != nil {
		return "", err
	}
	mode, existed, err := f.replaceableMode(name)
	if err != nil {
		return "", err
	}
	if err := f.putFile(name, strings.NewReader(a.Content), mode); err != nil {
		return "", err
	}
	verb := "created"
	if existed {
		verb = "replaced"
	}
	return fmt.Sprintf("%s %s (%s)", verb, quote(name), text.Size(int64(len(a.Content)))), nil
}

// replaceableMode returns the permissions for a file at a writable path. It returns an error if
// something other than a regular file exists there.
func (f *fileTools) replaceableMode(name string) (mode fs.FileMode, exists bool, err error) {
	info, err := f.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0o644, false, nil
	case err != nil:
		return 0, false, explain(name, err)
	}
	return info.Mode().Perm(), true, checkRegular(name, info)
}

// putFile writes a file. It replaces an existing file by a new one, so that other hard links keep the
// old content.
func (f *fileTools) putFile(name string, content io.Reader, mode fs.FileMode) error {
	f.written = append(f.written, name)
	if dir := path.Dir(name); dir != "." {
		if err := f.root.MkdirAll(dir, 0o755); err != nil {
			return explain(name, err)
		}
	}
	file, err := createFile(f.root, name, mode)
	if errors.Is(err, fs.ErrExist) {
		if err := replaceFile(f.root, name, content, mode); err != nil {
			return explain(name, err)
		}
		return nil
	}
	if err != nil {
		return explain(name, err)
	}
	if err := fillFile(file, content, mode); err != nil {
		return explain(name, errors.Join(err, f.root.Remove(name)))
	}
	return nil
}

func replaceFile(root *os.Root, name string, content io.Reader, mode fs.FileMode) error {
	for i := 0; ; i++ {
		temporary := path.Join(path.Dir(name), fmt.Sprintf(".writing-%d~", i))
		file, err := createFile(root, temporary, mode)
		if errors.Is(err, fs.ErrExist) && i < maxEntries {
			continue
		}
		if err != nil {
			return err
		}
		if err = fillFile(file, content, mode); err == nil {
			err = root.Rename(temporary, name)
		}
		if err != nil {
			return errors.Join(err, root.Remove(temporary))
		}
		return nil
	}
}

func createFile(root *os.Root, name string, mode fs.FileMode) (*os.File, error) {
	return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
}

func fillFile(file *os.File, content io.Reader, mode fs.FileMode) error {
	_, err := io.Copy(file, content)
	// The umask may have removed some permissions.
	return errors.Join(err, file.Chmod(mode), file.Close())
}

func (f *fileTools) editFile(a arguments) (string, error) {
	name, err := f.writablePath(a.Path)
	if err != nil {
		return "", err
	}
	content, info, err := f.loadText(name)
	if err != nil {
		return "", err
	}
	switch n := strings.Count(content, a.OldString); {
	case a.OldString == "":
		return "", refuse("old_string is empty; to write a whole file use write_file")
	case a.OldString == a.NewString:
		return "", refuse("old_string and new_string are the same; there is nothing to change")
	case n == 0:
		return "", refuse("old_string is not in %s%s", quote(name), nearMiss(content, a.OldString))
	case n > 1 && !a.ReplaceAll:
		return "", refuse("old_string is in %s %d times (%s); add surrounding text until it is unique, or set replace_all",
			quote(name), n, lineNumbers(content, a.OldString))
	case len(content)+n*(len(a.NewString)-len(a.OldString)) > maxFile:
		return "", refuse("%s would grow over %s", quote(name), text.Size(maxFile))
	}
	where := lineNumbers(content, a.OldString)
	changed := strings.ReplaceAll(content, a.OldString, a.NewString)
	if err := f.putFile(name, strings.NewReader(changed), info.Mode().Perm()); err != nil {
		return "", err
	}
	return fmt.Sprintf("edited %s (%s)", quote(name), where), nil
}

func lineNumbers(content, text string) string {
	const limit = 10
	var numbers []string
	line := 1
	for {
		before, after, found := strings.Cut(content, text)
		if !found {
			break
		}
		line += strings.Count(before, "\n")
		if len(numbers) == limit {
			numbers = append(numbers, "…")
			break
		}
		numbers = append(numbers, fmt.Sprint(line))
		line += strings.Count(text, "\n")
		content = after
	}
	if len(numbers) == 1 {
		return "line " + numbers[0]
	}
	return "lines " + strings.Join(numbers, ", ")
}

// nearMiss explains why a text was not found. Usually it differs only in white space.
func nearMiss(content, text string) string {
	wanted := trimmedLines(strings.TrimSpace(text))
	lines := trimmedLines(content)
	if wanted[0] != "" {
		for i := range lines {
			if i+len(wanted) <= len(lines) && slices.Equal(lines[i:i+len(wanted)], wanted) {
				return fmt.Sprintf("; line %d differs from it only in spaces or line ends: read_file it and copy them exactly", i+1)
			}
		}
		for i, line := range lines {
			if strings.Contains(line, wanted[0]) {
				return fmt.Sprintf("; its first line is like line %d: read_file it and compare", i+1)
			}
		}
	}
	return "; read_file it to see what is there now"
}

func trimmedLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return lines
}
