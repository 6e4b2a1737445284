package llm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"strings"
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

	// Shared is the length in bytes of the beginning of Content that other agents are sent as well, so that a service's
	// cache can keep it; 0 without one.
	Shared int `json:"shared,omitempty"`

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
	Data      []byte `json:"data,omitempty"`

	// Ref is the SHA-256 of a picture of the question, which is stored once. Its Data are filled in
	// for a model call alone.
	Ref string `json:"ref,omitempty"`
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

	// ReadOnly is set if the MCP server of the tool says that it changes nothing.
	ReadOnly bool `json:"-"`

	// Instead tells a model without the tool how to do without it, if its service may refuse the
	// Parameters.
	Instead string `json:"-"`
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

// Items reads an array. Models also send its only item alone.
func Items(raw []byte) []json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) == nil {
		return items
	}
	return []json.RawMessage{raw}
}

// Text reads a string and trims it. It returns "" for other values.
func Text(raw []byte) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return strings.TrimSpace(s)
}

// Texts reads an array, and returns its strings that are not blank.
func Texts(raw []byte) []string {
	var all []string
	for _, item := range Items(raw) {
		if s := Text(item); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// Limits of an image, below those of the providers.
const (
	maxImage  = 5 << 20 // most bytes of an image
	maxSide   = 8000    // most pixels on a side
	maxPixels = 32_000_000
)

// Format detects the media type from the data: image/png, image/jpeg, image/gif, image/webp,
// or "" for any other.
func (i Image) Format() string {
	switch head := string(i.Data[:min(len(i.Data), 14)]); {
	case strings.HasPrefix(head, "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case strings.HasPrefix(head, "\xff\xd8\xff"):
		return "image/jpeg"
	case strings.HasPrefix(head, "GIF87a"), strings.HasPrefix(head, "GIF89a"):
		return "image/gif"
	case strings.HasPrefix(head, "RIFF") && strings.HasSuffix(head, "WEBPVP"):
		return "image/webp"
	}
	return ""
}

// Check returns an error for an image that would make providers refuse the whole
// conversation.
func (i Image) Check() error {
	format := i.Format()
	switch {
	case format == "":
		return errors.New("it is not a PNG, JPEG, GIF or WebP")
	case len(i.Data) > maxImage:
		return fmt.Errorf("it has more than %d MiB", maxImage>>20)
	case format == "image/webp":
		return i.checkWebP()
	}
	size, _, err := image.DecodeConfig(bytes.NewReader(i.Data))
	if err == nil && (size.Width > maxSide || size.Height > maxSide || size.Width*size.Height > maxPixels) {
		return fmt.Errorf("it has %d×%d pixels, more than %d on a side or %d million in all", size.Width, size.Height, maxSide, maxPixels/1_000_000)
	}
	if err != nil {
		return errors.New("it is damaged")
	}
	return nil
}

// CheckWhole is Check for a complete image: it also refuses data that ends early.
func (i Image) CheckWhole() error {
	if err := i.Check(); err != nil || i.Format() == "image/webp" {
		return err
	}
	if _, _, err := image.Decode(bytes.NewReader(i.Data)); err != nil {
		return errors.New("it is damaged")
	}
	return nil
}

// checkWebP compares the RIFF chunk of a WebP image with the size of the data.
func (i Image) checkWebP() error {
	const header = 12
	if len(i.Data) < header+8 || int64(binary.LittleEndian.Uint32(i.Data[4:8]))+8 > int64(len(i.Data)) {
		return errors.New("it is damaged")
	}
	if form := string(i.Data[header : header+4]); form != "VP8 " && form != "VP8L" && form != "VP8X" {
		return fmt.Errorf("it has the unknown form %q", form)
	}
	return nil
}
