package window

import "conclave/engine/llm"

// History is a conversation as the window sees it.
type History struct {
	Messages []llm.Message
	Fixed    []bool // by message: stays as it is
	Gauge    Gauge  // the last measurement
}

// Plan is what is to be done next; the zero Plan is nothing.
type Plan struct {
	Elide  []Elision
	Before int // compact the turns before this message; 0 for none
}

// Empty reports whether there is nothing to be done.
func (p Plan) Empty() bool { return len(p.Elide) == 0 && p.Before == 0 }

// recentTurns is how many turns are not old, as far as they take no more than
// 30 % of the room. The last one never is.
const recentTurns = 6

// minReplaced is the weight from which it is worth a model call to replace turns
// that still fit.
const minReplaced = 2000

// Next says what is to be done so that a request with tools fits into a window
// of so many tokens, with room for the reply. It is asked again when that is
// done. Nothing is done before 70 % of the room is taken that is left beside
// what is fixed; then about half of it is made free, so that what a server has
// cached of the conversation is not void at every call. Of a window that is not
// known, 0, nothing is said.
func Next(h History, tokens int, tools []llm.Tool) Plan {
	if tokens <= 0 {
		return Plan{}
	}
	b := h.budget(tokens, tools)
	if b.now <= b.high {
		return Plan{}
	}
	for _, way := range []func(History, budget) Plan{shortenLast, elideOld, compactOld, elideAnyOld, shortenAny} {
		if p := way(h, b); !p.Empty() {
			return p
		}
	}
	return Plan{}
}

// budget is what there is of a window, as weights of the conversation.
type budget struct {
	now    int
	usable int // with room for the reply
	room   int // of usable, beside what is fixed
	low    int // where it is well
	middle int
	high   int // where something is to be done
}

func (h History) budget(tokens int, tools []llm.Tool) budget {
	fixed := 0
	for i, m := range h.Messages {
		if h.fixed(i) {
			fixed += Weigh(m)
		}
	}
	b := budget{now: Weigh(h.Messages...), usable: scale{h.Gauge, weighTools(tools)}.weight(usable(tokens))}
	b.room = max(0, b.usable-fixed)
	b.low, b.middle, b.high = fixed+b.room/2, fixed+b.room*6/10, fixed+b.room*7/10
	return b
}

// usable is what a request may have of a window: the rest is for the reply.
func usable(tokens int) int {
	reply := max(1024, min(tokens/4, 8192))
	return tokens - min(reply, tokens/2)
}

// over reports that the request does not fit as it is.
func (b budget) over() bool { return b.now > b.usable }

// worth reports whether it is worth its cost to free so much.
func (b budget) worth(freed int) bool { return b.over() && freed > 0 || freed > b.room/10 }

func (h History) fixed(i int) bool { return i < len(h.Fixed) && h.Fixed[i] }

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
	if len(turns) < 2 {
		return 0
	}
	first := len(turns) - 1
	for first > 0 && len(turns)-first < recentTurns && Weigh(h.Messages[turns[first-1]:]...) <= b.room*3/10 {
		first--
	}
	if first == 0 {
		return 0
	}
	return turns[first]
}

// shortenLast shortens results that alone take half of the room: they would
// crowd out everything else.
func shortenLast(h History, b budget) Plan {
	turns := h.turns()
	if !b.over() || len(turns) == 0 {
		return Plan{}
	}
	last := turns[len(turns)-1]
	excess := Weigh(h.Messages[last:]...) - b.room/2
	if excess <= 0 {
		return Plan{}
	}
	return Plan{Elide: h.shorten(last, excess)}
}

// elideOld takes the bulk out of old turns, where that is enough.
func elideOld(h History, b budget) Plan {
	elided, freed := h.elidable(h.old(b), b.now-b.low)
	if b.now-freed > b.middle {
		return Plan{}
	}
	return Plan{Elide: elided}
}

// compactOld replaces the old turns.
func compactOld(h History, b budget) Plan {
	before, replaced := h.old(b), 0
	for i, m := range h.Messages[:before] {
		if !h.fixed(i) {
			replaced += Weigh(m)
		}
	}
	if !b.worth(replaced) || !b.over() && replaced < minReplaced {
		return Plan{}
	}
	return Plan{Before: before}
}

// elideAnyOld takes the bulk out of old turns, though that is not enough.
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
