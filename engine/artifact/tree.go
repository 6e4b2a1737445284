package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Found is a file of a directory, without its hash.
type Found struct {
	File
	Info fs.FileInfo // nil for directories
}

// Find lists the files of a directory that a session may start from: those that git would
// add, without .git and the files that .gitignore or .conclaveignore exclude. In a git
// repository, the patterns of the files in excludes apply before those. Special files, links
// that lead out and unreadable directories are left out with a warning. A directory above the
// limits of a base fails with a *LimitError.
func Find(ctx context.Context, dir string, excludes ...string) ([]Found, []Warning, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", dir, err)
	}
	defer root.Close()
	w := &walk{
		root: root, foreign: true, nested: []string{gitignoreFile, ignoreFile}, infos: map[string]fs.FileInfo{},
		limits: &limits{files: maxBaseEntries, fileBytes: MaxBaseFileBytes, bytes: MaxBaseBytes},
	}
	if err := w.ignoreAsRepository(dir, excludes); err != nil {
		return nil, nil, err
	}
	err = w.run(ctx)
	if err == nil && len(w.files) > MaxBaseFiles {
		err = &LimitError{What: "files", Path: w.files[MaxBaseFiles].Path, Max: MaxBaseFiles}
	}
	if limit, ok := errors.AsType[*LimitError](err); ok {
		limit.Base = true
	}
	if err != nil {
		return nil, nil, err
	}
	found := make([]Found, 0, len(w.files))
	for _, f := range w.files {
		found = append(found, Found{File: f, Info: w.infos[f.Path]})
	}
	return found, w.warnings, nil
}

// maxBaseEntries limits the files, links and directories that Find visits.
const maxBaseEntries = 2 * MaxBaseFiles

// Open opens the regular file of a directory that Find has listed.
func Open(root *os.Root, f File) (*os.File, error) { return openRegular(root, f.Path) }

// Identity identifies the content of a file without reading it: every change of the content
// changes one of its fields.
type Identity struct {
	Size     int64  `json:"size"`
	Modified int64  `json:"mtime"` // in nanoseconds
	Changed  int64  `json:"ctime"` // in nanoseconds
	Inode    uint64 `json:"inode"`
}

// Identify returns the identity of a file.
func Identify(info fs.FileInfo) Identity {
	return Identity{Size: info.Size(), Modified: info.ModTime().UnixNano(), Changed: changeTime(info), Inode: inode(info)}
}

// Settled reports whether a change of the file after the given time, in nanoseconds, gives it
// another identity. File systems record the time of a change in ticks.
func (i Identity) Settled(at int64) bool {
	grain := int64(coarseGrain)
	if i.Changed%int64(fineClock) != 0 {
		grain = int64(fineGrain)
	}
	return at-i.Changed > grain
}
