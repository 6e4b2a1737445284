package openai

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// maxExcerpt bounds the part of a response in an error, in bytes.
const maxExcerpt = 500

func (c *Client) newError(kind llm.Kind, status int, event, remedy string, cause error) *llm.Error {
	if remedy != "" {
		event += "; " + remedy
	}
	return &llm.Error{
		Kind: kind, Status: status, Detail: event, Err: c.redactor.Error(cause),
		Message: fmt.Sprintf("model %s at %s: %s", c.options.Model, c.host, event),
	}
}

func (c *Client) unusableError(reason string, cause error) *llm.Error {
	return c.newError(llm.BadReply, http.StatusOK, reason, "", cause)
}

// checkLength returns the error of a reply that is longer than was asked for, or else err.
func (c *Client) checkLength(s *stream, err error) error {
	if !s.isOverlong() {
		return err
	}
	return c.overlongError(s.most)
}

func (c *Client) overlongError(most int) error {
	failed := c.unusableError("the reply is longer than "+text.Size(int64(most)), nil)
	failed.Cut, failed.Overlong = true, true
	return failed
}

// unreachedError returns the error for a request without a complete response; begun is true if the
// response had begun. The message omits the URL that a url.Error adds.
func (c *Client) unreachedError(err error, begun bool) *llm.Error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return c.newError(llm.BadRequest, 0, "its certificate is not trusted: "+c.cleanExcerpt(certificate.Err.Error()),
			"check base_url, or add the authority to the system's certificates", err)
	}
	if begun {
		return c.newError(llm.Network, 0, "the response broke off: "+c.cleanExcerpt(withoutSource(err)), "", err)
	}
	return c.newError(llm.Network, 0, "no response: "+c.cleanExcerpt(withoutSource(err)),
		"check that base_url is right and the server is running", err)
}

// withoutSource returns the text of an error without the local address, which differs for each connection.
func withoutSource(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil {
		return strings.Replace(err.Error(), op.Source.String()+"->", "", 1)
	}
	return err.Error()
}

func (c *Client) refusedError(status int, header http.Header, body []byte) *llm.Error {
	parsed := parseErrorBody(body)
	// A team of `conclave serve` without an answer would start from the beginning at a retry.
	if strings.HasPrefix(parsed.code, "session_") || parsed.code == "depth_exceeded" {
		return c.teamFailed(status, parsed.message)
	}
	if status == http.StatusOK {
		// A proxy may report its server's error with status 200; the body has the original status.
		status = parsed.originalStatus()
	}
	kind, window := classifyError(status, parsed)
	event := fmt.Sprintf("%s (HTTP %d)", phrases[kind].headline, status)
	message := cmp.Or(parsed.message, string(body))
	if to, _, _ := strings.Cut(header.Get("Location"), "?"); to != "" && status >= 300 && status < 400 {
		message = "redirected to " + to
	}
	if message = c.cleanExcerpt(message); message != "" {
		event += ": " + message
	}
	var part error
	if kind == llm.BadRequest || kind == llm.Overloaded {
		parsed.message = cmp.Or(parsed.message, string(body[:min(len(body), 4*maxExcerpt)]))
		part = refusedPart(status, parsed)
	}
	remedy := phrases[kind].remedy
	if kind == llm.AuthFailed && c.options.APIKey == "" {
		remedy = "no key was sent: name the variable that holds it in api_key_env"
	}
	failed := c.newError(kind, status, event, remedy, part)
	failed.Window = window
	if failed.Retryable() {
		failed.RetryAfter = cmp.Or(RetryAfter(header, time.Now()), min(parsed.retryAfter, longestAsked))
	}
	return failed
}

// teamFailed returns the error for a team without an answer. If teams ask each other, it keeps only
// the cause from the last one, and drops the command that would continue the session.
func (c *Client) teamFailed(status int, message string) *llm.Error {
	const event = "the team has no answer: "
	if last := strings.LastIndex(message, event); last >= 0 {
		message = message[last+len(event):]
	}
	message, _, _ = strings.Cut(message, "; `conclave retry ")
	return c.newError(llm.BadRequest, status, event+c.cleanExcerpt(message), "", nil)
}

