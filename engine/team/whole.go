package team

import "strings"

// wholeLine is where the lines of a whole text are broken, in bytes: tools that
// read files show no more than the beginning of an endless line.
const wholeLine = 2 << 10

// Whole is an answer's text as it is put at peers/agent<N>.md beside a step that
// is shown the answer: plain, with its longest lines broken after a blank where
// there is one. It is empty for a text that a step with a context window of so
// many tokens, 0 if that is not known, never cuts.
func Whole(text string, window int) string {
	text = plain(text, "")
	if len(text) <= leastShown(window) {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(text + "\n") {
		for len(line) > wholeLine {
			part := cut(line, wholeLine)
			if at := strings.LastIndexAny(part, " \t"); at >= 0 {
				part = part[:at+1]
			}
			line = line[len(part):]
			b.WriteString(part + "\n")
		}
		b.WriteString(line)
	}
	return b.String()
}
