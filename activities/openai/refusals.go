package openai

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"conclave/engine/llm"
)

// Causes of a refusal that is about an optional part of the request.
var (
	errUsage    = errors.New("stream_options are refused")
	errStream   = errors.New("streaming is refused")
	errThoughts = errors.New("the model's thoughts are refused")
	errImages   = errors.New("images are refused")
)

// Words of such refusals. They must not match "upstream" and reasoning_effort.
var (
	usageWords   = regexp.MustCompile(`(?i)\bstream_options\b|\binclude_usage\b`)
	streamWords  = regexp.MustCompile(`(?i)\bstream(ing|ed)?\b`)
	thoughtWords = regexp.MustCompile(`(?i)\breasoning(_content|_details)?\b|\bthinking_blocks\b`)
	imageWords   = regexp.MustCompile(`(?i)\bimages?\b|image_url|\bvision\b|multi-?modal|mmproj|\bcontent[ -]types?\b` +
		`|content\b.{0,40}\b(a|valid|type|expected) string\b`)
)

// thoughts lists the fields of a message that some servers require back and others
// refuse although they sent them.
var thoughts = []string{"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"}

// parts is a set of optional parts of a request.
type parts uint8

const (
	streamPart   parts = 1 << iota // the reply as a stream
	usagePart                      // usage in a stream
	thoughtsPart                   // the model's own thoughts
	imagesPart
)

func (p parts) has(q parts) bool { return p&q != 0 }

// Refusals remembers the parts of requests that servers refuse, by server and
// model. Clients that share it do not send them again. The zero value is empty and
// safe for concurrent use.
type Refusals struct {
	mu   sync.Mutex
	seen map[server]parts
}

// server identifies a model at a server.
type server struct{ url, model string }

// maxServers bounds the memory; a forgotten refusal costs one request.
const maxServers = 1000

func (r *Refusals) of(s server) parts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[s]
}

func (r *Refusals) add(s server, refused parts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.seen[s] | refused
	if r.seen == nil || len(r.seen) >= maxServers {
		r.seen = map[server]parts{}
	}
	r.seen[s] = all
}

// acceptedParts returns the wanted parts that the server is not known to refuse.
func (c *Client) acceptedParts() parts {
	return c.wanted &^ c.refusals.of(c.server) &^ c.images.of(c.server)
}

// remember records the parts without which the server has accepted a request.
func (c *Client) remember(refused parts) {
	if refused != 0 {
		c.images.add(c.server, refused&imagesPart)
		c.refusals.add(c.server, refused&^imagesPart)
	}
}

// refusedBy returns the part that a refusal is about, if the request contains it.
func (p parts) refusedBy(err error, req llm.Request) parts {
	switch {
	case errors.Is(err, errUsage):
		return p & usagePart
	case errors.Is(err, errStream):
		return p & (streamPart | usagePart)
	case errors.Is(err, errThoughts) && slices.ContainsFunc(req.Messages, thoughtful):
		return p & thoughtsPart
	case errors.Is(err, errImages) && slices.ContainsFunc(req.Messages, func(m llm.Message) bool { return len(m.Images) > 0 }):
		return p & imagesPart
	}
	return 0
}

func thoughtful(m llm.Message) bool {
	return slices.ContainsFunc(thoughts, func(name string) bool { return m.Extra[name] != nil })
}

// withoutThoughts returns a message's extra fields without its thoughts. Signatures
// of calls stay.
func withoutThoughts(extra map[string]json.RawMessage) map[string]json.RawMessage {
	left := map[string]json.RawMessage{}
	for name, value := range extra {
		if !slices.Contains(thoughts, name) {
			left[name] = value
		}
	}
	return left
}

// refusedPart returns the cause for the part that a refusal is about, or nil.
// llama.cpp refuses images with 500.
func refusedPart(status int, p errorBody) error {
	words := p.param + " " + p.message
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusNotImplemented:
	case http.StatusInternalServerError:
		if imageWords.MatchString(words) {
			return errImages
		}
		return nil
	default:
		return nil
	}
	switch {
	case usageWords.MatchString(words):
		return errUsage
	case streamWords.MatchString(words):
		return errStream
	case thoughtWords.MatchString(words):
		return errThoughts
	case imageWords.MatchString(words):
		return errImages
	}
	return nil
}
