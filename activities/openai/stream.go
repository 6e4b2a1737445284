package openai

import (
	"bytes"
	"encoding/json"
	"iter"
	"mime"
	"net/http"
	"strings"

	"conclave/engine/llm"
)

// streamed reports whether the body is a stream of server-sent events. Some
// servers stream whether asked to or not, and not all of them say so.
func streamed(header http.Header, body []byte) bool {
	body = bytes.TrimSpace(body)
	if bytes.HasPrefix(body, []byte("{")) {
		return false
	}
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return media == "text/event-stream" || bytes.HasPrefix(body, []byte("data:")) || bytes.HasPrefix(body, []byte("event:"))
}

// streamedReply reads a stream as the completion that its chunks add up to.
func (c *Client) streamedReply(header http.Header, body []byte) (llm.Reply, error) {
	var s stream
	for event := range events(body) {
		if s.done {
			break
		}
		if !s.add(event) {
			return llm.Reply{Usage: s.spent()}, c.unusable("the response has a chunk that is not JSON: "+c.excerpt(event.data), nil)
		}
		if s.problem != nil {
			return llm.Reply{}, c.refused(http.StatusOK, header, s.problem)
		}
	}
	if !s.done && s.choice.FinishReason == "" {
		return llm.Reply{Usage: s.spent()}, c.unusable("the response ended early, without finish_reason and [DONE]", nil)
	}
	folded, err := json.Marshal(s.completion())
	if err != nil {
		return llm.Reply{Usage: s.spent()}, c.unusable("the stream cannot be put together", err)
	}
	return c.completion(header, folded)
}

// event is one server-sent event.
type event struct{ name, data string }

// events yields the events of a body. The last one needs no blank line after it.
func events(body []byte) iter.Seq[event] {
	return func(yield func(event) bool) {
		var name string
		var data []string
		for line := range strings.Lines(string(body) + "\n\n") {
			line = strings.TrimRight(line, "\r\n")
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case field == "data":
				data = append(data, value)
			case field == "event":
				name = value
			case line == "":
				if len(data) > 0 && !yield(event{name, strings.Join(data, "\n")}) {
					return
				}
				name, data = "", nil
			}
		}
	}
}

// stream is what a stream has said so far. Only its first choice counts: one
// was asked for.
type stream struct {
	choice  streamChoice
	calls   []*streamCall
	begun   bool // a chunk of the choice has come
	done    bool
	usage   json.RawMessage // the last: counts run, or come once, at the end
	problem []byte          // an error object instead of a chunk
}

// chunk is one event of a stream, or, at some servers, the whole completion.
type chunk struct {
	Choices []struct {
		Index        int         `json:"index"`
		Delta        streamDelta `json:"delta"`
		Message      streamDelta `json:"message"`
		FinishReason string      `json:"finish_reason"`
	} `json:"choices"`
	Usage  json.RawMessage `json:"usage"`
	Error  json.RawMessage `json:"error"`
	Object string          `json:"object"`
}

// streamDelta is a fragment of a message: its fields as they came.
type streamDelta map[string]json.RawMessage

// streamChoice is the choice of the folded completion.
type streamChoice struct {
	FinishReason string      `json:"finish_reason,omitempty"`
	Message      streamDelta `json:"message"`
}

// add takes the next event and reports whether it could be read.
func (s *stream) add(e event) bool {
	if s.done = strings.TrimSpace(e.data) == "[DONE]"; s.done {
		return true
	}
	var c chunk
	if json.Unmarshal([]byte(e.data), &c) != nil {
		return false
	}
	if e.name == "error" || c.Object == "error" || given(c.Error) {
		s.problem = []byte(e.data)
		return true
	}
	if given(c.Usage) {
		s.usage = c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		s.begun = true
		if choice.FinishReason != "" {
			s.choice.FinishReason = choice.FinishReason
		}
		if !s.merge(choice.Delta) || !s.merge(choice.Message) {
			return false
		}
	}
	return true
}

func (s *stream) merge(d streamDelta) bool {
	if s.choice.Message == nil {
		s.choice.Message = streamDelta{}
	}
	for name, value := range d {
		if name != "tool_calls" {
			s.choice.Message[name] = joined(s.choice.Message[name], value)
			continue
		}
		var fragments []streamCall
		if json.Unmarshal(value, &fragments) != nil {
			return false
		}
		for _, f := range fragments {
			s.call(f)
		}
	}
	return true
}

// completion is the body that a server which does not stream would have sent.
func (s *stream) completion() map[string]any {
	out := map[string]any{}
	if s.begun {
		// The role comes once, or in every chunk.
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

// spent is the usage of a stream that came to no completion.
func (s *stream) spent() llm.Usage {
	if !s.begun && s.usage == nil {
		return llm.Usage{}
	}
	return readUsage(s.usage)
}

// given reports whether a field is there and not null.
func given(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// joined appends a fragment of a field to what came before: text to text, parts
// to parts. Anything else replaces it, except that null says nothing. It works on
// the JSON as it is, and in place: a long reply comes in very many fragments.
func joined(before, fragment json.RawMessage) json.RawMessage {
	if !given(before) {
		return fragment
	}
	if !given(fragment) {
		return before
	}
	switch a, b := before[len(before)-1], fragment[0]; {
	case a == '"' && b == '"':
		return append(before[:len(before)-1], fragment[1:]...)
	case a == ']' && b == '[':
		if len(bytes.TrimSpace(before[1:len(before)-1])) == 0 {
			return fragment
		}
		if len(bytes.TrimSpace(fragment[1:len(fragment)-1])) == 0 {
			return before
		}
		return append(append(before[:len(before)-1], ','), fragment[1:]...)
	}
	return fragment
}
