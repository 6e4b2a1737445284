package wire

import "encoding/json"

// ChatRequest is the body of a request, without the fields that have no effect.
type ChatRequest struct {
	Model         string            `json:"model"`
	Messages      []ChatMessage     `json:"messages"`
	Stream        bool              `json:"stream"`
	StreamOptions *StreamOptions    `json:"stream_options"`
	Metadata      map[string]string `json:"metadata"`

	Tools          json.RawMessage `json:"tools"`
	ToolChoice     json.RawMessage `json:"tool_choice"`
	Functions      json.RawMessage `json:"functions"`
	ResponseFormat json.RawMessage `json:"response_format"`
	N              *int            `json:"n"`
	Audio          json.RawMessage `json:"audio"`
	Modalities     []string        `json:"modalities"`
	WebSearch      json.RawMessage `json:"web_search_options"`
	Logprobs       *bool           `json:"logprobs"`
	Stop           json.RawMessage `json:"stop"`

	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
}

// StreamOptions are the options of a stream.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// ChatMessage is a message of a conversation.
type ChatMessage struct {
	Role       string     `json:"role"`
	Content    Content    `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ToolCall is a call of a tool.
type ToolCall struct {
	Index    *int     `json:"index,omitempty"` // set only in a stream
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is the function that a call names, with its arguments in JSON.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// ChatCompletion is the body of a reply.
type ChatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []ChatChoice `json:"choices"`
	Usage   ChatUsage    `json:"usage"`
}

// ChatChoice is the one choice of a reply.
type ChatChoice struct {
	Index        int       `json:"index"`
	Message      ChatReply `json:"message"`
	Logprobs     *struct{} `json:"logprobs"` // the field is always null
	FinishReason string    `json:"finish_reason"`
}

// ChatReply is the message of a reply.
type ChatReply struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"` // null with tool calls
	Refusal   *string    `json:"refusal"` // the field is always null
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// ChatChunk is an event of a stream.
type ChatChunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []ChunkChoice `json:"choices"`
	Usage   *ChatUsage    `json:"usage,omitempty"`
}

// ChunkChoice is the one choice of a chunk.
type ChunkChoice struct {
	Index        int       `json:"index"`
	Delta        ChatDelta `json:"delta"`
	FinishReason *string   `json:"finish_reason"`
}

// ChatDelta is the addition of a chunk to the message.
type ChatDelta struct {
	Role      string     `json:"role,omitempty"`
	Content   string     `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// ChatUsage is the sum over all agents.
type ChatUsage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Cost *float64 `json:"cost,omitempty"` // dollars, if all prices are known
}

// ModelList is the list of teams.
type ModelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Model is a team, as clients see it.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}
