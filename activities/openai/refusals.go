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

// partError is the cause of an error by which a server refuses an optional part of the request.
type partError parts

func (e partError) Error() string { return "an optional part of the request is refused" }

// partWords are the words of such errors in order of precedence. They match neither "upstream" nor
// reasoning_effort.
var partWords = []struct {
	refused parts
	words   *regexp.Regexp
}{
	{toolsPart, regexp.MustCompile(`(?i)\b(not|that) support (tools?|tool use|tool calling|function calling|functions)\b`)},
	{formPart, regexp.MustCompile(`(?i)\bresponse_format\b|\bjson_schema\b|\bstructured output|\bjson mode\b`)},
	{usagePart, regexp.MustCompile(`(?i)\bstream_options\b|\binclude_usage\b`)},
	{streamPart | usagePart, regexp.MustCompile(`(?i)\bstream(ing|ed)?\b`)},
	{thoughtsPart, regexp.MustCompile(`(?i)\breasoning(_content|_details)?\b|\bthinking_blocks\b`)},
	{imagesPart, regexp.MustCompile(`(?i)\bimages?\b|image_url|\bvision\b|multi-?modal|mmproj|\bcontent[ -]types?\b` +
		`|content\b.{0,40}\b(a|valid|type|expected) string\b`)},
}

// thoughts are the fields of a message that some servers require in the next request and others
// refuse.
var thoughts = []string{"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"}

// parts is a set of optional parts of a request.
type parts uint8

const (
	streamPart   parts = 1 << iota // the reply as a stream
	usagePart                      // usage in a stream
	thoughtsPart                   // the model's own thoughts
	imagesPart
	formPart  // the schema of a structured reply; without it a tool is used
	toolsPart // tools; without them the model can still write text
)

func (p parts) has(q parts) bool { return p&q != 0 }

// Refusals remembers which parts of requests servers refuse. Clients may share it. The zero value
// is empty and ready for use.
type Refusals struct {
	mu   sync.Mutex
	seen map[server]parts
}

type server struct{ url, model string }

// maxServers bounds the size of Refusals. A forgotten refusal costs one request.
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

// remember records the parts that had to be omitted before the server accepted a request.
func (c *Client) remember(refused parts) {
	if refused != 0 {
		c.images.add(c.server, refused&imagesPart)
		c.refusals.add(c.server, refused&^imagesPart)
	}
}

// refusedBy returns the part that err refuses, if the request contains it.
func (p parts) refusedBy(err error, req llm.Request) parts {
	refused, _ := errors.AsType[partError](err)
	part := p & parts(refused)
	if part == formPart && req.Form == nil || part == toolsPart && len(req.Tools) == 0 || part == thoughtsPart && !slices.ContainsFunc(req.Messages, thoughtful) ||
		part == imagesPart && !slices.ContainsFunc(req.Messages, func(m llm.Message) bool { return len(m.Images) > 0 }) {
		return 0
	}
	return part
}

func thoughtful(m llm.Message) bool {
	return slices.ContainsFunc(thoughts, func(name string) bool { return m.Extra[name] != nil })
}

// withoutThoughts returns a message's extra fields, such as signatures, except thoughts.
func withoutThoughts(extra map[string]json.RawMessage) map[string]json.RawMessage {
	left := map[string]json.RawMessage{}
	for name, value := range extra {
		if !slices.Contains(thoughts, name) {
			left[name] = value
		}
	}
	return left
}

// refusedPart returns a partError for the part that the server refused, or nil. llama.cpp refuses
// images with status 500.
func refusedPart(status int, p errorBody) error {
	relevant := []int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusNotImplemented, http.StatusInternalServerError,
	}
	if !slices.Contains(relevant, status) {
		return nil
	}
	for _, part := range partWords {
		if status == http.StatusInternalServerError && part.refused != imagesPart {
			continue
		}
		if part.words.MatchString(p.param + " " + p.message) {
			return partError(part.refused)
		}
	}
	return nil
}
