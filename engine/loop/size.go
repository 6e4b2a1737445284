package loop

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

// Messages added after a measurement have at least newTokens per newBytes: a quarter more than usual.
const newTokens, newBytes = 5, 16

func weightOf(messages ...llm.Message) int {
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
	if g := (gauge{tokens: int(min(tokens, maxTokens)), weight: weightOf(h.Messages...)}); g.tokens >= g.weight/bytesAtMost {
		h.gauge = g
	}
}

// scale converts between weights of a conversation and tokens of a request with that
// conversation and its tools.
type scale struct {
	gauge gauge
	bytes int // weight of the tools
}

func (h History) newScale(tools []llm.Tool) scale {
	s := scale{gauge: h.gauge}
	for _, t := range tools {
		s.bytes += messageWeight + len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return s
}

func (s scale) tokenParts() (tools, measured int) {
	tools = s.bytes / bytesOfTools
	return tools, max(s.gauge.tokens-tools, s.gauge.weight/bytesAtMost, 1)
}

func (s scale) addedRate() (tokens, bytes int) {
	_, measured := s.tokenParts()
	if measured*newBytes > newTokens*s.gauge.weight {
		return measured, s.gauge.weight
	}
	return newTokens, newBytes
}

func (s scale) tokensOf(weight int) int {
	if s.gauge.weight == 0 {
		return (weight + s.bytes) / bytesUnmeasured
	}
	tools, measured := s.tokenParts()
	if weight <= s.gauge.weight {
		return tools + measured*weight/s.gauge.weight
	}
	tokens, bytes := s.addedRate()
	return tools + measured + (weight-s.gauge.weight)*tokens/bytes
}

// largestWeight is the inverse of tokensOf: it returns the largest weight of a conversation whose
// request fits. It is negative if the tools alone need more tokens.
func (s scale) largestWeight(tokens int) int {
	if s.gauge.weight == 0 {
		return tokens*bytesUnmeasured - s.bytes
	}
	tools, measured := s.tokenParts()
	if tokens -= tools; tokens <= measured {
		return tokens * s.gauge.weight / measured
	}
	per, bytes := s.addedRate()
	return s.gauge.weight + (tokens-measured)*bytes/per
}

// Tokens estimates the tokens of a request with the conversation.
func (h History) Tokens(tools []llm.Tool) int {
	return h.newScale(tools).tokensOf(weightOf(h.Messages...))
}

// TextSize estimates how many bytes of text a number of tokens makes.
func TextSize(tokens int) int { return tokens * bytesOfTools }

func (h History) fixedTokens(tools []llm.Tool) int {
	s, weight := h.newScale(tools), h.fixedWeight()
	if h.gauge.weight == 0 {
		return (weight + s.bytes) / bytesOfTools
	}
	return s.tokensOf(weight)
}
