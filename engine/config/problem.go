package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/text"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	File         string // the name given to Parse
	Line, Column int    // from 1
	Key          string // where in the configuration, as in agents[0].backend.model; empty for the whole
	Message      string // what is wrong, and the remedy or the nearest valid choice
}

// Error is the problem on one line: file:line:column: key: message.
func (p Problem) Error() string {
	key := p.Key
	if key != "" {
		key += ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, key, p.Message)
}

// Problems is the error of Parse: everything that is wrong, in the order of the
// text.
type Problems []Problem

// maxShown bounds how many problems are printed; who has more will be back.
const maxShown = 50

// Error is the problems, one per line.
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

// sorted returns the problems in the order of the text, or no error.
func (ps Problems) sorted() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Key, b.Key))
	})
	return ps
}

// suggestion is a remark that names the nearest choice, or else all of them.
func suggestion(word string, choices []string) string {
	if choice, ok := text.Nearest(word, choices); ok {
		return "did you mean " + choice + "?"
	}
	return "valid: " + strings.Join(choices, ", ")
}

// choice is suggestion for values: all of them are named in any case.
func choice(word string, choices []string) string {
	valid := "valid: " + strings.Join(choices, ", ")
	if c, ok := text.Nearest(word, choices); ok {
		return "did you mean " + c + "? " + valid
	}
	return valid
}
