package openai

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"conclave/engine/llm"
)

// problem is what an error body says, in the forms providers use.
type problem struct {
	code, kind, message string
}

// readProblem understands {"error": {…}}, {"error": "…"}, the same in a list,
// and {"message"|"detail": …}; anything else is an empty problem.
func readProblem(body []byte) problem {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return problem{}
	}
	fields := outer
	if inner, ok := outer["error"]; ok {
		var nested map[string]json.RawMessage
		if json.Unmarshal(inner, &nested) != nil {
			return problem{message: scalar(inner)}
		}
		fields = nested
	}
	p := problem{code: scalar(fields["code"]), kind: scalar(fields["type"]), message: scalar(fields["message"])}
	if p.message == "" {
		p.message = scalar(fields["detail"])
	}
	return p
}

// scalar is a JSON string's text, or the JSON of anything else; null is empty.
// Codes are numbers at some servers.
func scalar(value json.RawMessage) string {
	var s string
	if len(value) == 0 || json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// status is the HTTP status that the error's code is, or 200.
func (p problem) status() int {
	if n, err := strconv.Atoi(p.code); err == nil && n >= 400 && n <= 599 {
		return n
	}
	return http.StatusOK
}

// tooLong recognises a prompt over the model's context: by code where there is
// one, else by the words of OpenAI, llama.cpp, vLLM, Anthropic and Gemini.
func (p problem) tooLong() bool {
	return hasAny(p.code+" "+p.kind, "context_length_exceeded", "exceed_context_size") ||
		hasAny(p.message, "maximum context length", "context length exceeded", "exceeds the context", "exceed context",
			"context size", "context window", "prompt is too long", "input token count")
}

// byWords classifies an error that came with status 200 and no status in it.
func (p problem) byWords() llm.Kind {
	switch words := p.code + " " + p.kind + " " + p.message; {
	case hasAny(words, "rate_limit", "rate limit", "too many requests"):
		return llm.RateLimited
	case hasAny(words, "overloaded", "unavailable", "server_error", "busy", "timeout", "timed out"):
		return llm.Overloaded
	case hasAny(words, "authentication", "invalid_api_key", "permission"):
		return llm.AuthFailed
	case hasAny(words, "invalid_request", "not_found"):
		return llm.BadRequest
	default:
		return llm.BadReply
	}
}

// hasAny reports whether s contains one of the words, which are lower case.
func hasAny(s string, words ...string) bool {
	s = strings.ToLower(s)
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
