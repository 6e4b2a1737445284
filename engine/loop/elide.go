package loop

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
			messages[e.Message] = elidedMessage(messages, e)
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
		if h.isFixed(i) {
			left.Append(true, m)
		}
	}
	left.Append(false, summary...)
	for i := before; i < len(h.Messages); i++ {
		left.Append(h.isFixed(i), h.Messages[i])
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

// placeholderRoom is an upper bound, in bytes, on the length of a placeholder for elided text.
const placeholderRoom = 300

func elidedMessage(messages []llm.Message, e Elision) llm.Message {
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
		return fmt.Sprintf("[result of %.64s elided to make room: %s bytes; get what you need of it anew]", tool, groupThousands(len(result)))
	}
	head, cut := text.Head(result, shown)
	if !cut {
		return result
	}
	return head + fmt.Sprintf("\n[the rest of this result of %.64s is elided: it has %s bytes, for which the context window has no room; ask for less at a time]",
		tool, groupThousands(len(result)))
}

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
			placeholder := fmt.Sprintf("[%s bytes, left out of this record after the call was made with all of them]", groupThousands(len(value)))
			arguments[name], _ = json.Marshal(placeholder)
		}
	}
	shortened, _ := json.Marshal(arguments) // it was read from JSON
	call.Arguments = string(shortened)
	return call
}

func groupThousands(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func (h History) weightFreed(e Elision) int {
	return weightOf(h.Messages[e.Message]) - weightOf(elidedMessage(h.Messages, e))
}

// listElisions lists elisions of bulk before a position, the oldest first, until they free enough
// weight. It also returns the weight that they free.
func (h History) listElisions(before, enough int) (elisions []Elision, freed int) {
	for i, m := range h.Messages[:before] {
		if freed >= enough {
			break
		}
		if h.isFixed(i) || m.Role == llm.ToolRole && len(m.Content) <= longResult {
			continue
		}
		if gain := h.weightFreed(Elision{Message: i}); gain > 0 {
			elisions, freed = append(elisions, Elision{Message: i}), freed+gain
		}
	}
	return elisions, freed
}

// shortenBulk lists elisions, from a position on, that free the weight excess if possible. It
// first cuts the longest results to one length, and then removes images and arguments.
func (h History) shortenBulk(from, excess int) []Elision {
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
		if gain := h.weightFreed(e); gain > 0 {
			elisions, freed = append(elisions, e), freed+gain
		}
	}
	for i := from; i < len(h.Messages); i++ {
		if m := h.Messages[i]; m.Role == llm.ToolRole && len(m.Content) > level+placeholderRoom {
			add(Elision{Message: i, Shown: level})
		}
	}
	for i := from; i < len(h.Messages) && freed < excess; i++ {
		if m := h.Messages[i]; !h.isFixed(i) && m.Role != llm.ToolRole {
			add(Elision{Message: i})
		}
	}
	return elisions
}

// History is a conversation; the zero History is empty.
type History struct {
	Messages []llm.Message

	movable []bool // whether a message may be shortened; messages beyond its end are fixed
	gauge   gauge  // the last measurement
}

// Append adds messages. Fixed messages are never changed.
func (h *History) Append(fixed bool, messages ...llm.Message) {
	for len(h.movable) < len(h.Messages) {
		h.movable = append(h.movable, false)
	}
	h.Messages = append(h.Messages, messages...)
	h.movable = append(h.movable, slices.Repeat([]bool{!fixed}, len(messages))...)
}

func (h History) isFixed(i int) bool { return i >= len(h.movable) || !h.movable[i] }

// recentTurns is the number of last turns that are recent if they take at most 30 % of the
// room. The last turn is always recent.
const recentTurns = 6

// minReplaced is the minimum weight of turns for which a summary, which costs a model call,
// is made while they still fit.
const minReplaced = 2000

