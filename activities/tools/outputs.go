package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// outputDir is where the whole of long outputs is, in the workspace. It is not
// part of an answer: the workspace's default ignore list has it.
const outputDir = "command-output"

// keptOutputs is how many long outputs there are at a time: the oldest makes
// room, so that output does not fill the disk that the work needs.
const keptOutputs = 20

// outputs are the files with the whole of long outputs.
type outputs struct {
	files *Files
	spool string // where outputs are while commands run
	last  int    // the number of the newest one
}

// keep copies an output into the workspace and returns its path there. It is
// written like any file of the agent's: through no link, and not to a directory
// that is none.
func (o *outputs) keep(from *os.File) (string, error) {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	name := ""
	for {
		o.last++
		name = o.name(o.last)
		if _, err := o.files.root.Lstat(name); errors.Is(err, fs.ErrNotExist) || o.last >= maxFiles {
			break
		}
	}
	target, err := o.files.writable(name)
	if err != nil {
		return "", err
	}
	if err := o.files.put(target, io.LimitReader(from, maxKept), 0o644); err != nil {
		return "", err
	}
	if old := o.last - keptOutputs; old > 0 {
		_ = o.files.root.Remove(o.name(old)) // the agent may have done so
	}
	return name, nil
}

func (o *outputs) name(number int) string {
	return path.Join(outputDir, fmt.Sprintf("%03d.txt", number))
}
