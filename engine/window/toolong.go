package window

import (
	"fmt"

	"conclave/engine/llm"
)

// TooLong returns the error of a conversation whose fixed part alone does not
// fit into a window of so many tokens, or nil. Its estimate is not on the safe
// side: who is not sure asks the server.
func TooLong(h History, tokens int, tools []llm.Tool) error {
	if tokens <= 0 {
		return nil
	}
	needed := h.fixedTokens(tools)
	if needed <= tokens-min(tokens/8, 1024) {
		return nil
	}
	return tooLong(h, tools, fmt.Sprintf("the conversation does not fit into the context window of %s tokens", count(tokens)))
}

// Refused returns the error of a conversation that a server finds too long,
// which says why, when it cannot be made shorter.
func Refused(h History, tools []llm.Tool, said string) error {
	return tooLong(h, tools, said+"; the conversation cannot be made short enough")
}

func tooLong(h History, tools []llm.Tool, why string) error {
	return &llm.Error{Kind: llm.ContextTooLong, Message: fmt.Sprintf("%s: it has about %s tokens, "+
		"and about %s of them cannot be left out (the system message, the task, the answers shown, the tools); "+
		"use a model with a longer context, a shorter task, fewer agents or fewer tools, or, if the window is larger than that, set its provider's context_window",
		why, count(h.Tokens(tools)), count(h.fixedTokens(tools)))}
}

func (h History) fixedTokens(tools []llm.Tool) int {
	weight := 0
	for i, m := range h.Messages {
		if h.fixed(i) {
			weight += Weigh(m)
		}
	}
	s := scale{h.Gauge, weighTools(tools)}
	if h.Gauge.Weight == 0 {
		return (weight + s.bytes) / bytesOfTools
	}
	return s.tokens(weight)
}
