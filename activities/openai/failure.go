package openai

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"conclave/engine/llm"
)

// maxExcerpt bounds what an error repeats of a response, in bytes.
const maxExcerpt = 500

// failure builds the error that names model and host, what happened and what helps.
func (c *Client) failure(kind llm.Kind, status int, what, remedy string, cause error) *llm.Error {
	said := fmt.Sprintf("model %s at %s: %s", c.model, c.host, what)
	if remedy != "" {
		said += "; " + remedy
	}
	return &llm.Error{Kind: kind, Status: status, Message: said, Err: c.masked(cause)}
}

// unusable is a response that arrived but is no reply.
func (c *Client) unusable(what string, cause error) *llm.Error {
	return c.failure(llm.BadReply, http.StatusOK, what, "", cause)
}

// unreached is a request that got no complete response. The cause is taken out
// of its url.Error, which repeats the whole URL.
func (c *Client) unreached(err error) *llm.Error {
	var (
		wrapped     *url.Error
		certificate *tls.CertificateVerificationError
	)
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.As(err, &certificate) {
		return c.failure(llm.BadRequest, 0, "its certificate is not trusted: "+c.excerpt(certificate.Err.Error()),
			"check base_url, or add the authority to the system's certificates", err)
	}
	return c.failure(llm.Network, 0, "no response: "+c.excerpt(err.Error()),
		"check that base_url is right and the server is running", err)
}

// refused classifies an error response.
func (c *Client) refused(status int, header http.Header, body []byte) *llm.Error {
	problem := readProblem(body)
	if status == http.StatusOK {
		// Proxies wrap the error of the server behind them; its status is then in the body.
		status = problem.status()
	}
	kind, window := classify(status, problem)
	what := fmt.Sprintf("%s (HTTP %d)", headline(kind), status)
	text := problem.message
	if text == "" {
		text = string(body)
	}
	if to, _, _ := strings.Cut(header.Get("Location"), "?"); to != "" && status >= 300 && status < 400 {
		text = "redirected to " + to
	}
	if text = c.excerpt(text); text != "" {
		what += ": " + text
	}
	var part error
	if kind == llm.BadRequest || kind == llm.Overloaded {
		problem.message = cmp.Or(problem.message, string(body[:min(len(body), 4*maxExcerpt)]))
		part = refusedPart(status, problem)
	}
	failed := c.failure(kind, status, what, c.remedy(kind), part)
	failed.Window = window
	if failed.Retryable() {
		failed.RetryAfter = cmp.Or(retryAfter(header, time.Now()), min(problem.retryAfter, longestAsked))
	}
	return failed
}

// classify maps status and error code to a kind, and to the model's window where
// the conversation is too long for it. Codes and words go before the status,
// because providers agree less on statuses.
func classify(status int, p problem) (llm.Kind, int) {
	window, long := p.tooLong(status)
	switch {
	case hasAny(p.code+" "+p.kind, "insufficient_quota", "billing"):
		return llm.AuthFailed, 0
	case hasAny(p.code+" "+p.kind, "content_filter", "content_policy"),
		status == http.StatusForbidden && hasAny(p.message, "moderation", "flagged"): // OpenRouter
		return llm.ContentPolicy, 0
	case long || status == http.StatusRequestEntityTooLarge:
		return llm.ContextTooLong, window
	case status == http.StatusInternalServerError && hasAny(p.message, "json.exception"):
		return llm.BadRequest, 0 // llama.cpp, of a body that it cannot read
	case status == http.StatusInternalServerError && hasAny(p.message, "error parsing tool call", "failed to parse input"):
		return llm.BadReply, 0 // Ollama and llama.cpp, of what the model wrote
	}
	return byStatus(status, p), 0
}

func byStatus(status int, p problem) llm.Kind {
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

// headline says in a few words what a kind means.
func headline(kind llm.Kind) string {
	switch kind {
	case llm.AuthFailed:
		return "the key or the account was refused"
	case llm.ContextTooLong:
		return "the conversation is too long for the model"
	case llm.RateLimited:
		return "rate limited"
	case llm.Overloaded:
		return "the server failed or is overloaded"
	case llm.ContentPolicy:
		return "the provider declined the content"
	case llm.BadReply:
		return "an error instead of a reply"
	default:
		return "the request was refused"
	}
}

func (c *Client) remedy(kind llm.Kind) string {
	switch kind {
	case llm.AuthFailed:
		if c.key == "" {
			return "no key was sent: name the variable that holds it in api_key_env"
		}
		return "check the variable named by api_key_env, and the account behind it"
	case llm.ContextTooLong:
		return "use a model with a longer context, or a shorter query"
	case llm.RateLimited:
		return "wait, or raise the provider's limit"
	case llm.Overloaded:
		return "wait, or look at the provider's status"
	case llm.BadRequest:
		return "check model, base_url and params"
	case llm.ContentPolicy:
		return "rephrase the query"
	default:
		return ""
	}
}

func (c *Client) withoutKey(s string) string {
	if c.key == "" {
		return s
	}
	return strings.ReplaceAll(s, c.key, "[key]")
}

// masked is the cause of a failure, which is kept where failures are, without the
// key: errors of parsing and of connections quote what was sent.
func (c *Client) masked(cause error) error {
	if cause == nil || c.key == "" || !strings.Contains(cause.Error(), c.key) {
		return cause
	}
	return &maskedError{text: c.withoutKey(cause.Error()), cause: cause}
}

// maskedError is its cause to errors.Is, but cannot be unwrapped.
type maskedError struct {
	text  string
	cause error
}

func (e *maskedError) Error() string { return e.text }

func (e *maskedError) Is(target error) bool { return errors.Is(e.cause, target) }

// excerpt is the beginning of what a provider sent, on one line and without the
// key, which some servers repeat.
func (c *Client) excerpt(sent string) string {
	sent = c.withoutKey(sent)
	s := strings.Join(strings.Fields(strings.ToValidUTF8(sent[:min(len(sent), 4*maxExcerpt)], "")), " ")
	if len(s) <= maxExcerpt {
		return s
	}
	cut := maxExcerpt
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
