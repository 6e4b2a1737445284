package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// directiveMark begins a line of a prompt that is addressed to this model.
const directiveMark = "offline:"

// directive is a line of a pipeline step's system prompt; the line begins with directiveMark:
//
//	offline: call lint
//	offline: jump export
//
// Each directive is followed once, in order, unless the step is not offered its destination.
type directive struct {
	tool string
	to   string // destination of the jump or call
}

// step follows the directives of a pipeline step, then writes a text with the request and the
// results of the calls.
func (m *model) step(req llm.Request) llm.Message {
	for _, d := range directives(req) {
		if !done(req, d) && offered(req, d) {
			return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{call(d.tool, map[string]string{"step_name": d.to})}}
		}
	}
	return llm.Message{Role: llm.Assistant, Content: m.stepText(req)}
}

func directives(req llm.Request) []directive {
	tools := map[string]string{"call": "call_step", "jump": "jump_to_step"}
	var found []directive
	for _, line := range marked(req, llm.System) {
		if words := strings.Fields(line); len(words) == 2 && tools[words[0]] != "" {
			found = append(found, directive{tools[words[0]], words[1]})
		}
	}
	return found
}

// marked returns the lines with directiveMark in the messages of a role, without the mark.
func marked(req llm.Request, role llm.Role) []string {
	var found []string
	for _, message := range req.Messages {
		if message.Role != role {
			continue
		}
		for line := range strings.Lines(message.Content) {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(line), directiveMark); ok {
				found = append(found, strings.TrimSpace(rest))
			}
		}
	}
	return found
}

// done reports whether the conversation already contains the call of a directive.
func done(req llm.Request, d directive) bool {
	return slices.ContainsFunc(req.Messages, func(message llm.Message) bool {
		return slices.ContainsFunc(message.ToolCalls, func(c llm.ToolCall) bool {
			var arguments struct {
				Step string `json:"step_name"`
			}
			return c.Name == d.tool && json.Unmarshal([]byte(c.Arguments), &arguments) == nil && arguments.Step == d.to
		})
	})
}

// offered reports whether the step is offered the destination of a directive.
func offered(req llm.Request, d directive) bool {
	return slices.ContainsFunc(req.Tools, func(t llm.Tool) bool {
		return t.Name == d.tool && slices.Contains(enum(t, "step_name"), d.to)
	})
}

// maxQuoted bounds a quotation of the request or of a message, in bytes.
const maxQuoted = 300

func (m *model) stepText(req llm.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, no language model was asked: this text comes from a fixed rule.\n", markForm(m.mark))
	asked := false
	for _, message := range req.Messages {
		if message.Role != llm.User {
			continue
		}
		switch note, called := strings.CutPrefix(message.Content, "[Called step completed with result: "); {
		case called:
			fmt.Fprintf(&b, "\nA called step returned: %s\n", quoted(strings.TrimSuffix(note, "]")))
		case !asked:
			asked = true
			fmt.Fprintf(&b, "\nThe request was: %s\n", quoted(message.Content))
		default:
			fmt.Fprintf(&b, "\nA further message was: %s\n", quoted(message.Content))
		}
	}
	return strings.TrimSpace(b.String())
}

// quoted returns the beginning of a text on one line.
func quoted(s string) string { return text.Truncate(text.OneLine(s), maxQuoted) }

// reportResult plays the step of a scenario. It reports pass, or fail after the directive "offline:
// fail".
func (m *model) reportResult(req llm.Request, v view) []llm.ToolCall {
	var calls []llm.ToolCall
	if v.offers("record_evidence") {
		calls = append(calls, call("record_evidence", map[string]string{
			"name": "after", "type": "stdout", "data": markForm(m.mark) + ": nothing was tested.\n",
		}))
	}
	const untested = "The offline model reports by a fixed rule: nothing was tested."
	report := `{"status":"pass","evidence_paths":[],"error":null,"summary":"` + untested + `"}`
	if slices.Contains(marked(req, llm.User), "fail") {
		report = `{"status":"fail","evidence_paths":[],"error":"the step tells the offline model to fail","summary":"` + untested + `"}`
	}
	return append(calls, llm.ToolCall{Name: "report_result", Arguments: report})
}
