package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unicode/utf8"

	"conclave/engine/excerpt"
)

const (
	maxText = 48 << 10 // bytes of a result that are shown
	maxHead = 32 << 10 // of them, at most, from the beginning when not all is shown
	maxKept = 8 << 20  // bytes of a result that are kept

	// keptIn is the workspace's directory for results that are not shown whole.
	keptIn = "tool-results"

	maxNumber = 10_000 // files of one tool
)

// bounded is a text as a model is shown it. One that is too long is kept in a
// file of the workspace.
func bounded(workspace, tool, text string) string {
	if len(text) <= maxText {
		return text
	}
	kept, cut := excerpt.Of(text, maxKept)
	where := "the whole of it"
	if cut {
		where = fmt.Sprintf("its first %s", bytesOf(len(kept)))
	}
	name, err := keep(workspace, tool, kept)
	if err == nil {
		where += " is in " + name
	} else {
		where += fmt.Sprintf(" could not be kept in the workspace (%v)", err)
	}
	head, _ := excerpt.Of(text, maxHead)
	notice := fmt.Sprintf("\n\n[… %s of %s not shown; %s …]\n\n", "the middle", bytesOf(len(text)), where)
	tail := text[len(text)-(maxText-maxHead-len(notice)):]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head + notice + tail
}

// keep writes a text to a new file, and returns its path in the workspace. What
// agents made there leads nowhere else.
func keep(workspace, tool, text string) (string, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.MkdirAll(keptIn, 0o755); err != nil {
		return "", err
	}
	for n := 1; n <= maxNumber; n++ {
		name := fmt.Sprintf("%s/%s-%d.txt", keptIn, tool, n)
		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = file.WriteString(text)
		if err = errors.Join(err, file.Close()); err != nil {
			return "", errors.Join(err, root.Remove(name))
		}
		return name, nil
	}
	return "", fmt.Errorf("%s has too many files of this tool", keptIn)
}
