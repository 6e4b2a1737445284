package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"conclave/activities"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/coordination"
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

// toolsFor is the metadata key that limits the tools to some agents.
const toolsFor = "client_tools_for"

// hasTools reports whether the caller may be asked to run tools because it offered some or returned results.
func (in request) hasTools() bool {
	return activities.Given(in.Tools) || slices.ContainsFunc(in.Messages, func(m message) bool { return m.Role == "tool" })
}

// offeredTools returns the tools of a request, or nil if its tool_choice is "none".
func (in request) offeredTools() (json.RawMessage, error) {
	mayCall, err := in.mayCall()
	if err != nil || !mayCall || !activities.Given(in.Tools) {
		return nil, err
	}
	return in.Tools, nil
}

// mayCall reports whether the tool_choice of a request lets the agents call tools. It refuses one
// that forces a call, since the agents decide.
func (in request) mayCall() (bool, error) {
	var choice string
	if activities.Given(in.ToolChoice) && json.Unmarshal(in.ToolChoice, &choice) != nil {
		choice = "a tool"
	}
	switch choice {
	case "none":
		return false, nil
	case "", "auto":
		return true, nil
	}
	return false, unsupportedParam("tool_choice", "the agents choose; give auto or none")
}

// checkResults refuses parameters that would hold for a new question, but not for the session
// to which results return.
func (h *Handler) checkResults(by access.Caller, in request) error {
	if _, err := h.teamOfModel(by, in.Model); err != nil {
		return err
	}
	mayCall, err := in.mayCall()
	if err == nil && !mayCall {
		err = unsupportedParam("tool_choice", "none does not take the tools away from a session that has them; give auto with the results")
	}
	return err
}

// resultsOf returns the tool results at the end of a request, or nil if the request is a new
// question. It refuses results mixed with other messages after the last reply, which would be
// neither results nor a new question.
func resultsOf(messages []message) (results []coordination.ToolResult, err error) {
	isResult := func(m message) bool { return m.Role == "tool" || m.Role == "function" }
	first := len(messages) // position of the first message after the last reply
	for first > 0 && messages[first-1].Role != "assistant" {
		first--
	}
	if first == 0 { // the caller has left the reply with the calls out
		first = max(first, slices.IndexFunc(messages, isResult))
	}
	if !slices.ContainsFunc(messages[first:], isResult) {
		return nil, nil
	}
	at := map[string]int{} // number of the message with the result of a call
	for i, m := range messages[first:] {
		number := first + i + 1
		switch {
		case !isResult(m):
			return nil, invalidParam("messages", "message %d has the role %q and is next to tool results; end the request with the results, and send other messages after the reply to them", number, m.Role)
		case m.ToolCallID == "":
			return nil, invalidParam("messages", "message %d, the result of a tool, has no tool_call_id", number)
		case at[m.ToolCallID] > 0:
			return nil, invalidParam("messages", "messages %d and %d are both the result of the call %.80q; send one", at[m.ToolCallID], number, m.ToolCallID)
		}
		at[m.ToolCallID] = number
		results = append(results, coordination.ToolResult{ID: m.ToolCallID, Content: string(m.Content)})
	}
	return results, nil
}

func callsOf(r gateway.Reply) []toolCall {
	var calls []toolCall
	for _, c := range r.Calls {
		calls = append(calls, toolCall{ID: c.ID, Type: "function", Function: function{Name: c.Name, Arguments: c.Arguments}})
	}
	return calls
}
