package text

import "strings"

const (
	maxMisspelt  = 100 // bytes of a word that Nearest compares at all
	minContained = 3   // letters of a word that counts as a part of another
)

// Nearest returns the first of the choices nearest to word, if at most a third of the word's
// letters differ. Case, dashes, underscores and spaces do not count; if a word is part of a
// choice, or the reverse, it differs by one letter. If no choice is that near, Nearest
// returns the only choice with the same first part: system_message for system_prompt.
func Nearest(word string, choices []string) (nearest string, ok bool) {
	folded := Fold(word)
	if len(folded) > maxMisspelt {
		return "", false
	}
	best := max(1, len(folded)/3) + 1
	for _, choice := range choices {
		if d := difference(folded, Fold(choice)); d < best {
			nearest, best, ok = choice, d, true
		}
	}
	if !ok {
		return sharing(word, choices)
	}
	return nearest, ok
}

// sharing returns the choice that begins with the first part of a word, if the word has
// several parts and there is exactly one such choice.
func sharing(word string, choices []string) (choice string, ok bool) {
	const separators = "_-"
	i := strings.IndexAny(word, separators)
	if i < minContained {
		return "", false
	}
	for _, c := range choices {
		j := strings.IndexAny(c, separators)
		if j < 0 || !strings.EqualFold(c[:j], word[:i]) {
			continue
		}
		if ok {
			return "", false
		}
		choice, ok = c, true
	}
	return choice, ok
}

// Fold returns s in lower case without dashes, underscores and spaces.
func Fold(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}

func difference(a, b string) int {
	d := distance(a, b)
	if min(len(a), len(b)) >= minContained && (strings.Contains(a, b) || strings.Contains(b, a)) {
		d = min(d, 1)
	}
	return d
}

// distance returns the number of bytes that must be inserted, deleted, replaced or swapped
// with their neighbour to turn a into b.
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
