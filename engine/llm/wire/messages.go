package wire

import (
	"bytes"
	"encoding/json"
)

// MessagesRequest is the body of a request to Messages, without the fields that have no effect.
type MessagesRequest struct {
	Model         string            `json:"model"`
	MaxTokens     *int              `json:"max_tokens"`
	System        Content           `json:"system"`
	Messages      []BlockMessage    `json:"messages"`
	Tools         []json.RawMessage `json:"tools"`
	ToolChoice    json.RawMessage   `json:"tool_choice"`
	Stream        bool              `json:"stream"`
	StopSequences []string          `json:"stop_sequences"`
	Thinking      *struct {
		Type string `json:"type"`
	} `json:"thinking"`
	Metadata struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`
	OutputFormat json.RawMessage `json:"output_format"`
	OutputConfig struct {
		Format json.RawMessage `json:"format"`
	} `json:"output_config"`
}

// BlockMessage is a message of a conversation, made of blocks.
type BlockMessage struct {
	Role   string `json:"role"`
	Blocks Blocks `json:"content"`
}

// Blocks are the blocks of a message, parted by kind.
type Blocks struct {
	Content Content
	Calls   []BlockCall
	Results []BlockResult
}

// BlockCall is a call of a tool.
type BlockCall struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// BlockResult is the result of a call.
type BlockResult struct {
	ID      string  `json:"tool_use_id"`
	Content Content `json:"content"`
	IsError bool    `json:"is_error"`
}

// Types of blocks.
const (
	BlockText       = "text"
	BlockThinking   = "thinking"
	BlockToolUse    = "tool_use"
	BlockToolResult = "tool_result"
)

// UnmarshalJSON accepts a text or a list of blocks. Blocks of a service's own tools, which no team
// has, are left out.
func (b *Blocks) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '[' {
		return json.Unmarshal(data, &b.Content)
	}
	var blocks []json.RawMessage
	if err := json.Unmarshal(data, &blocks); err != nil {
		return err
	}
	var rest []json.RawMessage
	for _, block := range blocks {
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(block, &head); err != nil {
			return err
		}
		switch head.Type {
		case BlockToolUse:
			var call BlockCall
			if err := json.Unmarshal(block, &call); err != nil {
				return err
			}
			b.Calls = append(b.Calls, call)
		case BlockToolResult:
			var result BlockResult
			if err := json.Unmarshal(block, &result); err != nil {
				return err
			}
			b.Results = append(b.Results, result)
		case "server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result":
		default:
			rest = append(rest, block)
		}
	}
	joined, err := json.Marshal(rest)
	if err != nil || rest == nil {
		return err
	}
	return json.Unmarshal(joined, &b.Content)
}

// Reasons why a reply ends.
const (
	StopEndTurn   = "end_turn"
	StopToolUse   = "tool_use"
	StopMaxTokens = "max_tokens"
	StopSequence  = "stop_sequence"
)

// MessageReply is the body of a reply.
type MessageReply struct {
	ID           string       `json:"id"`
	Type         string       `json:"type"` // message
	Role         string       `json:"role"` // assistant
	Model        string       `json:"model"`
	Content      []Block      `json:"content"`
	StopReason   *string      `json:"stop_reason"`
	StopSequence *string      `json:"stop_sequence"`
	Usage        MessageUsage `json:"usage"`
}

// Block is a block of a reply. It has the fields that its type has.
type Block struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"` // of thinking; always empty
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

// MessageUsage is the sum over all agents.
type MessageUsage struct {
	InputTokens     int64 `json:"input_tokens"`
	OutputTokens    int64 `json:"output_tokens"`
	CacheReadTokens int64 `json:"cache_read_input_tokens"`
	CacheMadeTokens int64 `json:"cache_creation_input_tokens"`
}

// MessageEvent is an event of a stream. It has the fields that its type has.
type MessageEvent struct {
	Type    string        `json:"type"`
	Message *MessageReply `json:"message,omitempty"`
	Index   *int          `json:"index,omitempty"`
	Block   *Block        `json:"content_block,omitempty"`
	Delta   *BlockDelta   `json:"delta,omitempty"`
	Usage   *MessageUsage `json:"usage,omitempty"`
	Error   *MessageError `json:"error,omitempty"`
}

// BlockDelta is the addition of an event to a block, or the end of the reply.
type BlockDelta struct {
	Type        string  `json:"type,omitempty"`
	Text        string  `json:"text,omitempty"`
	Thinking    string  `json:"thinking,omitempty"`
	PartialJSON *string `json:"partial_json,omitempty"`

	StopReason   *string `json:"stop_reason,omitempty"`
	StopSequence *string `json:"stop_sequence,omitempty"`
}

// MessageFailure is the body of an error.
type MessageFailure struct {
	Type  string       `json:"type"` // error
	Error MessageError `json:"error"`
}

// MessageError is a fault of a request or a service.
type MessageError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}
