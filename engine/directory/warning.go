package directory

import (
	"fmt"
	"strings"
)

// Warning is something in a directory that is not what it should be, and what
// came of it.
type Warning struct {
	Path    string `json:"path"` // slash-separated, below the session directory; valid UTF-8
	Problem string `json:"problem"`
}

func (w Warning) String() string { return w.Path + ": " + w.Problem }

// warnings are collected in the order in which they were found.
type warnings []Warning

func (w *warnings) add(path, format string, args ...any) {
	*w = append(*w, Warning{Path: valid(path), Problem: valid(fmt.Sprintf(format, args...))})
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