// Next plans the next step for fitting a request with tools, and its reply, into a window of the given
// tokens; 0 is an unknown window. The step makes elisions, or compacts the turns before a position, or is
// empty. It is empty until 70 % of the room beside the fixed messages is taken. Then it frees about half of
// that room at once, because every change invalidates the server's cache.
func (h History) Next(tokens int, tools []llm.Tool) (elide []Elision, before int) {
	if tokens <= 0 {
		return nil, 0
	}
	b := h.newBudget(tokens, tools)
	if b.now <= b.high {
		return nil, 0
	}
	if elide = h.shortenLast(b); len(elide) > 0 {
		return elide, 0
	}
	old := h.oldBefore(b)
	if elide, freed := h.listElisions(old, b.now-b.low); b.now-freed <= b.middle {
		return elide, 0
	}
	if replaced := h.movableWeight(old); b.isWorth(replaced) && (b.isExceeded() || replaced >= minReplaced) {
		return nil, old
	}
	if elide, freed := h.listElisions(old, b.now); b.isWorth(freed) {
		return elide, 0
	}
	if turns := h.replyPositions(); b.isExceeded() && len(turns) > 0 {
		return h.shortenBulk(turns[0], b.now-b.high), 0
	}
	return nil, 0
}

// budget divides a window into weights of the conversation.
type budget struct {
	now    int
	usable int // size with room for the reply
	room   int // part of usable beside the fixed messages
	low    int // goal of elisions
	middle int // largest acceptable result of elisions
	high   int // threshold of any step
}

func (h History) newBudget(tokens int, tools []llm.Tool) budget {
	fixed := h.fixedWeight()
	b := budget{now: weightOf(h.Messages...), usable: h.newScale(tools).largestWeight(requestPart(tokens))}
	b.room = max(0, b.usable-fixed)
	b.low, b.middle, b.high = fixed+b.room/2, fixed+b.room*6/10, fixed+b.room*7/10
	return b
}

// requestPart returns the part of a window for the request; the rest is for the reply.
func requestPart(tokens int) int {
	reply := max(1024, min(tokens/4, 8192))
	return tokens - min(reply, tokens/2)
}

func (b budget) isExceeded() bool { return b.now > b.usable }

func (b budget) isWorth(freed int) bool { return b.isExceeded() && freed > 0 || freed > b.room/10 }

func (h History) movableWeight(before int) int {
	weight := 0
	for i, m := range h.Messages[:before] {
		if !h.isFixed(i) {
			weight += weightOf(m)
		}
	}
	return weight
}

func (h History) fixedWeight() int {
	return weightOf(h.Messages...) - h.movableWeight(len(h.Messages))
}

func (h History) replyPositions() []int {
	var starts []int
	for i, m := range h.Messages {
		if m.Role == llm.Assistant && !h.isFixed(i) {
			starts = append(starts, i)
		}
	}
	return starts
}

func (h History) oldBefore(b budget) int {
	turns := h.replyPositions()
	first := len(turns) - 1
	for first > 0 && len(turns)-first < recentTurns && weightOf(h.Messages[turns[first-1]:]...) <= b.room*3/10 {
		first--
	}
	if first <= 0 {
		return 0
	}
	return turns[first]
}

// shortenLast shortens the last turn if that turn alone takes more than half of the room.
func (h History) shortenLast(b budget) []Elision {
	turns := h.replyPositions()
	if !b.isExceeded() || len(turns) == 0 {
		return nil
	}
	last := turns[len(turns)-1]
	if excess := weightOf(h.Messages[last:]...) - b.room/2; excess > 0 {
		return h.shortenBulk(last, excess)
	}
	return nil
}

// TooLong returns the error of a conversation whose fixed messages alone do not fit into a window of the
// given tokens, or nil. The estimate is optimistic: in doubt the server decides.
func (h History) TooLong(tokens int, tools []llm.Tool) error {
	if tokens <= 0 || h.fixedTokens(tools) <= tokens-min(tokens/8, 1024) {
		return nil
	}
	return h.tooLong(tools, fmt.Sprintf("the conversation does not fit into the context window of %s tokens", groupThousands(tokens)))
}

// Refused returns the error of a conversation that a server refused, for the given reason,
// and that cannot be shortened.
func (h History) Refused(tools []llm.Tool, reason string) error {
	return h.tooLong(tools, reason+"; the conversation cannot be made short enough")
}

func (h History) tooLong(tools []llm.Tool, why string) error {
	return &llm.Error{Kind: llm.ContextTooLong, Message: fmt.Sprintf("%s: it has about %s tokens, "+
		"and about %s of them cannot be left out (the system message, the task, the answers shown, the tools); "+
		"use a model with a longer context, a shorter task, fewer agents or fewer tools, or, if the window is larger than that, set its provider's context_window",
		why, groupThousands(h.Tokens(tools)), groupThousands(h.fixedTokens(tools)))}
}
