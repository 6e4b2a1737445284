package window

import "conclave/engine/llm"

// Weights are in bytes of text. The number of tokens is estimated from them.
const (
	messageWeight = 16       // weight of a message or a call without its texts: roles, delimiters
	imageWeight   = 1600 * 4 // weight of any image: servers scale them down to about 1,600 tokens
	maxTokens     = 1 << 30  // bounds reported tokens, so that products do not overflow
)

// Estimates, in bytes per token. English and code have about four.
const (
	bytesUnmeasured = 3 // estimate before the first measurement; conservative
	bytesOfTools    = 4
	bytesAtMost     = 8 // a report of fewer tokens is incomplete
)

// Messages added after a measurement have at least newTokens per newBytes: a quarter more
// than usual.
const newTokens, newBytes = 5, 16

// weigh returns the weight of messages.
func weigh(messages ...llm.Message) int {
	weight := 0
	for _, m := range messages {
		weight += messageWeight + len(m.Content) + len(m.ToolCallID) + len(m.Images)*imageWeight
		for _, value := range m.Extra {
			weight += len(value)
		}
		for _, call := range m.ToolCalls {
			weight += messageWeight + len(call.ID) + len(call.Name) + len(call.Arguments)
			for _, value := range call.Extra {
				weight += len(value)
			}
		}
	}
	return weight
}

// gauge is a measurement of a conversation: its weight, and the tokens that it takes with its
// tools. The zero gauge means no measurement.
type gauge struct{ tokens, weight int }

// Measure sets the measurement from the usage of the reply that ends the conversation. It
// ignores usage that sums several calls or is implausibly small.
func (h *History) Measure(u llm.Usage) {
	h.gauge = gauge{}
	if u.ModelCalls != 1 || u.InputTokens <= 0 || u.OutputTokens < 0 || len(h.Messages) == 0 {
		return
	}
	tokens := min(u.InputTokens, maxTokens) + min(u.OutputTokens, maxTokens)
	if reply := h.Messages[len(h.Messages)-1]; len(reply.Extra) == 0 {
		// Reasoning is sent back only if it is kept in Extra.
		tokens -= min(max(u.ReasoningTokens, 0), u.OutputTokens, maxTokens)
	}
	if g := (gauge{tokens: int(min(tokens, maxTokens)), weight: weigh(h.Messages...)}); g.tokens >= g.weight/bytesAtMost {
		h.gauge = g
	}
}

// scale converts between weights of a conversation and tokens of a request with that
// conversation and its tools.
type scale struct {
	gauge gauge
	bytes int // weight of the tools
}

func (h History) scale(tools []llm.Tool) scale {
	s := scale{gauge: h.gauge}
	for _, t := range tools {
		s.bytes += messageWeight + len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return s
}

// parts returns the tokens of the tools and of the measured conversation.
func (s scale) parts() (tools, measured int) {
	tools = s.bytes / bytesOfTools
	return tools, max(s.gauge.tokens-tools, s.gauge.weight/bytesAtMost, 1)
}

// rate returns the ratio of tokens to bytes added after the measurement.
func (s scale) rate() (tokens, bytes int) {
	_, measured := s.parts()
	if measured*newBytes > newTokens*s.gauge.weight {
		return measured, s.gauge.weight
	}
	return newTokens, newBytes
}

// tokens estimates the tokens of a request with a conversation of the given weight.
func (s scale) tokens(weight int) int {
	if s.gauge.weight == 0 {
		return (weight + s.bytes) / bytesUnmeasured
	}
	tools, measured := s.parts()
	if weight <= s.gauge.weight {
		return tools + measured*weight/s.gauge.weight
	}
	tokens, bytes := s.rate()
	return tools + measured + (weight-s.gauge.weight)*tokens/bytes
}

// weight is the inverse of tokens: it returns the largest weight of a conversation whose
// request fits. It is negative if the tools alone need more tokens.
func (s scale) weight(tokens int) int {
	if s.gauge.weight == 0 {
		return tokens*bytesUnmeasured - s.bytes
	}
	tools, measured := s.parts()
	if tokens -= tools; tokens <= measured {
		return tokens * s.gauge.weight / measured
	}
	per, bytes := s.rate()
	return s.gauge.weight + (tokens-measured)*bytes/per
}

// Tokens estimates the tokens of a request with the conversation.
func (h History) Tokens(tools []llm.Tool) int { return h.scale(tools).tokens(weigh(h.Messages...)) }

// fixedTokens estimates the tokens of a request with only the fixed messages.
func (h History) fixedTokens(tools []llm.Tool) int {
	s, weight := h.scale(tools), h.fixedWeight()
	if h.gauge.weight == 0 {
		return (weight + s.bytes) / bytesOfTools
	}
	return s.tokens(weight)
}
