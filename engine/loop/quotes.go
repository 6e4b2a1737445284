package loop

import (
	"encoding/json"
	"strings"
)

// curlyQuotes are the typographic double quotes, which some models write into JSON.
const curlyQuotes = "“”„‟″＂"

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
		quote := c == '"' || strings.ContainsRune(curlyQuotes, c)
		switch {
		case escaped, begin != 0 && c == '\\':
			escaped = !escaped
		case !quote:
		case begin == 0:
			begin, c = c, '"'
		case begin == '"' && c == '"', (begin != '"' || mixed) && endsString(text[i+len(string(c)):]):
			begin, c = 0, '"'
		case c == '"':
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// endsString reports whether the text after a quote continues JSON after a string.
func endsString(rest string) bool {
	const space = " \t\r\n"
	rest = strings.TrimLeft(rest, space)
	if next, ok := strings.CutPrefix(rest, ","); ok {
		next = strings.TrimLeft(next, space)
		return next != "" && strings.ContainsAny(next[:1], `"{[`) || strings.IndexAny(next, curlyQuotes) == 0
	}
	return rest != "" && strings.ContainsAny(rest[:1], ":}]")
}
