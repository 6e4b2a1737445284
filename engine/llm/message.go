package llm

import (
	"encoding/json"
	"time"
)

// Role says who speaks in a Message.
type Role string

// The four roles of the Chat Completions API.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one entry of a conversation. An assistant message may carry tool
// calls; every one of them is answered by exactly one ToolRole message with
// the same call ID before the next assistant message, as the API demands.
type Message struct {
	Role       Role       `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`

	// Images are shown after Content. Only a User message has any: the API takes
	// none in a tool's result.
	Images []Image `json:"images,omitempty"`

	// Extra keeps provider fields that must be sent back unchanged with the
	// message, such as reasoning_content.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

// ToolCall is a model's request to run one tool. Arguments is the model's own
// text, untrusted and possibly not JSON at all.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`

	// Extra keeps provider fields of the call that must be sent back, such as
	// Gemini's extra_content with its thought signature.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

// Image is a picture, such as a screenshot that a tool took.
type Image struct {
	MediaType string `json:"media_type"` // image/png, image/jpeg, image/gif or image/webp
	Data      []byte `json:"data"`
}

// Tool describes a tool offered to a model. Parameters is a JSON Schema of
// type object.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Request is one model call.
type Request struct {
	Messages []Message
	Tools    []Tool
}

// Reply is what a model said to a Request.
type Reply struct {
	Message Message
	Usage   Usage

	// Waited is how long the call waited for its turn before the model was asked.
	Waited time.Duration
}

// ToolResult builds the message that answers call.
func ToolResult(call ToolCall, content string) Message {
	return Message{Role: ToolRole, ToolCallID: call.ID, Content: content}
}