// classifyError returns the kind of an error and, if the conversation is too long, the model's window.
// Codes and words take precedence over the status, which providers use less consistently.
func classifyError(status int, p errorBody) (llm.Kind, int) {
	window, long := p.tooLong(status)
	switch {
	case hasAny(p.code+" "+p.kind, "insufficient_quota", "billing"):
		return llm.AuthFailed, 0
	case hasAny(p.code+" "+p.kind, "content_filter", "content_policy"),
		status == http.StatusForbidden && hasAny(p.message, "moderation", "flagged"): // OpenRouter refuses content with 403
		return llm.ContentPolicy, 0
	case long || status == http.StatusRequestEntityTooLarge:
		return llm.ContextTooLong, window
	case status == http.StatusInternalServerError && hasAny(p.message, "json.exception"):
		return llm.BadRequest, 0 // llama.cpp: an unreadable request
	case status == http.StatusInternalServerError && hasAny(p.message, "error parsing tool call", "failed to parse input"):
		return llm.BadReply, 0 // Ollama and llama.cpp: the model's output
	}
	return byStatus(status, p), 0
}

func byStatus(status int, p errorBody) llm.Kind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusPaymentRequired, http.StatusProxyAuthRequired:
		return llm.AuthFailed
	case http.StatusTooManyRequests:
		return llm.RateLimited
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return llm.Overloaded
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return llm.BadRequest
	case http.StatusOK:
		return p.byWords()
	}
	if status >= 500 {
		return llm.Overloaded
	}
	return llm.BadRequest
}

// phrases has the headline and the remedy for each kind of error.
var phrases = map[llm.Kind]struct{ headline, remedy string }{
	llm.AuthFailed:     {"the key or the account was refused", "check the variable named by api_key_env, and the account behind it"},
	llm.ContextTooLong: {"the conversation is too long for the model", "use a model with a longer context, or a shorter query"},
	llm.RateLimited:    {"rate limited", "wait, or raise the provider's limit"},
	llm.Overloaded:     {"the server failed or is overloaded", "wait, or look at the provider's status"},
	llm.ContentPolicy:  {"the provider declined the content", "rephrase the query"},
	llm.BadReply:       {"an error instead of a reply", ""},
	llm.BadRequest:     {"the request was refused", "check model, base_url, params and tools"},
}

// newRedactor returns a redactor for the key, which some servers repeat in errors.
func newRedactor(key string) *text.Redactor {
	if key == "" {
		return nil
	}
	return text.NewRedactor([]string{key})
}

// cleanExcerpt returns the beginning of a response on one line, with the key removed.
func (c *Client) cleanExcerpt(response string) string {
	response = c.redactor.String(response)
	head, _ := text.Head(response, 4*maxExcerpt)
	return text.Truncate(text.OneLine(strings.ToValidUTF8(head, "")), maxExcerpt)
}

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
			return errorBody{message: scalarText(inner)}
		}
		fields = nested
	}
	return errorBody{
		code: scalarText(fields["code"]), kind: scalarText(fields["type"]), param: scalarText(fields["param"]),
		message: cmp.Or(scalarText(fields["message"]), scalarText(fields["detail"])),
		window:  parseTokens(scalarText(fields["n_ctx"])), retryAfter: retryDelay(fields["details"]),
	}
}

// scalarText returns the text of a JSON string, "" for null, or the JSON of any other value, such as a
// numeric code.
func scalarText(value json.RawMessage) string {
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

// originalStatus returns the error's code if that is an HTTP status, and 200 otherwise.
func (p errorBody) originalStatus() int {
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
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}

// tooLongWords match the providers' messages about prompts that are too long; the group is the
// window.
var tooLongWords = compilePatterns(
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

func compilePatterns(patterns ...string) []*regexp.Regexp {
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
		limit, requested := parseTokens(m[1]), parseTokens(m[2])
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
			window = parseTokens(m[1])
		}
	}
	if !long {
		return 0, false
	}
	return max(window, p.window), true
}

// parseTokens parses a number in a message. It returns 0 if the number is implausible.
func parseTokens(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil || n > maxCount {
		return 0
	}
	return n
}
