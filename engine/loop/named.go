package loop

import (
	"regexp"
	"slices"
	"strings"
)

// wrapping matches the text that weak models write around the name of a tool that they mean to call.
var wrapping = regexp.MustCompile(`(?i)[^\pL\pN_-]+|\B-|-\B|\b(?:an?|action|and|arguments|by|call(?:ed|ing)?|content|finish|function|i|json|name|` +
	`now|or|parameters|please|text|the|to|tool|tool_call|type|us(?:e|ing)|will|with)\b`)

// NamesTool reports whether a text has only names of tools, as in `new_answer`, "call vote."
// and new_answer(). Such a text is no answer. A name that is also a word, such as vote, has to be
// written exactly.
func NamesTool(content string, tools ...string) bool {
	words := strings.Fields(wrapping.ReplaceAllString(content, " "))
	return len(words) > 0 && !slices.ContainsFunc(words, func(word string) bool {
		return !slices.Contains(tools, word) && (!strings.Contains(word, "_") || !slices.Contains(tools, strings.ToLower(word)))
	})
}
