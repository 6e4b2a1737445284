package directory

import (
	"io/fs"
	"os"

	"conclave/engine/artifact"
)

// maxLooked bounds the search for a file among empty directories.
const maxLooked = 1000

// hasFiles reports whether there is anything in the workspace of an answer. A
// workspace that is no directory is none.
func hasFiles(root *os.Root, dir string, w *warnings) bool {
	found, looked := false, 0
	var look func(dir string, depth int)
	look = func(dir string, depth int) {
		looked++
		entries, err := list(root, dir)
		if err != nil && depth == 0 {
			w.add(dir, "%v; the answer has no files", err)
		}
		for _, entry := range entries {
			switch {
			case found || looked == maxLooked || depth == artifact.MaxDepth:
				return
			case entry.IsDir():
				look(dir+"/"+entry.Name(), depth+1)
			case entry.Type().IsRegular(), entry.Type() == fs.ModeSymlink:
				found = true
			}
		}
	}
	look(dir, 0)
	return found
}
