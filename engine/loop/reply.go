package loop

import (
	"regexp"
	"slices"
	"strings"

	"conclave/engine/llm"
)

// curlyQuotes are the typographic double quotes, which some models write into JSON.
const curlyQuotes = "“”„‟″＂"

// afterString matches JSON after a string.
var afterString = regexp.MustCompile(`^\s*(?:[:}\]]|,\s*["{\[` + curlyQuotes + `])`)

// straightenQuotes replaces typographic quotes where JSON needs a quote: outside of a string, and at
// the end of one.
func straightenQuotes(text string) string {
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

// Outcome describes how an ordinary tool call ended.
type Outcome struct {
	Call     string `json:"call"` // ID of the call
	Failed   bool   `json:"failed,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
}

// notCalled is the result of a call that StopAtFailure skipped.
const notCalled = "[not called: an earlier call failed]"

func callOutcomes(calls []llm.ToolCall, outputs map[string]Output) []Outcome {
	var ended []Outcome
	for _, call := range calls {
		if out := outputs[call.ID]; out.Failed || out.ExitCode != nil {
			ended = append(ended, Outcome{Call: call.ID, Failed: out.Failed, ExitCode: out.ExitCode})
		}
	}
	return ended
}

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
