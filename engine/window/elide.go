package window

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// Elision takes the bulk out of one message: of a tool's result its text, of a
// message with images the images, of a reply the long arguments of its calls.
type Elision struct {
	Message int `json:"message"`         // its position
	Shown   int `json:"shown,omitempty"` // bytes of a result that stay, from its beginning
}

// From which length on, in bytes, something is bulk.
const (
	longResult   = 400
	longArgument = 600
)

// noteRoom is more than what is said in the place of what is elided has.
const noteRoom = 300

// Elide returns messages with the elisions made. Positions where there is
// nothing to elide are left alone.
func Elide(messages []llm.Message, elisions []Elision) []llm.Message {
	messages = slices.Clone(messages)
	for _, e := range elisions {
		if e.Message < 0 || e.Message >= len(messages) {
			continue
		}
		messages[e.Message] = elided(messages, e)
	}
	return messages
}

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

// toolOf names the tool that the result at a position is of.
func toolOf(messages []llm.Message, at int) string {
	for i := at - 1; i >= 0; i-- {
		if messages[i].Role != llm.Assistant {
			continue
		}
		for _, call := range messages[i].ToolCalls {
			if call.ID == messages[at].ToolCallID {
				return call.Name
			}
		}
		break
	}
	return "a tool"
}

// elidedCall has long texts among its arguments elided. Calls that a server
// signed, and arguments that are no JSON object, stay as they are.
func elidedCall(call llm.ToolCall) llm.ToolCall {
	var arguments map[string]json.RawMessage
	if len(call.Extra) > 0 || len(call.Arguments) <= longArgument || json.Unmarshal([]byte(call.Arguments), &arguments) != nil {
		return call
	}
	for name, value := range arguments {
		if len(value) <= longArgument {
			continue
		}
		note, err := json.Marshal(fmt.Sprintf("[%s bytes, left out of this record after the call was made with all of them]", count(len(value))))
		if err != nil {
			return call
		}
		arguments[name] = note
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		return call
	}
	call.Arguments = string(text)
	return call
}

// count writes a number with its thousands apart.
func count(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// elidable are elisions of what is bulk before a position, from the oldest on,
// until enough is freed, and how much they free.
func (h History) elidable(before, enough int) (elisions []Elision, freed int) {
	for i, m := range h.Messages[:before] {
		if freed >= enough {
			break
		}
		if h.fixed(i) || m.Role == llm.ToolRole && len(m.Content) <= longResult {
			continue
		}
		e := Elision{Message: i}
		if gain := Weigh(m) - Weigh(elided(h.Messages, e)); gain > 0 {
			elisions, freed = append(elisions, e), freed+gain
		}
	}
	return elisions, freed
}

// shorten are elisions from a position on that free so much, if they can: the
// longest results are cut to one length, and if that does not do, there are
// images and arguments.
func (h History) shorten(from, excess int) []Elision {
	var sizes []int
	total := 0
	for _, m := range h.Messages[from:] {
		if m.Role == llm.ToolRole {
			sizes = append(sizes, len(m.Content))
			total += len(m.Content)
		}
	}
	level := max(longResult, share(sizes, total-excess-len(sizes)*noteRoom))
	var elisions []Elision
	freed := 0
	add := func(e Elision) {
		gain := Weigh(h.Messages[e.Message]) - Weigh(elided(h.Messages, e))
		if gain > 0 {
			elisions, freed = append(elisions, e), freed+gain
		}
	}
	for i := from; i < len(h.Messages); i++ {
		if m := h.Messages[i]; m.Role == llm.ToolRole && len(m.Content) > level+noteRoom {
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

// share returns the size to which each text is cut so that all of them fit into
// total. What short texts leave over goes to the long ones.
func share(sizes []int, total int) int {
	sizes = slices.Sorted(slices.Values(sizes))
	level := 0
	for i, size := range sizes {
		if level = max(0, total) / (len(sizes) - i); size > level {
			return level
		}
		total -= size
	}
	return level
}
