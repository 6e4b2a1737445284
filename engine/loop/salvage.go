package loop

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// Salvage reads tool calls that a model wrote as text. If the content of a finished reply consists only of
// calls of offered tools, it returns the reply with these tool calls, and the content from which they were
// read. Otherwise it returns the reply unchanged, and an empty text.
//
// A call is a JSON object with a name and arguments or parameters, alone or in an OpenAI function object.
// There may be several calls or an array of them, without delimiters, in one code fence, or in <tool_call> or
// <tools> tags. Brackets that are missing at the very end are added, a typographic quote where JSON needs one
// is read as one, and a <think> block before the calls is ignored. A call with prose around it is a quotation
// and is not salvaged; an object with a repeated key is not salvaged either.
func Salvage(reply llm.Message, tools []llm.Tool) (message llm.Message, written string) {
	if len(reply.ToolCalls) > 0 || len(tools) == 0 {
		return reply, ""
	}
	values, ok := callValues(reply.Content)
	if !ok {
		values, ok = callValues(straightenQuotes(reply.Content))
	}
	if !ok || len(values) == 0 {
		return reply, ""
	}
	var calls []llm.ToolCall
	for _, value := range values {
		call, ok := readCall(value)
		if !ok || !slices.ContainsFunc(tools, func(t llm.Tool) bool { return t.Name == call.Name }) {
			return reply, ""
		}
		calls = append(calls, call)
	}
	written, reply.Content, reply.ToolCalls = reply.Content, "", calls
	return reply, written
}

// LooksLikeCall reports whether a text looks like a call, even if it cannot be read.
func LooksLikeCall(content string) bool {
	content = straightenQuotes(content)
	named := strings.Contains(content, `"name"`) && (strings.Contains(content, `"arguments"`) || strings.Contains(content, `"parameters"`))
	return named && framed.MatchString(content) || tagged.MatchString(content)
}

var (
	fence   = regexp.MustCompile("(?s)^```[A-Za-z_]*\\s*(.*?)\\s*```$")
	framed  = regexp.MustCompile("^\\s*(?:```[A-Za-z_]*\\s*)?[{\\[]")
	tagged  = regexp.MustCompile("^\\s*(?:```[A-Za-z_]*\\s*)?<(?:tool_call|tools|function=)")
	opening = regexp.MustCompile(`^<(tool_call|tools)>`)
)

// callValues returns the JSON values that make up a content, without their fence or tags.
func callValues(content string) ([]json.RawMessage, bool) {
	content = strings.TrimSpace(text.WithoutThoughts(content))
	if m := fence.FindStringSubmatch(content); m != nil {
		content = strings.TrimSpace(m[1])
	}
	tag := ""
	if m := opening.FindStringSubmatch(content); m != nil {
		tag = m[1]
	}
	content = withoutClosing(content, tag)
	var all []json.RawMessage
	for {
		if tag != "" {
			m := opening.FindStringSubmatch(content)
			if m == nil {
				return nil, false
			}
			tag, content = m[1], content[len(m[0]):]
		}
		values, rest, ok := readValues(content)
		all = append(all, values...)
		if content = strings.TrimSpace(strings.TrimPrefix(rest, "</"+tag+">")); content == "" || !ok {
			return all, ok
		}
		if tag == "" {
			return nil, false
		}
	}
}

// withoutClosing removes a closing tag at the very end. If the server has removed the opening
// tag, the closing tag may have either name.
func withoutClosing(content, tag string) string {
	for _, name := range []string{"tool_call", "tools"} {
		if tag == "" || tag == name {
			content = strings.TrimSpace(strings.TrimSuffix(content, "</"+name+">"))
		}
	}
	return content
}

// readValues returns the JSON values at the beginning of a text, separated by white space, commas or
// semicolons, with arrays flattened. It also returns the rest, which is empty or begins with a tag.
func readValues(list string) (values []json.RawMessage, rest string, ok bool) {
	for {
		if list = strings.TrimLeft(list, " \t\r\n,;"); list == "" || list[0] == '<' {
			return values, list, true
		}
		var value json.RawMessage
		decoder := json.NewDecoder(strings.NewReader(list))
		err := decoder.Decode(&value)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			list += missingBrackets(list)
			decoder = json.NewDecoder(strings.NewReader(list))
			err = decoder.Decode(&value)
		}
		if err != nil {
			return nil, "", false
		}
		list = list[decoder.InputOffset():]
		var elements []json.RawMessage
		if json.Unmarshal(value, &elements) == nil {
			values = append(values, elements...)
		} else {
			values = append(values, value)
		}
	}
}

// missingBrackets returns the brackets that close an unfinished JSON text, or "" if the text
// ends within a string.
func missingBrackets(text string) string {
	var missing []byte
	quoted, escaped := false, false
	for _, c := range []byte(text) {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{':
			missing = append(missing, '}')
		case c == '[':
			missing = append(missing, ']')
		case (c == '}' || c == ']') && len(missing) > 0:
			missing = missing[:len(missing)-1]
		}
	}
	if quoted {
		return ""
	}
	slices.Reverse(missing)
	return string(missing)
}

// readCall reads one call. It refuses unknown keys, which indicate another kind of object,
// such as a tool's definition, and repeated keys, which are ambiguous.
func readCall(value json.RawMessage) (llm.ToolCall, bool) {
	keys := map[string]json.RawMessage{}
	if json.Unmarshal(value, &keys) != nil {
		return llm.ToolCall{}, false
	}
	if function, nested := keys["function"]; nested && hasOnlyKeys(keys, "function", "type", "id") {
		keys = map[string]json.RawMessage{}
		if json.Unmarshal(function, &keys) != nil || !hasOnlyKeys(keys, "name", "arguments", "parameters") {
			return llm.ToolCall{}, false
		}
	}
	arguments, given := keys["arguments"]
	parameters, named := keys["parameters"]
	if given == named || !hasOnlyKeys(keys, "name", "arguments", "parameters", "type", "id") {
		return llm.ToolCall{}, false
	}
	if named {
		arguments = parameters
	}
	var name string
	if json.Unmarshal(keys["name"], &name) != nil {
		return llm.ToolCall{}, false
	}
	object, ok := readObject(arguments)
	ambiguous := llm.IsAmbiguous(value) || llm.IsAmbiguous([]byte(object))
	return llm.ToolCall{Name: name, Arguments: object}, ok && !ambiguous && !(named && isSchema(object))
}

func readObject(value json.RawMessage) (string, bool) {
	text := string(value)
	if quoted := ""; json.Unmarshal(value, &quoted) == nil && text != "null" {
		text = quoted
	}
	object := map[string]json.RawMessage{}
	err := json.Unmarshal([]byte(text), &object)
	return text, err == nil && object != nil
}

// isSchema reports whether the parameters of a call are in fact the schema of a tool's definition.
func isSchema(object string) bool {
	var schema struct {
		Type       string
		Properties map[string]any
	}
	return json.Unmarshal([]byte(object), &schema) == nil && schema.Type == "object" && schema.Properties != nil
}

func hasOnlyKeys(object map[string]json.RawMessage, keys ...string) bool {
	for key := range object {
		if !slices.Contains(keys, key) {
			return false
		}
	}
	return true
}

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
