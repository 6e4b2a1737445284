package loop

import (
	"regexp"
	"strings"
)

// curlyQuotes are the typographic double quotes, which some models write into JSON.
const curlyQuotes = "“”„‟″＂"

// afterString matches JSON after a string.
var afterString = regexp.MustCompile(`^\s*(?:[:}\]]|,\s*["{\[` + curlyQuotes + `])`)

// straightened replaces typographic quotes where JSON needs a quote: outside of a string, and at
// the end of one.
func straightened(text string) string {
	var b strings.Builder
	begin, escaped := rune(0), false // begin is the quote at the start of the string, or 0 outside of one
	for i, c := range text {
		switch {
		case escaped, begin != 0 && c == '\\':
			escaped = !escaped
		case c != '"' && !strings.ContainsRune(curlyQuotes, c):
		case begin == 0:
			begin, c = c, '"'
		case begin == '"' && c == '"', afterString.MatchString(text[i+len(string(c)):]):
			begin, c = 0, '"'
		case c == '"':
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
