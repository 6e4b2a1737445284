package openai

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"conclave/engine/llm"
	"conclave/engine/redact"
	"conclave/engine/text"
)

// maxExcerpt bounds the part of a response in an error, in bytes.
const maxExcerpt = 500

// failure builds an error that names the model, the host, the event and the remedy.
func (c *Client) failure(kind llm.Kind, status int, event, remedy string, cause error) *llm.Error {
	if remedy != "" {
		event += "; " + remedy
	}
	return &llm.Error{
		Kind: kind, Status: status, Detail: event, Err: c.redactor.Error(cause),
		Message: fmt.Sprintf("model %s at %s: %s", c.model, c.host, event),
	}
}

// unusable returns the error for a response that is not a valid reply.
func (c *Client) unusable(reason string, cause error) *llm.Error {
	return c.failure(llm.BadReply, http.StatusOK, reason, "", cause)
}

// within returns the error of a reply that is longer than was asked for, or else err.
func (c *Client) within(s *stream, err error) error {
	if !s.overlong() {
		return err
	}
	failed := c.unusable("the reply is longer than "+text.Size(int64(s.most)), nil)
	failed.Cut, failed.Overlong = true, true
	return failed
}

// unreached returns the error for a request without a complete response; begun is true if the
// response had begun. The message omits the URL that a url.Error adds.
func (c *Client) unreached(err error, begun bool) *llm.Error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return c.failure(llm.BadRequest, 0, "its certificate is not trusted: "+c.excerpt(certificate.Err.Error()),
			"check base_url, or add the authority to the system's certificates", err)
	}
	if begun {
		return c.failure(llm.Network, 0, "the response broke off: "+c.excerpt(withoutSource(err)), "", err)
	}
	return c.failure(llm.Network, 0, "no response: "+c.excerpt(withoutSource(err)),
		"check that base_url is right and the server is running", err)
}

// withoutSource returns the text of an error without the local address, which differs for each
// connection.
func withoutSource(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil {
		return strings.Replace(err.Error(), op.Source.String()+"->", "", 1)
	}
	return err.Error()
}

func (c *Client) refused(status int, header http.Header, body []byte) *llm.Error {
	parsed := parseErrorBody(body)
	if parsed.ofTeam() {
		return c.teamFailed(status, parsed.message)
	}
	if status == http.StatusOK {
		// A proxy may report its server's error with status 200; the body has the original status.
		status = parsed.status()
	}
	kind, window := classify(status, parsed)
	event := fmt.Sprintf("%s (HTTP %d)", phrases[kind].headline, status)
	message := cmp.Or(parsed.message, string(body))
	if to, _, _ := strings.Cut(header.Get("Location"), "?"); to != "" && status >= 300 && status < 400 {
		message = "redirected to " + to
	}
	if message = c.excerpt(message); message != "" {
		event += ": " + message
	}
	var part error
	if kind == llm.BadRequest || kind == llm.Overloaded {
		parsed.message = cmp.Or(parsed.message, string(body[:min(len(body), 4*maxExcerpt)]))
		part = refusedPart(status, parsed)
	}
	remedy := phrases[kind].remedy
	if kind == llm.AuthFailed && c.key == "" {
		remedy = "no key was sent: name the variable that holds it in api_key_env"
	}
	failed := c.failure(kind, status, event, remedy, part)
	failed.Window = window
	if failed.Retryable() {
		failed.RetryAfter = cmp.Or(retryAfter(header, time.Now()), min(parsed.retryAfter, longestAsked))
	}
	return failed
}

// ofTeam reports whether `conclave serve` returned the error because its team has no answer. A
// retry would start the team again from the beginning.
func (p errorBody) ofTeam() bool {
	return strings.HasPrefix(p.code, "session_") || p.code == "depth_exceeded"
}

// teamFailed returns the error for a team without an answer. If teams ask each other, it keeps only
// the cause from the last one, and drops the command that would continue the session.
func (c *Client) teamFailed(status int, message string) *llm.Error {
	const event = "the team has no answer: "
	if last := strings.LastIndex(message, event); last >= 0 {
		message = message[last+len(event):]
	}
	message, _, _ = strings.Cut(message, "; `conclave retry ")
	return c.failure(llm.BadRequest, status, event+c.excerpt(message), "", nil)
}

// classify returns the kind of an error and, if the conversation is too long, the model's window.
// Codes and words take precedence over the status, which providers use less consistently.
func classify(status int, p errorBody) (llm.Kind, int) {
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

// redactor returns a redactor for the key, which some servers repeat in errors.
func redactor(key string) *redact.Redactor {
	if key == "" {
		return nil
	}
	return redact.New([]string{key})
}

// excerpt returns the beginning of a response on one line, with the key removed.
func (c *Client) excerpt(response string) string {
	response = c.redactor.String(response)
	head, _ := text.Head(response, 4*maxExcerpt)
	return text.Truncate(text.OneLine(strings.ToValidUTF8(head, "")), maxExcerpt)
}
