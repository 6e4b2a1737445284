package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// errandMark begins a line of a step's system prompt that tells this model where to
// go. Other models may read it; it is no secret.
const errandMark = "offline:"

// errand is one such line:
//
//	offline: call lint
//	offline: jump export
//
// Each is done once, in the order of the lines, if the step may go there.
type errand struct {
	tool string // by which it is done
	to   string
}

// step plays the step of a pipeline: its errands, then a text that says what was
// asked and what the steps it called came to.
func (m *Model) step(req llm.Request) llm.Message {
	for _, e := range errands(req) {
		if !done(req, e) && offered(req, e) {
			return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{call(e.tool, map[string]string{"step_name": e.to})}}
		}
	}
	return llm.Message{Role: llm.Assistant, Content: m.stepText(req)}
}

// errands are those that the system prompt has.
func errands(req llm.Request) []errand {
	tools := map[string]string{"call": "call_step", "jump": "jump_to_step"}
	var found []errand
	for _, message := range req.Messages {
		if message.Role != llm.System {
			continue
		}
		for line := range strings.Lines(message.Content) {
			rest, ok := strings.CutPrefix(strings.TrimSpace(line), errandMark)
			words := strings.Fields(rest)
			if ok && len(words) == 2 && tools[words[0]] != "" {
				found = append(found, errand{tools[words[0]], words[1]})
			}
		}
	}
	return found
}

// done reports whether the conversation, which a caller gets back whole, has the
// call of an errand.
func done(req llm.Request, e errand) bool {
	return slices.ContainsFunc(req.Messages, func(message llm.Message) bool {
		return slices.ContainsFunc(message.ToolCalls, func(c llm.ToolCall) bool {
			var arguments struct {
				Step string `json:"step_name"`
			}
			return c.Name == e.tool && json.Unmarshal([]byte(c.Arguments), &arguments) == nil && arguments.Step == e.to
		})
	})
}

// offered reports whether the step may do an errand.
func offered(req llm.Request, e errand) bool {
	return slices.ContainsFunc(req.Tools, func(t llm.Tool) bool {
		var schema struct {
			Properties struct {
				Step struct {
					Enum []string `json:"enum"`
				} `json:"step_name"`
			} `json:"properties"`
		}
		return t.Name == e.tool && json.Unmarshal(t.Parameters, &schema) == nil && slices.Contains(schema.Properties.Step.Enum, e.to)
	})
}

// maxQuoted is how much of what was asked or told is repeated, in bytes.
const maxQuoted = 300

// stepText is the text that a step ends with.
func (m *Model) stepText(req llm.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, no language model was asked: this text comes from a fixed rule.\n", markForm(m.mark))
	asked := false
	for _, message := range req.Messages {
		if message.Role != llm.User {
			continue
		}
		switch note, called := strings.CutPrefix(message.Content, "[Called step completed with result: "); {
		case called:
			fmt.Fprintf(&b, "\nA step that was called came to: %s\n", quoted(strings.TrimSuffix(note, "]")))
		case !asked:
			asked = true
			fmt.Fprintf(&b, "\nThe request was: %s\n", quoted(message.Content))
		default:
			fmt.Fprintf(&b, "\nIt was told: %s\n", quoted(message.Content))
		}
	}
	return strings.TrimSpace(b.String())
}

// quoted is the beginning of a text, on one line.
func quoted(s string) string { return text.Truncate(text.OneLine(s), maxQuoted) }
