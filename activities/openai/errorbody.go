package openai

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"conclave/engine/llm"
)

// errorBody is the content of an error response, in a form that is common to all providers.
type errorBody struct {
	code, kind, message, param string

	window     int           // context window in tokens, from llama.cpp
	retryAfter time.Duration // requested wait, from Google
}

// parseErrorBody accepts {"error": {…}}, {"error": "…"}, the same in a list, and
// {"message"|"detail": …}; anything else is empty.
func parseErrorBody(body []byte) errorBody {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return errorBody{}
	}
	fields := outer
	if inner, ok := outer["error"]; ok {
		var nested map[string]json.RawMessage
		if json.Unmarshal(inner, &nested) != nil {
			return errorBody{message: scalar(inner)}
		}
		fields = nested
	}
	return errorBody{
		code: scalar(fields["code"]), kind: scalar(fields["type"]), param: scalar(fields["param"]),
		message: cmp.Or(scalar(fields["message"]), scalar(fields["detail"])),
		window:  tokens(scalar(fields["n_ctx"])), retryAfter: retryDelay(fields["details"]),
	}
}

// scalar returns the text of a JSON string, "" for null, or the JSON of any other value, such as a
// numeric code.
func scalar(value json.RawMessage) string {
	var s string
	if len(value) == 0 || json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// retryDelay returns the delay requested in the details of a Google error, or 0.
func retryDelay(details json.RawMessage) time.Duration {
	var list []struct {
		RetryDelay string `json:"retryDelay"`
	}
	if json.Unmarshal(details, &list) != nil {
		return 0
	}
	for _, detail := range list {
		if d, err := time.ParseDuration(detail.RetryDelay); err == nil && d > 0 {
			return d
		}
	}
	return 0
}

// status returns the error's code if that is an HTTP status, and 200 otherwise.
func (p errorBody) status() int {
	if n, err := strconv.Atoi(p.code); err == nil && n >= 400 && n <= 599 {
		return n
	}
	return http.StatusOK
}

// byWords classifies an error of status 200 whose body contains no status either.
func (p errorBody) byWords() llm.Kind {
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

// hasAny reports whether s contains one of the words, which must be lower case.
func hasAny(s string, words ...string) bool {
	s = strings.ToLower(s)
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// tooLongWords match the providers' messages about prompts that are too long; the group is the
// window.
var tooLongWords = compiled(
	`maximum (?:context|prompt|model) length (?:is|of) (\d+)`,
	`(\d+) maximum context length`,
	`prompt is too long: \d+ tokens > (\d+)`,
	`exceed context limit: \d+ \+ \d+ > (\d+)`,
	`token count.{0,40} exceeds the (?:maximum number of tokens allowed|limit of) \(?(\d+)`,
	`exceeds the available context size \((\d+)`,
	`exceeded max context length by \d+ tokens|exceeded max context length`,
	`context length of only (\d+)`,
	`max_new_tokens. must be <= (\d+)`,
	`maximum context length|maximum model length|context length exceeded|exceeds? (?:the |maximum )?(?:available |model's )?context`,
	`context (?:size|window|length) (?:is |was )?exceeded|larger than the context|longer than the context`,
	`(?:prompt|input|request) is too long|input token count.{0,40} exceeds`,
)

// perMinute matches the error of OpenAI and Groq for a single request above the limit per minute.
var perMinute = regexp.MustCompile(`request too large\b.*\blimit (\d+), requested (\d+)`)

func compiled(patterns ...string) []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, p := range patterns {
		out = append(out, regexp.MustCompile(p))
	}
	return out
}

// tooLong reports whether a prompt was too long for the model, and the model's window in tokens, 0
// if unknown.
func (p errorBody) tooLong(status int) (window int, long bool) {
	message := strings.ToLower(p.message)
	if m := perMinute.FindStringSubmatch(message); m != nil {
		limit, requested := tokens(m[1]), tokens(m[2])
		return limit, requested > limit
	}
	if status == http.StatusTooManyRequests {
		return 0, false
	}
	long = hasAny(p.code+" "+p.kind, "context_length_exceeded", "exceed_context_size")
	for _, words := range tooLongWords {
		m := words.FindStringSubmatch(message)
		if m == nil {
			continue
		}
		if long = true; len(m) > 1 && window == 0 {
			window = tokens(m[1])
		}
	}
	if !long {
		return 0, false
	}
	return max(window, p.window), true
}

// tokens parses a number in a message. It returns 0 if the number is implausible.
func tokens(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil || n > maxCount {
		return 0
	}
	return n
}
