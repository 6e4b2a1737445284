package massgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Note explains why keys are not carried over unchanged.
type Note struct {
	Keys []string `json:"keys"` // their paths in the document: agents[0].backend.cwd
	Line int      `json:"line"` // line of the first key; 0 for a missing key

	// Below lists the keys inside Keys, relative to them and without positions in lists.
	Below []string `json:"below,omitempty"`

	Message string `json:"message"`
}

// String returns the note as one line: its keys and the sentence.
func (n Note) String() string {
	keys := strings.Join(n.Keys, ", ")
	if len(n.Below) > 0 {
		keys += " (with " + strings.Join(n.Below, ", ") + ")"
	}
	return keys + ": " + n.Message
}

// notes collects notes. It merges notes of different agents that have the same message.
type notes []Note

func (ns *notes) add(path string, line int, below []string, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	for i, n := range *ns {
		if n.Message != message || lastKey(n.Keys[0]) != lastKey(path) {
			continue
		}
		for _, name := range below {
			if !slices.Contains(n.Below, name) {
				n.Below = append(n.Below, name)
			}
		}
		if !slices.Contains(n.Keys, path) {
			n.Keys = append(n.Keys, path)
		}
		(*ns)[i] = n
		return
	}
	*ns = append(*ns, Note{Keys: []string{path}, Line: line, Below: slices.Clone(below), Message: message})
}

// drop adds a note about an entry that is left out, with the keys in it.
func (ns *notes) drop(e entry, format string, args ...any) {
	ns.add(e.path, e.line, below(e.value), format, args...)
}

// of adds a note about an entry that was moved or changed.
func (ns *notes) of(e entry, format string, args ...any) {
	ns.add(e.path, e.line, below(e.value), format, args...)
}

// at adds a note about a value, given by its path.
func (ns *notes) at(path string, n *yaml.Node, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	ns.add(path, line, nil, format, args...)
}

// forget removes a key from its notes.
func (ns *notes) forget(path string) {
	for i := range *ns {
		(*ns)[i].Keys = slices.DeleteFunc((*ns)[i].Keys, func(key string) bool { return key == path })
	}
	*ns = slices.DeleteFunc(*ns, func(n Note) bool { return len(n.Keys) == 0 })
}

func (ns notes) sorted() []Note {
	slices.SortStableFunc(ns, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return ns
}

func lastKey(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
