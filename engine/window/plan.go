package window

import (
	"fmt"
	"slices"

	"conclave/engine/llm"
)

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

func (h History) fixed(i int) bool { return i >= len(h.movable) || !h.movable[i] }

// recentTurns is the number of last turns that are recent if they take at most 30 % of the
// room. The last turn is always recent.
const recentTurns = 6

// minReplaced is the minimum weight of turns for which a summary, which costs a model call,
// is made while they still fit.
const minReplaced = 2000

// Next plans the next step for fitting a request with tools, and its reply, into a window of
// the given tokens; 0 is an unknown window. The step makes elisions, or compacts the turns
// before a position, or is empty. It is empty until 70 % of the room beside the fixed
// messages is taken. Then it frees about half of that room at once, because every change
// invalidates the server's cache.
func (h History) Next(tokens int, tools []llm.Tool) (elide []Elision, before int) {
	if tokens <= 0 {
		return nil, 0
	}
	b := h.budget(tokens, tools)
	if b.now <= b.high {
		return nil, 0
	}
	if elide = h.shortenLast(b); len(elide) > 0 {
		return elide, 0
	}
	old := h.old(b)
	if elide, freed := h.elidable(old, b.now-b.low); b.now-freed <= b.middle {
		return elide, 0
	}
	if replaced := h.movableWeight(old); b.worth(replaced) && (b.over() || replaced >= minReplaced) {
		return nil, old
	}
	if elide, freed := h.elidable(old, b.now); b.worth(freed) {
		return elide, 0
	}
	if turns := h.turns(); b.over() && len(turns) > 0 {
		return h.shorten(turns[0], b.now-b.high), 0
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

func (h History) budget(tokens int, tools []llm.Tool) budget {
	fixed := h.fixedWeight()
	b := budget{now: weigh(h.Messages...), usable: h.scale(tools).weight(usable(tokens))}
	b.room = max(0, b.usable-fixed)
	b.low, b.middle, b.high = fixed+b.room/2, fixed+b.room*6/10, fixed+b.room*7/10
	return b
}

// usable returns the part of a window for the request; the rest is for the reply.
func usable(tokens int) int {
	reply := max(1024, min(tokens/4, 8192))
	return tokens - min(reply, tokens/2)
}

// over reports whether the request does not fit.
func (b budget) over() bool { return b.now > b.usable }

// worth reports whether freeing the given weight justifies its cost.
func (b budget) worth(freed int) bool { return b.over() && freed > 0 || freed > b.room/10 }

// movableWeight returns the weight of the messages before a position that are not fixed.
func (h History) movableWeight(before int) int {
	weight := 0
	for i, m := range h.Messages[:before] {
		if !h.fixed(i) {
			weight += weigh(m)
		}
	}
	return weight
}

func (h History) fixedWeight() int {
	return weigh(h.Messages...) - h.movableWeight(len(h.Messages))
}

// turns returns the positions of the replies.
func (h History) turns() []int {
	var starts []int
	for i, m := range h.Messages {
		if m.Role == llm.Assistant && !h.fixed(i) {
			starts = append(starts, i)
		}
	}
	return starts
}

// old returns the position before which turns are old.
func (h History) old(b budget) int {
	turns := h.turns()
	first := len(turns) - 1
	for first > 0 && len(turns)-first < recentTurns && weigh(h.Messages[turns[first-1]:]...) <= b.room*3/10 {
		first--
	}
	if first <= 0 {
		return 0
	}
	return turns[first]
}

// shortenLast shortens the last turn if that turn alone takes more than half of the room.
func (h History) shortenLast(b budget) []Elision {
	turns := h.turns()
	if !b.over() || len(turns) == 0 {
		return nil
	}
	last := turns[len(turns)-1]
	if excess := weigh(h.Messages[last:]...) - b.room/2; excess > 0 {
		return h.shorten(last, excess)
	}
	return nil
}

// TooLong returns the error of a conversation whose fixed messages alone do not fit into a
// window of the given tokens, or nil. The estimate is optimistic: in doubt the server
// decides.
func (h History) TooLong(tokens int, tools []llm.Tool) error {
	if tokens <= 0 || h.fixedTokens(tools) <= tokens-min(tokens/8, 1024) {
		return nil
	}
	return h.tooLong(tools, fmt.Sprintf("the conversation does not fit into the context window of %s tokens", count(tokens)))
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
		why, count(h.Tokens(tools)), count(h.fixedTokens(tools)))}
}
