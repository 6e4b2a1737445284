package loop

import (
	"slices"
	"strings"
	"unicode"
)

// saying has the words in which weak models wrap the name of a tool that they mean to call.
var saying = strings.Fields("a action and arguments by call called calling content finish function i json name now or parameters " +
	"please text the to tool tool_call type use using will with")

// NamesTool reports whether a text is nothing but names of tools, as in `new_answer`, "call vote."
// and new_answer(). Such a text is no answer. A name that is also a word, such as vote, has to be
// written exactly; a name with an underscore may also begin a call in brackets.
func NamesTool(content string, tools ...string) bool {
	words := strings.FieldsFunc(content, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '_' && c != '-'
	})
	names := 0
	for i, word := range words {
		word = strings.Trim(word, "-_")
		folded := strings.ToLower(word)
		special := strings.Contains(word, "_") && slices.Contains(tools, folded)
		switch {
		case special && i == 0 && strings.HasSuffix(strings.TrimRight(content, " \t\r\n`*_.;"), ")") && called(content, word):
			return true
		case special, slices.Contains(tools, word):
			names++
		case word != "" && !slices.Contains(saying, folded):
			return false
		}
	}
	return names > 0
}

// called reports whether a bracket follows the first place of a name.
func called(content, name string) bool {
	_, after, _ := strings.Cut(content, name)
	return strings.HasPrefix(after, "(")
}
