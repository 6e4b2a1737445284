package config

import (
	"strings"

	"conclave/engine/nearest"
)

// closest is the choice that word was probably meant to be. Case, dashes and
// underscores do not count, and a third of the letters may be wrong.
func closest(word string, choices []string) (choice string, ok bool) {
	folded := fold(word)
	if len(folded) > 100 {
		return "", false
	}
	best := max(1, len(folded)/3) + 1
	for _, c := range choices {
		if d := nearest.Distance(folded, fold(c)); d < best {
			choice, best, ok = c, d, true
		}
	}
	return choice, ok
}

// suggestion is a remark that names the nearest choice, or else all of them.
func suggestion(word string, choices []string) string {
	if choice, ok := closest(word, choices); ok {
		return "did you mean " + choice + "?"
	}
	return "valid: " + strings.Join(choices, ", ")
}

// choice is suggestion for values: all of them are named in any case.
func choice(word string, choices []string) string {
	valid := "valid: " + strings.Join(choices, ", ")
	if c, ok := closest(word, choices); ok {
		return "did you mean " + c + "? " + valid
	}
	return valid
}

func fold(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}
