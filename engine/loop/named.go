package loop

import (
	"regexp"
	"slices"
	"strings"
)

var (
	words = regexp.MustCompile(`[\pL\pN_-]+`)

	// saying matches the words in which weak models wrap the name of a tool that they mean to call.
	saying = regexp.MustCompile(`(?i)^(?:an?|action|and|arguments|by|call(?:ed|ing)?|content|finish|function|i|json|name|now|or|parameters|please|` +
		`text|the|to|tool|tool_call|type|us(?:e|ing)|will|with|[_-]+)$`)
)

// NamesTool reports whether a text is nothing but names of tools, as in `new_answer`, "call vote."
// and new_answer(), or a call of one in brackets. Such a text is no answer. A name that is also a
// word, such as vote, has to be written exactly.
func NamesTool(content string, tools ...string) bool {
	named := false
	for i, word := range words.FindAllString(content, -1) {
		name := strings.Trim(word, "_-")
		long := strings.Contains(name, "_") && slices.Contains(tools, strings.ToLower(name))
		switch {
		case long && i == 0 && strings.Contains(content, name+"(") && strings.HasSuffix(strings.TrimRight(content, " \r\n`*.;"), ")"):
			return true
		case long, slices.Contains(tools, name):
			named = true
		case !saying.MatchString(word):
			return false
		}
	}
	return named
}
