package wire

import (
	"bytes"
	"encoding/json"
)

// ResponseRequest is the body of a request to Responses, without the fields that have no effect.
type ResponseRequest struct {
	Model              string            `json:"model"`
	Input              Items             `json:"input"`
	Instructions       string            `json:"instructions"`
	PreviousResponseID string            `json:"previous_response_id"`
	Stream             bool              `json:"stream"`
	Background         bool              `json:"background"`
	Metadata           map[string]string `json:"metadata"`
	Tools              []json.RawMessage `json:"tools"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	MaxOutputTokens    *int              `json:"max_output_tokens"`
	Text               *struct {
		Format json.RawMessage `json:"format"`
	} `json:"text"`
	Conversation json.RawMessage `json:"conversation"`
	Prompt       json.RawMessage `json:"prompt"`
}

// Items are the items of a conversation.
type Items []Item

// UnmarshalJSON accepts a text, which is one message of the user, or a list of items.
func (i *Items) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		var content Content
		err := json.Unmarshal(data, &content)
		*i = Items{{Type: ItemMessage, Role: "user", Content: content}}
		return err
	}
	var items []Item
	err := json.Unmarshal(data, &items)
	*i = items
	return err
}

// Types of items.
const (
	ItemMessage        = "message"
	ItemFunctionCall   = "function_call"
	ItemFunctionOutput = "function_call_output"
	ItemCustomCall     = "custom_tool_call"
	ItemCustomOutput   = "custom_tool_call_output"
	ItemReasoning      = "reasoning"
)

// Item is an item of a request's conversation: a message, a call of a tool, or its output. A
// message may have no type.
type Item struct {
	Type      string  `json:"type"`
	Role      string  `json:"role"`
	Content   Content `json:"content"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Arguments string  `json:"arguments"`
	Input     string  `json:"input"`
	Output    Content `json:"output"`
}

// Statuses of a response.
const (
	StatusInProgress = "in_progress"
	StatusCompleted  = "completed"
	StatusIncomplete = "incomplete"
	StatusFailed     = "failed"
	StatusCancelled  = "cancelled"
)

// Response is the body of a reply. Fields that clients expect and that have no meaning for a
// team have the values of a plain request.
type Response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"` // response
	CreatedAt          int64              `json:"created_at"`
	Status             string             `json:"status"`
	Background         bool               `json:"background"`
	Error              *ResponseError     `json:"error"`
	IncompleteDetails  *IncompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	Metadata           map[string]string  `json:"metadata"`
	Model              string             `json:"model"`
	Output             []OutputItem       `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Store              bool               `json:"store"`
	Temperature        *float64           `json:"temperature"`
	Text               json.RawMessage    `json:"text"`
	ToolChoice         string             `json:"tool_choice"`
	Tools              []json.RawMessage  `json:"tools"`
	TopP               *float64           `json:"top_p"`
	Usage              *ResponseUsage     `json:"usage"`
}

// ResponseError is why a response failed.
type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// IncompleteDetails is why a response ends early.
type IncompleteDetails struct {
	Reason string `json:"reason"`
}

// ResponseUsage is the sum over all agents.
type ResponseUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	InputDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int64 `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int64 `json:"total_tokens"`
}

// OutputItem is an item of a reply: a message, a call of a tool, or a summary of the progress.
type OutputItem struct {
	ID        string       `json:"id"`
	Type      string       `json:"type"`
	Status    string       `json:"status,omitempty"`
	Role      string       `json:"role,omitempty"`
	Content   []OutputPart `json:"content,omitzero"`
	Summary   []OutputPart `json:"summary,omitzero"`
	CallID    string       `json:"call_id,omitempty"`
	Name      string       `json:"name,omitempty"`
	Arguments *string      `json:"arguments,omitempty"` // of a function
	Input     *string      `json:"input,omitempty"`     // of a custom tool
}

// OutputPart is a text of an item.
type OutputPart struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Annotations []json.RawMessage `json:"annotations,omitzero"`
	Logprobs    []json.RawMessage `json:"logprobs,omitzero"`
}

// ResponseEvent is an event of a stream. It has the fields that its type has.
type ResponseEvent struct {
	Type         string      `json:"type"`
	Sequence     int         `json:"sequence_number"`
	Response     *Response   `json:"response,omitempty"`
	ItemID       string      `json:"item_id,omitempty"`
	OutputIndex  *int        `json:"output_index,omitempty"`
	ContentIndex *int        `json:"content_index,omitempty"`
	SummaryIndex *int        `json:"summary_index,omitempty"`
	Item         *OutputItem `json:"item,omitempty"`
	Part         *OutputPart `json:"part,omitempty"`
	Delta        *string     `json:"delta,omitempty"`
	Text         *string     `json:"text,omitempty"`
	Name         string      `json:"name,omitempty"`
	Arguments    *string     `json:"arguments,omitempty"`
	Input        *string     `json:"input,omitempty"`

	Logprobs []json.RawMessage `json:"logprobs,omitzero"`
}
