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

// What a server may refuse of a request without refusing the request: the causes
// of its refusal.
var (
	errUsage    = errors.New("stream_options are refused")
	errStream   = errors.New("streaming is refused")
	errThoughts = errors.New("the model's thoughts are refused")
	errImages   = errors.New("images are refused")
)

// Words by which servers refuse them. A failure "upstream" is none of streaming,
// and reasoning_effort no thought.
var (
	usageWords   = regexp.MustCompile(`(?i)\bstream_options\b|\binclude_usage\b`)
	streamWords  = regexp.MustCompile(`(?i)\bstream(ing|ed)?\b`)
	thoughtWords = regexp.MustCompile(`(?i)\breasoning(_content|_details)?\b|\bthinking_blocks\b`)
	imageWords   = regexp.MustCompile(`(?i)\bimages?\b|image_url|\bvision\b|multi-?modal|mmproj|\bcontent[ -]types?\b` +
		`|content\b.{0,40}\b(a|valid|type|expected) string\b`)
)

// thoughts are the fields of a message that some servers demand back, and others
// refuse although they have sent them.
var thoughts = []string{"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"}

// parts are parts of a request that it can do without.
type parts struct{ stream, usage, thoughts, images bool }

// less are the parts without others.
func (p parts) less(q parts) parts {
	return parts{
		stream: p.stream && !q.stream, usage: p.usage && !q.usage,
		thoughts: p.thoughts && !q.thoughts, images: p.images && !q.images,
	}
}

// Refusals are what servers were seen to refuse of requests, by server and model.
// Clients that share them do not ask again. The zero value knows of none; it is
// safe for concurrent use.
type Refusals struct {
	mu   sync.Mutex
	seen map[server]parts
}

// server is where a model is.
type server struct{ url, model string }

// maxServers bounds what is remembered; what is forgotten is one refusal away.
const maxServers = 1000

func (r *Refusals) of(s server) parts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[s]
}

func (r *Refusals) add(s server, refused parts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.seen[s]
	if r.seen == nil || len(r.seen) >= maxServers {
		r.seen = map[server]parts{}
	}
	r.seen[s] = parts{
		stream: before.stream || refused.stream, usage: before.usage || refused.usage,
		thoughts: before.thoughts || refused.thoughts, images: before.images || refused.images,
	}
}

// asks are the parts to ask for.
func (c *Client) asks() parts {
	return c.wishes.less(c.refusals.of(c.server)).less(c.blind.of(c.server))
}

// learn remembers what a server has refused, and without which it has accepted
// the request. That it takes no images is the client's own knowledge: it may have
// been for the image.
func (c *Client) learn(refused parts) {
	if refused == (parts{}) {
		return
	}
	c.blind.add(c.server, parts{images: refused.images})
	refused.images = false
	c.refusals.add(c.server, refused)
}

// refusedBy is which of the parts asked for a refusal is about, if the request
// would be another one without.
func (p parts) refusedBy(err error, req llm.Request) parts {
	switch {
	case errors.Is(err, errUsage):
		return parts{usage: p.usage}
	case errors.Is(err, errStream):
		return parts{stream: p.stream, usage: p.stream && p.usage}
	case errors.Is(err, errThoughts):
		return parts{thoughts: p.thoughts && slices.ContainsFunc(req.Messages, thoughtful)}
	case errors.Is(err, errImages):
		return parts{images: p.images && slices.ContainsFunc(req.Messages, func(m llm.Message) bool { return len(m.Images) > 0 })}
	}
	return parts{}
}

func thoughtful(m llm.Message) bool {
	return slices.ContainsFunc(thoughts, func(name string) bool { return m.Extra[name] != nil })
}

// unthought are a message's own fields without the thoughts. What signs a call
// stays.
func unthought(extra map[string]json.RawMessage) map[string]json.RawMessage {
	left := map[string]json.RawMessage{}
	for name, value := range extra {
		if !slices.Contains(thoughts, name) {
			left[name] = value
		}
	}
	return left
}

// refusedPart is which part of the request a refusal is about, or nil. llama.cpp
// refuses images with 500.
func refusedPart(status int, p problem) error {
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
