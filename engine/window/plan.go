package window

import (
	"fmt"

	"conclave/engine/llm"
)

// History is a conversation.
type History struct {
	Messages []llm.Message
	Fixed    []bool // by message: never changed
	Gauge    Gauge  // the last measurement
}

// Plan is the next step to shorten a conversation; the zero Plan leaves it alone.
type Plan struct {
	Elide  []Elision
	Before int // compact the turns before this message; 0 for none
}

// recentTurns is the number of turns that are recent as long as they take at most 30 % of
// the room. The last one is always recent.
const recentTurns = 6

// minReplaced is the least weight of turns worth a model call to replace them while they
// still fit.
const minReplaced = 2000

// Next plans the next step to fit a request with tools, and its reply, into a window of so
// many tokens; 0 stands for an unknown window, which needs no plan. The plan is empty until
// 70 % of the room beside the fixed messages is taken; then it frees about half, so that
// few calls invalidate the server's cache.
func Next(h History, tokens int, tools []llm.Tool) Plan {
	if tokens <= 0 {
		return Plan{}
	}
	b := h.budget(tokens, tools)
	if b.now <= b.high {
		return Plan{}
	}
	for _, way := range []func(History, budget) Plan{shortenLast, elideOld, compactOld, elideAnyOld, shortenAny} {
		if p := way(h, b); len(p.Elide) > 0 || p.Before > 0 {
			return p
		}
	}
	return Plan{}
}

// budget divides a window, as weights of the conversation.
type budget struct {
	now    int
	usable int // with room for the reply
	room   int // of usable, beside the fixed messages
	low    int // goal of elisions
	middle int // largest acceptable result of elisions
	high   int // threshold of any plan
}

func (h History) budget(tokens int, tools []llm.Tool) budget {
	fixed := h.fixedWeight()
	b := budget{now: weigh(h.Messages...), usable: scale{h.Gauge, weighTools(tools)}.weight(usable(tokens))}
	b.room = max(0, b.usable-fixed)
	b.low, b.middle, b.high = fixed+b.room/2, fixed+b.room*6/10, fixed+b.room*7/10
	return b
}

// usable is the part of a window for the request; the rest is for the reply.
func usable(tokens int) int {
	reply := max(1024, min(tokens/4, 8192))
	return tokens - min(reply, tokens/2)
}

// over reports that the request does not fit.
func (b budget) over() bool { return b.now > b.usable }

// worth reports whether freeing a weight justifies its cost.
func (b budget) worth(freed int) bool { return b.over() && freed > 0 || freed > b.room/10 }

func (h History) fixed(i int) bool { return i < len(h.Fixed) && h.Fixed[i] }

func (h History) fixedWeight() int {
	weight := 0
	for i, m := range h.Messages {
		if h.fixed(i) {
			weight += weigh(m)
		}
	}
	return weight
}

// turns are the positions of the replies.
func (h History) turns() []int {
	var starts []int
	for i, m := range h.Messages {
		if m.Role == llm.Assistant && !h.fixed(i) {
			starts = append(starts, i)
		}
	}
	return starts
}

// old is the position before which turns are old.
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

// shortenLast shortens the last turn if it takes more than half of the room by itself.
func shortenLast(h History, b budget) Plan {
	turns := h.turns()
	if !b.over() || len(turns) == 0 {
		return Plan{}
	}
	last := turns[len(turns)-1]
	excess := weigh(h.Messages[last:]...) - b.room/2
	if excess <= 0 {
		return Plan{}
	}
	return Plan{Elide: h.shorten(last, excess)}
}

// elideOld elides the bulk of old turns if that is enough.
func elideOld(h History, b budget) Plan {
	elided, freed := h.elidable(h.old(b), b.now-b.low)
	if b.now-freed > b.middle {
		return Plan{}
	}
	return Plan{Elide: elided}
}

// compactOld replaces the old turns by a summary.
func compactOld(h History, b budget) Plan {
	before, replaced := h.old(b), 0
	for i, m := range h.Messages[:before] {
		if !h.fixed(i) {
			replaced += weigh(m)
		}
	}
	if !b.worth(replaced) || !b.over() && replaced < minReplaced {
		return Plan{}
	}
	return Plan{Before: before}
}

// elideAnyOld elides the bulk of old turns even if that is not enough.
func elideAnyOld(h History, b budget) Plan {
	elided, freed := h.elidable(h.old(b), b.now)
	if !b.worth(freed) {
		return Plan{}
	}
	return Plan{Elide: elided}
}

// shortenAny shortens even the latest results, before the request fails.
func shortenAny(h History, b budget) Plan {
	turns := h.turns()
	if !b.over() || len(turns) == 0 {
		return Plan{}
	}
	return Plan{Elide: h.shorten(turns[0], b.now-b.high)}
}

// TooLong returns the error of a conversation whose fixed messages alone do not fit into
// a window of so many tokens, or nil. The estimate is optimistic: in doubt the server
// decides.
func TooLong(h History, tokens int, tools []llm.Tool) error {
	if tokens <= 0 || h.fixedTokens(tools) <= tokens-min(tokens/8, 1024) {
		return nil
	}
	return tooLong(h, tools, fmt.Sprintf("the conversation does not fit into the context window of %s tokens", count(tokens)))
}

// Refused returns the error of a conversation that a server refused for reason and that
// cannot be shortened.
func Refused(h History, tools []llm.Tool, reason string) error {
	return tooLong(h, tools, reason+"; the conversation cannot be made short enough")
}

func tooLong(h History, tools []llm.Tool, why string) error {
	return &llm.Error{Kind: llm.ContextTooLong, Message: fmt.Sprintf("%s: it has about %s tokens, "+
		"and about %s of them cannot be left out (the system message, the task, the answers shown, the tools); "+
		"use a model with a longer context, a shorter task, fewer agents or fewer tools, or, if the window is larger than that, set its provider's context_window",
		why, count(h.Tokens(tools)), count(h.fixedTokens(tools)))}
}
