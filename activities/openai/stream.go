package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"

	"conclave/engine/llm"
)

type event struct{ name, data string }

// events yields the events of a stream as they arrive. Its last value may be an error.
func events(r *bufio.Reader) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		var next event
		var data []string
		for {
			line, err := r.ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(event{}, err)
				return
			}
			next.field(strings.TrimRight(line, "\r\n"), &data)
			if strings.TrimRight(line, "\r\n") == "" || err != nil {
				if next.data = strings.Join(data, "\n"); len(data) > 0 && !yield(next, nil) {
					return
				}
				next, data = event{}, nil
			}
			if err != nil {
				return
			}
		}
	}
}

// field adds a line to an event. llama.cpp's error lines count as data; unknown fields are skipped.
func (e *event) field(line string, data *[]string) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "data":
		*data = append(*data, value)
	case "event":
		e.name = value
	case "error":
		e.name, *data = "error", append(*data, value)
	}
}

// isStream reports whether the body is an event stream. Servers may send one unrequested and
// without its media type.
func isStream(header http.Header, body *bufio.Reader) (bool, error) {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	for {
		first, err := body.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return media == "text/event-stream", nil
		case err != nil:
			return false, err
		case strings.IndexByte(" \t\r\n", first) >= 0:
			continue
		}
		if err := body.UnreadByte(); err != nil {
			return false, err
		}
		if first == '{' || first == '[' {
			return false, nil
		}
		if media == "text/event-stream" || first == ':' {
			return true, nil
		}
		start, _ := body.Peek(len("data:"))
		return bytes.Equal(start, []byte("data:")) || bytes.Equal(start, []byte("event")), nil
	}
}

func (c *Client) streamedReply(header http.Header, body *bufio.Reader, s stream, w *watchdog, t teller) (llm.Reply, error) {
	for e, err := range events(body) {
		if err != nil && s.choice.FinishReason == "" {
			return llm.Reply{Usage: s.spent()}, err
		}
		if err != nil {
			break // the reply is complete, only the end of the stream is missing
		}
		if !s.add(e) {
			return llm.Reply{Usage: s.spent()}, c.unusable("the response has a chunk that is not JSON: "+c.excerpt(e.data), nil)
		}
		if s.problem != nil {
			return llm.Reply{Usage: s.spent()}, c.refused(http.StatusOK, header, s.problem)
		}
		if s.done || s.overlong() {
			break
		}
		w.event(s.idleLimit())
		t.hear(&s, time.Now())
	}
	if !s.done && !s.overlong() && s.choice.FinishReason == "" {
		return llm.Reply{Usage: s.spent()}, c.failure(llm.Network, 0, "the response ended early, without finish_reason and [DONE]", "", nil)
	}
	folded, err := json.Marshal(s.completion())
	if err != nil {
		return llm.Reply{Usage: s.spent()}, c.unusable("the stream cannot be assembled", err)
	}
	reply, err := c.completion(header, folded)
	return reply, c.within(&s, err)
}

// stream is the content of a stream so far. It ignores all choices except the first.
type stream struct {
	choice streamChoice
	calls  []*streamCall
	done   bool
	size   int // bytes of its texts
	most   int // limit of size; 0 for none

	started    bool // a chunk of the choice has arrived
	hasContent bool // a chunk with content has arrived

	usage   json.RawMessage // the newest usage; servers send running totals, or one usage at the end
	problem []byte          // an error object instead of a chunk
}

// chunk is one event of a stream or, from some servers, the whole completion.
type chunk struct {
	Choices []struct {
		Index        int         `json:"index"`
		Delta        streamDelta `json:"delta"`
		Message      streamDelta `json:"message"`
		FinishReason string      `json:"finish_reason"`

		Usage json.RawMessage `json:"usage"` // Moonshot states the usage here
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	XGroq struct {
		Usage json.RawMessage `json:"usage"`
	} `json:"x_groq"`
	Error  json.RawMessage `json:"error"`
	Object string          `json:"object"`
}

// streamDelta is a fragment of a message, by field name.
type streamDelta map[string]json.RawMessage

type streamChoice struct {
	FinishReason string      `json:"finish_reason,omitempty"`
	Message      streamDelta `json:"message"`
}

// add merges the next event and reports whether it was valid.
func (s *stream) add(e event) bool {
	if s.done = strings.TrimSpace(e.data) == "[DONE]"; s.done {
		return true
	}
	var c chunk
	if json.Unmarshal([]byte(e.data), &c) != nil {
		return false
	}
	if e.name == "error" || c.Object == "error" || !empty(c.Error) {
		s.problem = []byte(e.data)
		return true
	}
	s.count(c.Usage)
	s.count(c.XGroq.Usage)
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		s.count(choice.Usage)
		s.started = true
		if choice.FinishReason != "" {
			s.choice.FinishReason = choice.FinishReason
		}
		whole := choice.Message
		if s.hasContent {
			whole = nil // some servers repeat the streamed message at the end
		}
		if !s.merge(choice.Delta) || !s.merge(whole) {
			return false
		}
	}
	return true
}

