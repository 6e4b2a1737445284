package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// Found is a file of a directory, without its hash.
type Found struct {
	File
	Info fs.FileInfo // nil for directories
}

// Git has the settings of git for a directory in a repository.
type Git struct {
	// Excludes are files of ignore patterns that apply before those of the directory.
	Excludes []string

	// Tracked are files that git tracks although a pattern matches them.
	Tracked []string
}

// Find lists the files of a directory that a session may start from: those that git tracks or
// would add, without .git and the files that .conclaveignore excludes. Special files, links
// that lead out and unreadable directories are left out with a warning. A directory above the
// limits of a base fails with a *LimitError.
func Find(ctx context.Context, dir string, git Git) ([]Found, []Warning, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", dir, err)
	}
	defer root.Close()
	w := &walk{
		root: root, foreign: true, nested: []string{gitignoreFile, ignoreFile}, infos: map[string]fs.FileInfo{}, tracked: withParents(git.Tracked),
		limits: &limits{files: maxBaseEntries, fileBytes: MaxBaseFileBytes, bytes: MaxBaseBytes},
	}
	if err := w.ignoreAsRepository(dir, git.Excludes); err != nil {
		return nil, nil, err
	}
	err = w.run(ctx)
	if err == nil && len(w.files) > maxBaseFiles {
		err = &LimitError{What: "files", Path: w.files[maxBaseFiles].Path, Max: maxBaseFiles}
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

// withParents returns the set of the paths and of all directories above them.
func withParents(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		for ; name != "." && !set[name]; name = path.Dir(name) {
			set[name] = true
		}
	}
	return set
}

// maxBaseEntries limits the files, links and directories that Find visits.
const maxBaseEntries = 2 * maxBaseFiles

// Open opens the regular file of a directory that Find has listed.
func Open(root *os.Root, f File) (*os.File, error) { return openRegular(root, f.Path) }

// Identity identifies the content of a file without reading it: every change of the content
// changes one of its fields.
type Identity struct {
	Size     int64  `json:"size"`
	Modified int64  `json:"mtime"` // time in nanoseconds
	Changed  int64  `json:"ctime"` // time in nanoseconds
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
