package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"conclave/engine/llm"
)

// streamCall is a tool call in a stream, or a fragment of one.
type streamCall struct {
	Index        *int            `json:"index,omitempty"`
	ID           string          `json:"id,omitempty"`
	Type         string          `json:"type,omitempty"`
	Function     streamFunction  `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

// streamFunction is the function of a streamCall. Arguments is a string or, from some servers, the
// object itself.
type streamFunction struct {
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// call adds a fragment to the call that it continues, or starts a new call.
func (s *stream) call(f streamCall) {
	open := s.continued(f)
	if open == nil {
		open = &streamCall{Index: f.Index}
		s.calls = append(s.calls, open)
	}
	open.extend(f)
}

// continued returns the call that a fragment continues, or nil if it starts a new one. A fragment
// without a name continues the call with its ID; any other may continue the latest call with its
// index, or with no index.
func (s *stream) continued(f streamCall) *streamCall {
	var latest *streamCall
	for _, open := range slices.Backward(s.calls) {
		if f.Index != nil && open.Index != nil && *f.Index != *open.Index {
			continue
		}
		if latest == nil {
			latest = open
		}
		if f.Function.Name == "" && f.ID != "" && f.ID == open.ID {
			return open
		}
	}
	if latest == nil || !latest.continuedBy(f) {
		return nil
	}
	return latest
}

// continuedBy reports whether a fragment with a matching index continues the call. It starts a new
// call if it has another name, a name and another ID, or a name after complete arguments.
func (c *streamCall) continuedBy(f streamCall) bool {
	other := f.ID != "" && c.ID != "" && f.ID != c.ID
	switch named := f.Function.Name != ""; {
	case !named:
		return !other || empty(f.Function.Arguments) || !c.complete()
	case other, c.Function.Name != "" && f.Function.Name != c.Function.Name:
		return false
	}
	again := f.ID == "" && c.Function.Name != ""
	return !again || !c.complete()
}

// complete reports whether the arguments are a complete JSON object.
func (c *streamCall) complete() bool {
	if !bytes.HasSuffix(bytes.TrimRight(c.Function.Arguments, "\" \t\r\n\\trn"), []byte("}")) {
		return false // avoids parsing a long text again for every fragment
	}
	written := c.arguments()
	return strings.HasPrefix(strings.TrimSpace(written), "{") && json.Valid([]byte(written))
}

// arguments returns the text of the arguments.
func (c *streamCall) arguments() string {
	var text string
	if json.Unmarshal(c.Function.Arguments, &text) != nil {
		return string(c.Function.Arguments)
	}
	return text
}

func (c *streamCall) extend(f streamCall) {
	if c.ID == "" {
		c.ID = f.ID
	}
	if f.Type != "" {
		c.Type = f.Type
	}
	if f.Function.Name != "" {
		c.Function.Name = f.Function.Name
	}
	if !f.complete() || !c.complete() || llm.Compact(f.arguments()) != llm.Compact(c.arguments()) { // some gateways repeat a whole call
		c.Function.Arguments = joined(c.Function.Arguments, f.Function.Arguments)
	}
	c.ExtraContent = joined(c.ExtraContent, f.ExtraContent)
}
