package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"time"
)

// Role is the author of a Message.
type Role string

// The four roles of the Chat Completions API.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one entry of a conversation. The API requires that every tool call of an
// assistant message is answered by exactly one ToolRole message with its ID before the
// next assistant message.
type Message struct {
	Role       Role       `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`

	// Images are shown after Content. Only User messages have them, because the API accepts
	// none in a tool's result.
	Images []Image `json:"images,omitempty"`

	// Extra has provider fields to send back unchanged with the message, such as
	// reasoning_content.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

// ToolCall is a model's request to run one tool. Arguments is the model's own text,
// untrusted and possibly not JSON.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`

	// Extra has provider fields to send back unchanged with the call, such as Gemini's
	// extra_content with its thought signature.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

// Image is a picture, such as a tool's screenshot.
type Image struct {
	MediaType string `json:"media_type"` // image/png, image/jpeg, image/gif or image/webp
	Data      []byte `json:"data"`
}

// Tool describes a tool to a model. Parameters is a JSON Schema of type object.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`

	// State identifies the state that the tool keeps between calls outside the workspace,
	// such as the pages of a running MCP server. It is empty for a tool without state, and changes
	// when the tool is restarted.
	State string `json:"-"`
}

// Property is a parameter of a tool.
type Property struct {
	Type        string
	Null        bool // it may be null
	Description string
	Enum        []string
}

// MarshalJSON encodes the property as a JSON Schema.
func (p Property) MarshalJSON() ([]byte, error) {
	var kind any = p.Type
	if p.Null {
		kind = []string{p.Type, "null"}
	}
	return json.Marshal(struct {
		Type        any      `json:"type"`
		Description string   `json:"description"`
		Enum        []string `json:"enum,omitempty"`
	}{kind, p.Description, p.Enum})
}

// NewTool describes a tool that accepts exactly these properties.
func NewTool(name, description string, properties map[string]Property, required ...string) Tool {
	schema, _ := json.Marshal(struct { // strings always have a JSON form
		Type                 string              `json:"type"`
		Properties           map[string]Property `json:"properties"`
		Required             []string            `json:"required"`
		AdditionalProperties bool                `json:"additionalProperties"`
	}{Type: "object", Properties: properties, Required: append([]string{}, required...)})
	return Tool{Name: name, Description: description, Parameters: schema}
}

// Request is one model call.
type Request struct {
	Messages []Message
	Tools    []Tool

	// MaxReply is the most bytes of text in the reply; 0 is no limit.
	MaxReply int

	// Form is the form of a structured reply; nil leaves the form to the model.
	Form *Form
}

// Form is the form of a structured reply, a JSON object. The reply has the object as its text
// or, from servers without structured replies, as the arguments of a call of the tool Name.
type Form struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of type object
}

// Reply is the response to a Request.
type Reply struct {
	Message Message
	Usage   Usage
	Waited  time.Duration // time of waiting for the call's turn, before the request was sent
}

// Result returns the message that answers the call.
func (c ToolCall) Result(content string) Message {
	return Message{Role: ToolRole, ToolCallID: c.ID, Content: content}
}

// Compact returns arguments without white space between JSON tokens, so that equal calls compare
// equal.
func Compact(arguments string) string {
	var b bytes.Buffer
	_ = json.Compact(&b, []byte(arguments)) // writes nothing if they are not JSON
	return cmp.Or(b.String(), arguments)
}

// Object reads a JSON object. Models also send one as a JSON string.
func Object(raw []byte) (map[string]json.RawMessage, bool) {
	var quoted string
	if json.Unmarshal(raw, &quoted) == nil {
		raw = []byte(quoted)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, false
	}
	return fields, fields != nil
}
