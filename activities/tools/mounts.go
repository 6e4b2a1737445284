package tools

import (
	"os"
	"path"
	"slices"
	"strings"
)

// Names of the read-only directories in a workspace: peers, and in sessions with a base or a
// context also base or context. If the base itself contains an entry with such a name, the
// directory is in .conclave/ instead.
const (
	peers       = "peers"   // directory of the answers shown
	baseName    = "base"    // the files that the workspace started with
	contextName = "context" // directory of further material
	ownDir      = ".conclave"
)

// mountsIn returns the read-only directories of a workspace. All except peers exist, without write
// permissions, when the tools are opened.
func mountsIn(root *os.Root) []string {
	mounts := []string{peers}
	for _, dir := range []string{baseName, contextName, path.Join(ownDir, baseName), path.Join(ownDir, contextName)} {
		info, err := root.Lstat(dir)
		if err == nil && info.IsDir() && info.Mode().Perm()&0o222 == 0 {
			mounts = append(mounts, dir)
		}
	}
	return mounts
}

// readOnly returns an error for a path inside a read-only directory.
func (f *fileTools) readOnly(clean string) error {
	for _, mount := range f.mounts {
		if !strings.EqualFold(clean, mount) && !strings.HasPrefix(strings.ToLower(clean), mount+"/") {
			continue
		}
		switch path.Base(mount) {
		case baseName:
			return refuse("%s is read-only: %s/ holds the files that the workspace started with; change those of the workspace", quote(clean), mount)
		case contextName:
			return refuse("%s is read-only: %s/ holds further material; copy_path what you need and change the copy", quote(clean), mount)
		default:
			return refuse("%s is read-only: peers/ holds the files of the answers shown; copy_path what you need and change the copy", quote(clean))
		}
	}
	return nil
}

// repeats reports whether a directory is the base, which repeats the files of the workspace.
func (f *fileTools) repeats(dir string) bool {
	return path.Base(dir) == baseName && slices.Contains(f.mounts, dir)
}

// describeMounts returns a statement that the directories are read-only; where, which may be empty,
// says where they are.
func describeMounts(mounts []string, where string) string {
	last := len(mounts) - 1
	if last == 0 {
		return mounts[0] + "/ " + where + "is read-only"
	}
	return strings.Join(mounts[:last], "/, ") + "/ and " + mounts[last] + "/ " + where + "are read-only"
}
