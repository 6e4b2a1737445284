package config

import "strings"

// nearest is the choice that word was probably meant to be. Case, dashes and
// underscores do not count, and a third of the letters may be wrong.
func nearest(word string, choices []string) (choice string, ok bool) {
	folded := fold(word)
	if len(folded) > 100 {
		return "", false
	}
	best := max(1, len(folded)/3) + 1
	for _, c := range choices {
		if d := distance(folded, fold(c)); d < best {
			choice, best, ok = c, d, true
		}
	}
	return choice, ok
}

// suggestion is a remark that names the nearest choice, or else all of them.
func suggestion(word string, choices []string) string {
	if choice, ok := nearest(word, choices); ok {
		return "did you mean " + choice + "?"
	}
	return "valid: " + strings.Join(choices, ", ")
}

// choice is suggestion for values: all of them are named in any case.
func choice(word string, choices []string) string {
	valid := "valid: " + strings.Join(choices, ", ")
	if c, ok := nearest(word, choices); ok {
		return "did you mean " + c + "? " + valid
	}
	return valid
}

func fold(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}

// distance is how many letters have to be inserted, deleted, replaced or
// swapped with their neighbour to make b from a.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(last[j]+change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
