package window

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// Elide makes elisions. It ignores positions without bulk.
func (h *History) Elide(elisions []Elision) {
	messages := slices.Clone(h.Messages)
	for _, e := range elisions {
		if e.Message >= 0 && e.Message < len(messages) {
			messages[e.Message] = elided(messages, e)
		}
	}
	h.Messages = messages
}

// Compact replaces the turns before a position with a summary. Fixed messages are kept, in
// order, before the summary.
func (h *History) Compact(before int, summary []llm.Message) {
	before = max(0, min(before, len(h.Messages)))
	left := History{gauge: h.gauge}
	for i, m := range h.Messages[:before] {
		if h.fixed(i) {
			left.Append(true, m)
		}
	}
	left.Append(false, summary...)
	for i := before; i < len(h.Messages); i++ {
		left.Append(h.fixed(i), h.Messages[i])
	}
	*h = left
}

// Elision removes the bulk of one message: the text of a tool result, the images of a
// message, or the long arguments of a reply's calls.
type Elision struct {
	Message int `json:"message"`         // position of the message
	Shown   int `json:"shown,omitempty"` // bytes of a result that stay, from its beginning
}

// Lengths, in bytes, from which text counts as bulk.
const (
	longResult   = 400
	longArgument = 600
)

// placeholderRoom is an upper bound, in bytes, on the length of a placeholder for elided
// text.
const placeholderRoom = 300

func elided(messages []llm.Message, e Elision) llm.Message {
	m := messages[e.Message]
	switch {
	case m.Role == llm.ToolRole:
		m.Content = elidedResult(m.Content, toolOf(messages, e.Message), e.Shown)
	case len(m.Images) > 0:
		m.Content += fmt.Sprintf(" [%d elided to make room; have them made anew if you need them]", len(m.Images))
		m.Images = nil
	case m.Role == llm.Assistant && len(m.Extra) == 0:
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i := range m.ToolCalls {
			m.ToolCalls[i] = elidedCall(m.ToolCalls[i])
		}
	}
	return m
}

func elidedResult(result, tool string, shown int) string {
	if shown <= 0 {
		return fmt.Sprintf("[result of %.64s elided to make room: %s bytes; get what you need of it anew]", tool, count(len(result)))
	}
	head, cut := text.Head(result, shown)
	if !cut {
		return result
	}
	return head + fmt.Sprintf("\n[the rest of this result of %.64s is elided: it has %s bytes, for which the context window has no room; ask for less at a time]",
		tool, count(len(result)))
}

// toolOf returns the name of the tool whose result is at a position.
func toolOf(messages []llm.Message, at int) string {
	for _, m := range slices.Backward(messages[:at]) {
		if m.Role != llm.Assistant {
			continue
		}
		for _, call := range m.ToolCalls {
			if call.ID == messages[at].ToolCallID {
				return call.Name
			}
		}
		break
	}
	return "a tool"
}

// elidedCall replaces long arguments with placeholders. It does not change signed calls, or
// arguments that are not a JSON object.
func elidedCall(call llm.ToolCall) llm.ToolCall {
	var arguments map[string]json.RawMessage
	if len(call.Extra) > 0 || len(call.Arguments) <= longArgument || json.Unmarshal([]byte(call.Arguments), &arguments) != nil {
		return call
	}
	for name, value := range arguments {
		if len(value) > longArgument {
			placeholder := fmt.Sprintf("[%s bytes, left out of this record after the call was made with all of them]", count(len(value)))
			arguments[name], _ = json.Marshal(placeholder)
		}
	}
	shortened, err := json.Marshal(arguments)
	if err != nil {
		return call
	}
	call.Arguments = string(shortened)
	return call
}

// count formats a number with thousands separators.
func count(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// gain returns the weight that an elision frees.
func (h History) gain(e Elision) int {
	return weigh(h.Messages[e.Message]) - weigh(elided(h.Messages, e))
}

// elidable lists elisions of bulk before a position, the oldest first, until they free enough
// weight. It also returns the weight that they free.
func (h History) elidable(before, enough int) (elisions []Elision, freed int) {
	for i, m := range h.Messages[:before] {
		if freed >= enough {
			break
		}
		if h.fixed(i) || m.Role == llm.ToolRole && len(m.Content) <= longResult {
			continue
		}
		if gain := h.gain(Elision{Message: i}); gain > 0 {
			elisions, freed = append(elisions, Elision{Message: i}), freed+gain
		}
	}
	return elisions, freed
}

// shorten lists elisions, from a position on, that free the weight excess if possible. It
// first cuts the longest results to one length, and then removes images and arguments.
func (h History) shorten(from, excess int) []Elision {
	var sizes []int
	total := 0
	for _, m := range h.Messages[from:] {
		if m.Role == llm.ToolRole {
			sizes = append(sizes, len(m.Content))
			total += len(m.Content)
		}
	}
	level := max(longResult, text.Share(sizes, total-excess-len(sizes)*placeholderRoom))
	var elisions []Elision
	freed := 0
	add := func(e Elision) {
		if gain := h.gain(e); gain > 0 {
			elisions, freed = append(elisions, e), freed+gain
		}
	}
	for i := from; i < len(h.Messages); i++ {
		if m := h.Messages[i]; m.Role == llm.ToolRole && len(m.Content) > level+placeholderRoom {
			add(Elision{Message: i, Shown: level})
		}
	}
	for i := from; i < len(h.Messages) && freed < excess; i++ {
		if m := h.Messages[i]; !h.fixed(i) && m.Role != llm.ToolRole {
			add(Elision{Message: i})
		}
	}
	return elisions
}
