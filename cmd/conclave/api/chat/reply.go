package chat

import (
	"strings"

	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// reply is the reply to a request, cut as the request wants it.
type reply struct {
	answer   string
	calls    []coordination.Call // calls of the caller's tools; there is no answer yet
	usage    llm.Usage
	ending   ending
	sequence string // the stop text before which the answer was cut
}

// ending is why a reply ends.
type ending int

// Endings.
const (
	endedAlone ending = iota
	endedWithCalls
	endedBySequence
	endedByLength
)

// newReply cuts the answer of a session at the first stop text, and at the limit of tokens by the
// estimate with which agents keep to their models' windows.
func newReply(want wish, r gateway.Reply) reply {
	out := reply{answer: r.Answer, calls: r.Calls, usage: r.Usage}
	if len(r.Calls) > 0 {
		out.answer, out.ending = "", endedWithCalls
		return out
	}
	if want.asData && r.Result.Data != nil {
		return want.apply(out, r.Session, r.Result.Data)
	}
	for _, stop := range want.stops {
		if head, _, found := strings.Cut(out.answer, stop); found {
			out.answer, out.sequence, out.ending = head, stop, endedBySequence
		}
	}
	if most := loop.TextSize(want.limit); want.limit > 0 && len(out.answer) > most {
		out.answer, _ = cutText(out.answer, most)
		out.sequence, out.ending = "", endedByLength
	}
	return out
}
