package openai

import (
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
	errUsage  = errors.New("stream_options are refused")
	errStream = errors.New("streaming is refused")
	errImages = errors.New("images are refused")
)

// Words by which servers refuse them. A failure "upstream" is none of streaming.
var (
	usageWords  = regexp.MustCompile(`(?i)\bstream_options\b|\binclude_usage\b`)
	streamWords = regexp.MustCompile(`(?i)\bstream(ing|ed)?\b`)
	imageWords  = regexp.MustCompile(`(?i)\bimages?\b|image_url|\bvision\b|multi-?modal|mmproj|\bcontent[ -]types?\b` +
		`|content\b.{0,40}\b(a|valid|type|expected) string\b`)
)

// asking is what requests ask for beside the reply.
type asking struct{ stream, usage, images bool }

// manner is how a client asks, which it learns from what its server refuses.
type manner struct {
	mu  sync.Mutex
	now asking
}

func (m *manner) current() asking {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// give gives up what is not in less, for good: other calls of the client may have
// given up other things meanwhile.
func (m *manner) give(less asking) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.stream = m.now.stream && less.stream
	m.now.usage = m.now.usage && less.usage
	m.now.images = m.now.images && less.images
}

// without is what is left to ask for after a refusal, and whether the request
// would be another one then.
func (a asking) without(err error, req llm.Request) (asking, bool) {
	before := a
	switch {
	case errors.Is(err, errUsage):
		a.usage = false
	case errors.Is(err, errStream):
		a.stream, a.usage = false, false
	case errors.Is(err, errImages):
		a.images = a.images && !slices.ContainsFunc(req.Messages, func(m llm.Message) bool { return len(m.Images) > 0 })
	}
	return a, a != before
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
	case imageWords.MatchString(words):
		return errImages
	}
	return nil
}
