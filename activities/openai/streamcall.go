package openai

import (
	"bytes"
	"encoding/json"
)

// streamCall is a tool call of a stream, or a fragment of one.
type streamCall struct {
	Index        *int            `json:"index,omitempty"`
	ID           string          `json:"id,omitempty"`
	Type         string          `json:"type,omitempty"`
	Function     streamFunction  `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

// streamFunction is what is called. Arguments are a string, or, at some servers,
// the object itself.
type streamFunction struct {
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// call adds a fragment to the call it continues, or begins a new one.
func (s *stream) call(f streamCall) {
	for i := len(s.calls) - 1; i >= 0; i-- {
		open := s.calls[i]
		if f.Index != nil && open.Index != nil && *f.Index != *open.Index {
			continue
		}
		if !open.continuedBy(f) {
			break
		}
		open.extend(f)
		return
	}
	begun := streamCall{Index: f.Index}
	begun.extend(f)
	s.calls = append(s.calls, &begun)
}

// continuedBy reports whether a fragment under the same index, or under none,
// goes on with the call. Not all servers count the index up or give IDs: another
// ID, another name, or the name again after complete arguments is a new call.
func (c *streamCall) continuedBy(f streamCall) bool {
	switch {
	case f.ID != "" && c.ID != "" && f.ID != c.ID:
		return false
	case f.Function.Name != "" && c.Function.Name != "" && f.Function.Name != c.Function.Name:
		return false
	}
	again := f.ID == "" && f.Function.Name != "" && c.Function.Name != ""
	return !again || !c.complete()
}

// complete reports whether the arguments are an object from beginning to end.
func (c *streamCall) complete() bool {
	written := []byte(c.Function.Arguments)
	var text string
	if json.Unmarshal(written, &text) == nil {
		written = []byte(text)
	}
	return bytes.HasPrefix(bytes.TrimSpace(written), []byte("{")) && json.Valid(written)
}

func (c *streamCall) extend(f streamCall) {
	if f.ID != "" {
		c.ID = f.ID
	}
	if f.Type != "" {
		c.Type = f.Type
	}
	if f.Function.Name != "" {
		c.Function.Name = f.Function.Name
	}
	c.Function.Arguments = joined(c.Function.Arguments, f.Function.Arguments)
	c.ExtraContent = joined(c.ExtraContent, f.ExtraContent)
}
