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

// readEvents yields the events of a stream as they arrive. Its last value may be an error.
func readEvents(r *bufio.Reader) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		var next event
		var data []string
		for {
			line, err := r.ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(event{}, err)
				return
			}
			next.addField(strings.TrimRight(line, "\r\n"), &data)
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

// addField adds a line to an event. llama.cpp's error lines count as data; unknown fields are skipped.
func (e *event) addField(line string, data *[]string) {
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
	for e, err := range readEvents(body) {
		if err != nil && s.choice.FinishReason == "" {
			return llm.Reply{Usage: s.spentUsage()}, err
		}
		if err != nil {
			break // the reply is complete, only the end of the stream is missing
		}
		if !s.addEvent(e) {
			return llm.Reply{Usage: s.spentUsage()}, c.unusableError("the response has a chunk that is not JSON: "+c.cleanExcerpt(e.data), nil)
		}
		if s.problem != nil {
			return llm.Reply{Usage: s.spentUsage()}, c.refusedError(http.StatusOK, header, s.problem)
		}
		if s.done || s.isOverlong() {
			break
		}
		w.noteEvent(s.idleLimit())
		t.reportText(&s, time.Now())
	}
	if !s.done && !s.isOverlong() && s.choice.FinishReason == "" {
		return llm.Reply{Usage: s.spentUsage()}, c.newError(llm.Network, 0, "the response ended early, without finish_reason and [DONE]", "", nil)
	}
	folded, err := json.Marshal(s.foldCompletion())
	if err != nil {
		return llm.Reply{Usage: s.spentUsage()}, c.unusableError("the stream cannot be assembled", err)
	}
	reply, err := c.parseCompletion(header, folded)
	return reply, c.checkLength(&s, err)
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

func (s *stream) addEvent(e event) bool {
	if s.done = strings.TrimSpace(e.data) == "[DONE]"; s.done {
		return true
	}
	var c chunk
	if json.Unmarshal([]byte(e.data), &c) != nil {
		return false
	}
	if e.name == "error" || c.Object == "error" || !isEmpty(c.Error) {
		s.problem = []byte(e.data)
		return true
	}
	s.noteUsage(c.Usage)
	s.noteUsage(c.XGroq.Usage)
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		s.noteUsage(choice.Usage)
		s.started = true
		if choice.FinishReason != "" {
			s.choice.FinishReason = choice.FinishReason
		}
		whole := choice.Message
		if s.hasContent {
			whole = nil // some servers repeat the streamed message at the end
		}
		if !s.mergeDelta(choice.Delta) || !s.mergeDelta(whole) {
			return false
		}
	}
	return true
}

func (s *stream) noteUsage(usage json.RawMessage) {
	if isPresent(usage) {
		s.usage = usage
	}
}

func (s *stream) isOverlong() bool { return s.most > 0 && s.size > s.most }

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

func (s *stream) mergeDelta(d streamDelta) bool {
	if s.choice.Message == nil {
		s.choice.Message = streamDelta{}
	}
	for name, value := range d {
		s.hasContent = s.hasContent || name != "role" && !isEmpty(value)
		if name != "tool_calls" {
			s.size += textSize(value)
			s.choice.Message[name] = joinFragments(s.choice.Message[name], value)
			continue
		}
		var fragments []streamCall
		if json.Unmarshal(value, &fragments) != nil {
			return false
		}
		for _, f := range fragments {
			s.size += len(f.Function.Arguments) + len(f.ExtraContent)
			s.addCall(f)
		}
	}
	return true
}

func (s *stream) foldCompletion() map[string]any {
	out := map[string]any{}
	if s.started {
		// Servers send the role once or in every chunk, where joinFragments would repeat it.
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

func (s *stream) spentUsage() llm.Usage {
	var u sdk.CompletionUsage
	switch {
	case !s.started && s.usage == nil:
		return llm.Usage{}
	case json.Unmarshal(s.usage, &u) != nil: // the usage is missing or malformed
		return llm.Usage{ModelCalls: 1}
	}
	return convertUsage(u)
}

func isPresent(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

func isEmpty(value json.RawMessage) bool {
	if len(value) > 2 && (value[0] == '[' || value[0] == '{') {
		return len(bytes.TrimSpace(value[1:len(value)-1])) == 0
	}
	return !isPresent(value) || string(value) == `""` || string(value) == "[]" || string(value) == "{}"
}

// joinFragments appends a fragment of a field to the fragments before it. Text is appended to text, parts
// to parts, and text to parts as a new part; any other value that is not empty replaces the one
// before. It edits the JSON without decoding it, for speed.
func joinFragments(before, fragment json.RawMessage) json.RawMessage {
	if !isPresent(before) {
		return fragment
	}
	if !isPresent(fragment) {
		return before
	}
	switch a, b := before[len(before)-1], fragment[0]; {
	case isEmpty(before):
		return fragment
	case isEmpty(fragment):
		return before
	case a == '"' && b == '[':
		return joinFragments(textPart(before), fragment)
	case a == ']' && b == '"':
		return joinFragments(before, textPart(fragment))
	case a == '"' && b == '"':
		return append(before[:len(before)-1], fragment[1:]...)
	case a == ']' && b == '[':
		return append(append(before[:len(before)-1], ','), fragment[1:]...)
	}
	return fragment
}

// textPart converts text to a list with one part; some servers send text in this form between thoughts.
func textPart(text json.RawMessage) json.RawMessage {
	return json.RawMessage(`[{"type":"text","text":` + string(text) + `}]`)
}
