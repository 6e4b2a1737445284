// Package excerpt shortens text for places that hold little: a workflow's
// result, a memo, a line of a history. The whole text always lies elsewhere.
package excerpt

import "unicode/utf8"

// Of returns the beginning of s, at most limit bytes, cut at a character's
// boundary, and whether anything was cut.
func Of(s string, limit int) (string, bool) {
	if len(s) <= limit {
		return s, false
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit], true
}

// Marked is Of with an ellipsis, within the limit, where text was cut.
func Marked(s string, limit int) string {
	const mark = "…"
	if len(s) <= limit {
		return s
	}
	head, _ := Of(s, max(0, limit-len(mark)))
	return head + mark
}