func (s *stream) count(usage json.RawMessage) {
	if present(usage) {
		s.usage = usage
	}
}

// overlong reports whether the reply is longer than was asked for.
func (s *stream) overlong() bool { return s.most > 0 && s.size > s.most }

// textSize returns the bytes of a field without the frames of its parts, because some servers
// frame every token of their thoughts.
func textSize(field json.RawMessage) int {
	const frame = 160
	return max(0, len(field)-frame*bytes.Count(field, []byte(`"type"`)))
}

// idleLimit returns the time limit for the next byte, or 0 if only silentTimeout applies.
func (s *stream) idleLimit() time.Duration {
	switch {
	case s.choice.FinishReason != "":
		return closingTimeout
	case s.hasContent:
		return idleTimeout
	default:
		return 0
	}
}

func (s *stream) merge(d streamDelta) bool {
	if s.choice.Message == nil {
		s.choice.Message = streamDelta{}
	}
	for name, value := range d {
		s.hasContent = s.hasContent || name != "role" && !empty(value)
		if name != "tool_calls" {
			s.size += textSize(value)
			s.choice.Message[name] = joined(s.choice.Message[name], value)
			continue
		}
		var fragments []streamCall
		if json.Unmarshal(value, &fragments) != nil {
			return false
		}
		for _, f := range fragments {
			s.size += len(f.Function.Arguments) + len(f.ExtraContent)
			s.call(f)
		}
	}
	return true
}

// completion returns the body that the server would have sent without streaming.
func (s *stream) completion() map[string]any {
	out := map[string]any{}
	if s.started {
		// Servers send the role once or in every chunk, where joined would repeat it.
		s.choice.Message["role"] = json.RawMessage(`"assistant"`)
		if len(s.calls) > 0 {
			s.choice.Message["tool_calls"], _ = json.Marshal(s.calls)
		}
		out["choices"] = []streamChoice{s.choice}
	}
	if s.usage != nil {
		out["usage"] = s.usage
	}
	return out
}

// spent returns the usage of an incomplete stream.
func (s *stream) spent() llm.Usage {
	var u sdk.CompletionUsage
	switch {
	case !s.started && s.usage == nil:
		return llm.Usage{}
	case json.Unmarshal(s.usage, &u) != nil: // the usage is missing or malformed
		return llm.Usage{ModelCalls: 1}
	}
	return usage(u)
}

func present(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// empty reports whether a JSON value has no content.
func empty(value json.RawMessage) bool {
	if len(value) > 2 && (value[0] == '[' || value[0] == '{') {
		return len(bytes.TrimSpace(value[1:len(value)-1])) == 0
	}
	return !present(value) || string(value) == `""` || string(value) == "[]" || string(value) == "{}"
}

// joined appends a fragment of a field to the fragments before it. Text is appended to text, parts
// to parts, and text to parts as a new part; any other value that is not empty replaces the one
// before. It edits the JSON without decoding it, for speed.
func joined(before, fragment json.RawMessage) json.RawMessage {
	if !present(before) {
		return fragment
	}
	if !present(fragment) {
		return before
	}
	switch a, b := before[len(before)-1], fragment[0]; {
	case empty(before):
		return fragment
	case empty(fragment):
		return before
	case a == '"' && b == '[':
		return joined(part(before), fragment)
	case a == ']' && b == '"':
		return joined(before, part(fragment))
	case a == '"' && b == '"':
		return append(before[:len(before)-1], fragment[1:]...)
	case a == ']' && b == '[':
		return append(append(before[:len(before)-1], ','), fragment[1:]...)
	}
	return fragment
}

// part converts text to a list with one part; some servers send text in this form between thoughts.
func part(text json.RawMessage) json.RawMessage {
	return json.RawMessage(`[{"type":"text","text":` + string(text) + `}]`)
}
