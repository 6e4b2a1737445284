package loop

import (
	"encoding/json"
	"regexp"
	"strings"
)

// curlyQuotes are the typographic double quotes, which some models write into JSON.
const curlyQuotes = "“”„‟″＂"

// afterString matches JSON after a string.
var afterString = regexp.MustCompile(`^\s*(?:[:}\]]|,\s*["{\[` + curlyQuotes + `])`)

// readings returns a text that may be JSON, followed by the texts in which typographic quotes are
// read as straight ones: first those around a string that begins with one, then also one at the
// end of a string that begins with a straight quote.
func readings(text string) []string {
	if !strings.ContainsAny(text, curlyQuotes) {
		return []string{text}
	}
	return []string{text, straightened(text, false), straightened(text, true)}
}

// readable returns the first reading of arguments that is JSON, or else the arguments.
func readable(arguments string) string {
	for _, reading := range readings(arguments) {
		if json.Valid([]byte(reading)) {
			return reading
		}
	}
	return arguments
}

// straightened replaces typographic quotes where JSON needs a quote. mixed permits one to end a
// string that begins with a straight quote.
func straightened(text string, mixed bool) string {
	var b strings.Builder
	begin, escaped := rune(0), false // begin is the quote at the start of the string, or 0 outside of one
	for i, c := range text {
		switch {
		case escaped, begin != 0 && c == '\\':
			escaped = !escaped
		case c != '"' && !strings.ContainsRune(curlyQuotes, c):
		case begin == 0:
			begin, c = c, '"'
		case begin == '"' && c == '"', (begin != '"' || mixed) && afterString.MatchString(text[i+len(string(c)):]):
			begin, c = 0, '"'
		case c == '"':
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
