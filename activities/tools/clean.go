package tools

import (
	"regexp"
	"strings"
	"unicode"
)

// escape matches what terminals take for commands: control sequences (colours,
// moves of the cursor), strings (titles, links) and the short ones; also such as
// were cut.
var escape = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]?|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~]?)")

// clean is output as text: without what only a terminal could show. Of a line
// that was written over and over, as progress bars are, the last state is left.
func clean(p []byte) string {
	text := strings.ToValidUTF8(string(p), "\uFFFD")
	text = escape.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if strings.ContainsRune(text, '\r') {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			line = strings.TrimRight(line, "\r")
			lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
		}
		text = strings.Join(lines, "\n")
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
