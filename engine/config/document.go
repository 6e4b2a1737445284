package config

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// kind is what a value of a document is.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	list
	mapping
)

// position is a place in a document, both from 1. Columns count characters.
type position struct{ line, column int }

// node is a value of a YAML or JSON document with its place.
type node struct {
	position
	kind   kind
	text   string  // of a scalar, as written; a number has the form of JSON
	plain  bool    // a YAML scalar without quotes, which may be meant as a string
	items  []*node // of a list
	fields []field // of a mapping, in order, possibly with duplicates
}

// field is one entry of a mapping.
type field struct {
	position // of the key
	key      string
	value    *node
}

// Limits of a document. A team of 26 agents needs a few hundred values; YAML
// aliases and JSON alike are refused beyond these.
const (
	maxBytes  = 1 << 20
	maxDepth  = 50
	maxValues = 10_000
)

// parseDocument reads data as JSON if it is JSON, else as YAML. YAML is not
// quite a superset: JSON's surrogate escapes and some characters are not YAML.
func parseDocument(data []byte) (*node, *fault) {
	if len(data) > maxBytes {
		return nil, &fault{position{1, 1}, fmt.Sprintf("%d bytes are too many for a configuration, at most %d are accepted", len(data), maxBytes)}
	}
	if at := invalidUTF8(data); at >= 0 {
		return nil, &fault{place(data, at), "not UTF-8 text; save the file in UTF-8"}
	}
	data = []byte(strings.TrimPrefix(string(data), "\ufeff"))
	if looksJSON(data) {
		return readJSON(data)
	}
	return readYAML(data)
}

// fault is what makes a document unreadable.
type fault struct {
	position
	message string
}

// grow counts a value against the limits of a document.
func grow(values *int, depth int, at position) *fault {
	*values++
	switch {
	case depth > maxDepth:
		return &fault{at, fmt.Sprintf("nested more than %d levels deep", maxDepth)}
	case *values > maxValues:
		return &fault{at, fmt.Sprintf("more than %d values, with aliases expanded; a configuration is smaller", maxValues)}
	}
	return nil
}

// place is the position of the byte at offset.
func place(data []byte, offset int) position {
	before := string(data[:min(offset, len(data))])
	start := strings.LastIndexByte(before, '\n') + 1
	return position{1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[start:])}
}

// invalidUTF8 is the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// found describes a value for people, on one line, without showing what could
// be a secret.
func (n *node) found() string {
	switch n.kind {
	case null:
		return "nothing (null)"
	case boolean:
		return n.text
	case number:
		return cut(n.text)
	case text:
		return "the string " + quote(n.text)
	case list:
		return "a list"
	}
	return "a mapping"
}

// quote shows a string from a configuration: escaped, cut at 40 characters, and
// not at all if it could be a secret.
func quote(s string) string {
	if looksSecret(s) {
		return "(not shown, it could be a secret)"
	}
	return fmt.Sprintf("%q", cut(s))
}

func cut(s string) string {
	if runes := []rune(s); len(runes) > 40 {
		return string(runes[:40]) + "…"
	}
	return s
}
