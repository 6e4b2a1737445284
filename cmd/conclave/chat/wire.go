package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"conclave/engine/llm"
)

// request is the body of a request, without the fields that have no effect.
type request struct {
	Model         string            `json:"model"`
	Messages      []message         `json:"messages"`
	Stream        bool              `json:"stream"`
	StreamOptions *streamOptions    `json:"stream_options"`
	Metadata      map[string]string `json:"metadata"`

	Tools          json.RawMessage `json:"tools"`
	ToolChoice     json.RawMessage `json:"tool_choice"`
	Functions      json.RawMessage `json:"functions"`
	ResponseFormat *struct {
		Type string `json:"type"`
	} `json:"response_format"`
	N          *int            `json:"n"`
	Audio      json.RawMessage `json:"audio"`
	Modalities []string        `json:"modalities"`
	WebSearch  json.RawMessage `json:"web_search_options"`
	Logprobs   *bool           `json:"logprobs"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string     `json:"role"`
	Content    content    `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	Index    *int     `json:"index,omitempty"` // set only in a stream
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// content is the text of a message, which may come in parts.
type content string

var errNotText = errors.New("a message has content that is not text; a team reads text only")

// UnmarshalJSON accepts a string, null or parts of text.
func (c *content) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '[' {
		if json.Unmarshal(data, (*string)(c)) != nil { // null leaves it empty
			return errNotText
		}
		return nil
	}
	var parts []struct {
		Type    string  `json:"type"`
		Text    *string `json:"text"`
		Refusal *string `json:"refusal"`
	}
	if json.Unmarshal(data, &parts) != nil {
		return errNotText
	}
	var texts []string
	for _, p := range parts {
		switch {
		case p.Type == "text" && p.Text != nil:
			texts = append(texts, *p.Text)
		case p.Type == "refusal" && p.Refusal != nil:
			texts = append(texts, *p.Refusal)
		default:
			return errNotText
		}
	}
	*c = content(strings.Join(texts, "\n"))
	return nil
}

// Values of finish_reason.
const (
	finishStop  = "stop"
	finishCalls = "tool_calls"
)

// completion is the body of a reply.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   usage    `json:"usage"`
}

type choice struct {
	Index        int          `json:"index"`
	Message      replyMessage `json:"message"`
	Logprobs     *struct{}    `json:"logprobs"` // the field is always null
	FinishReason string       `json:"finish_reason"`
}

type replyMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"` // null with tool calls
	Refusal   *string    `json:"refusal"` // the field is always null
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

// chunk is an event of a stream.
type chunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []chunkChoice `json:"choices"`
	Usage   *usage        `json:"usage,omitempty"`
}

type chunkChoice struct {
	Index        int     `json:"index"`
	Delta        delta   `json:"delta"`
	FinishReason *string `json:"finish_reason"`
}

type delta struct {
	Role      string     `json:"role,omitempty"`
	Content   string     `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

// usage is the sum over all agents.
type usage struct {
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

func usageOf(u llm.Usage) usage {
	out := usage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens, Cost: u.TotalUSD}
	out.PromptDetails.CachedTokens = u.CachedInputTokens
	out.CompletionDetails.ReasoningTokens = u.ReasoningTokens
	return out
}

// models is the list of teams.
type models struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}
