package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/text"
)

// problem is one fault of a configuration.
type problem struct {
	File         string // the name given to Parse
	Line, Column int    // line and column, from 1
	Key          string // such as agents[0].backend.model; empty for the whole document
	Message      string // the fault, and the remedy or the nearest valid choice
	Unknown      bool   // the fault is a key that does not exist
}

// Error formats the problem on one line: file:line:column: key: message.
func (p problem) Error() string {
	key := p.Key
	if key != "" {
		key += ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, key, p.Message)
}

// Problems is the error of Parse: every fault, in the order of the text.
type Problems []problem

// maxShown bounds the number of problems printed.
const maxShown = 50

// Error lists the problems, one per line.
func (ps Problems) Error() string {
	var lines []string
	for _, p := range ps[:min(len(ps), maxShown)] {
		lines = append(lines, p.Error())
	}
	if more := len(ps) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more problems", more))
	}
	return strings.Join(lines, "\n")
}

// sorted returns the problems in the order of the text, or nil for an empty list.
func (ps Problems) sorted() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Key, b.Key))
	})
	return ps
}

// choice suggests the nearest choice, if one is near, and lists all of them.
func choice(word string, choices []string) string {
	valid := "valid: " + strings.Join(choices, ", ")
	if c, ok := text.Nearest(word, choices); ok {
		return "did you mean " + c + "? " + valid
	}
	return valid
}
