package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	anthropic "github.com/anthropics/anthropic-sdk-go"
	messages "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"conclave/engine/llm"
)

// Wire is the form of requests and replies.
type Wire string

// The forms. Chat Completions is that of most servers, Responses that of OpenAI, Messages that of Anthropic.
const (
	ChatWire      Wire = "chat"
	ResponsesWire Wire = "responses"
	MessagesWire  Wire = "messages"
)

// middleware watches a request. Both clients have it in the same form.
type middleware = func(*http.Request, messages.MiddlewareNext) (*http.Response, error)

// newMessages returns the client of a service that speaks Messages. It is not made by the SDK's own function, which reads
// keys and an address from the environment: they belong to another server.
func (o Options) newMessages() *anthropic.Client {
	options := []messages.RequestOption{
		messages.WithBaseURL(strings.TrimSuffix(strings.TrimSuffix(o.BaseURL, "/"), "/v1")),
		messages.WithMaxRetries(0), messages.WithHTTPClient(httpClient(o.HTTPClient)),
	}
	if o.APIKey != "" {
		options = append(options, messages.WithAPIKey(o.APIKey))
	}
	return &anthropic.Client{Options: options}
}

// foreign are the parameters of Chat Completions without a counterpart in another form.
var foreign = map[Wire][]string{
	MessagesWire: {
		"frequency_penalty", "logit_bias", "logprobs", "n", "presence_penalty", "reasoning_effort", "response_format", "seed", "stream_options", "top_logprobs", "user",
	},
	ResponsesWire: {"frequency_penalty", "logit_bias", "logprobs", "n", "presence_penalty", "response_format", "seed", "stop", "stream_options"},
}

// checkParams refuses parameters that the form of requests does not have.
func (o Options) checkParams() error {
	for _, name := range foreign[o.Wire] {
		if _, given := o.Params[name]; given {
			return fmt.Errorf("%s in params of model %s has no counterpart in the form of %s; remove it, or set wire: chat", name, o.Model, o.Wire)
		}
	}
	return nil
}

// postMessages sends one request.
func (c *Client) postMessages(ctx context.Context, req llm.Request, sent parts, res **http.Response, watch ...middleware) error {
	options := []messages.RequestOption{messages.WithHeader(depthHeader, strconv.Itoa(llm.Depth(ctx)+1)), messages.WithResponseBodyInto(res)}
	for _, m := range watch {
		options = append(options, messages.WithMiddleware(m))
	}
	return c.messages.Post(ctx, "v1/messages", c.newMessagesRequest(req, sent), nil, options...)
}

func (c *Client) newMessagesRequest(req llm.Request, sent parts) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{Model: anthropic.Model(c.options.Model), MaxTokens: usualReply(c.options.Model)}
	for _, m := range sentMessages(req, sent) {
		if m.Role == llm.System && len(p.Messages) == 0 {
			p.System = append(p.System, anthropic.TextBlockParam{Text: visibleText(m.Content)})
			continue
		}
		role, blocks := anthropic.MessageParamRoleUser, contentBlocks(m, sent)
		if m.Role == llm.Assistant {
			role = anthropic.MessageParamRoleAssistant
		}
		if last := len(p.Messages) - 1; last >= 0 && p.Messages[last].Role == role {
			p.Messages[last].Content = append(p.Messages[last].Content, blocks...)
			continue
		}
		p.Messages = append(p.Messages, anthropic.MessageParam{Role: role, Content: blocks})
	}
	for _, t := range sentTools(req, sent) {
		p.Tools = append(p.Tools, messagesTool(t))
	}
	if f := req.Form; f != nil {
		p.Tools = append(p.Tools, messagesTool(llm.Tool{Name: f.Name, Description: f.Description, Parameters: f.Schema}))
	}
	extra := c.messagesParams(&p)
	if sent.has(streamPart) {
		extra["stream"] = true
	}
	if len(p.Tools) == 0 {
		delete(extra, "tool_choice")
	}
	p.SetExtraFields(extra)
	markCache(&p, leastCached(c.options.Model), slices.ContainsFunc(req.Messages, func(m llm.Message) bool { return m.Shared > 0 }))
	return p
}

// messagesParams returns the params of the backend by their names in Messages.
func (c *Client) messagesParams(p *anthropic.MessageNewParams) map[string]any {
	extra := maps.Clone(c.options.Params)
	if extra == nil {
		extra = map[string]any{}
	}
	for _, name := range []string{"max_completion_tokens", "max_tokens"} {
		if n, err := strconv.ParseInt(fmt.Sprint(extra[name]), 10, 64); err == nil {
			p.MaxTokens = n
			delete(extra, name)
		}
	}
	if stop, given := extra["stop"]; given {
		if word, one := stop.(string); one {
			stop = []string{word}
		}
		extra["stop_sequences"] = stop
		delete(extra, "stop")
	}
	delete(extra, "parallel_tool_calls")
	return extra
}

// usualReply returns the most tokens of a reply unless the params say otherwise, within the limit of the model.
func usualReply(model string) int64 {
	switch {
	case strings.Contains(model, "claude-3-5"), strings.Contains(model, "claude-3.5"):
		return 8192
	case strings.Contains(model, "claude-3-"):
		return 4096
	}
	return 32000
}

// visibleText returns a text that is accepted: blocks without a visible character are refused.
func visibleText(content string) string {
	if strings.TrimSpace(content) == "" {
		return "(nothing)"
	}
	return content
}

// callIDs matches the characters that the ID of a tool call cannot have.
var callIDs = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// contentBlocks returns a message as blocks: thoughts first, as they were received, then its text and its calls.
func contentBlocks(m llm.Message, sent parts) (blocks []anthropic.ContentBlockParamUnion) {
	switch m.Role {
	case llm.ToolRole:
		result := anthropic.NewToolResultBlock(callIDs.ReplaceAllString(m.ToolCallID, "_"), visibleText(m.Content), false)
		return []anthropic.ContentBlockParamUnion{result}
	case llm.Assistant:
		if sent.has(thoughtsPart) {
			for _, thought := range llm.Items(m.Extra[thinkingField]) {
				if len(thought) > 0 {
					blocks = append(blocks, param.Override[anthropic.ContentBlockParamUnion](thought))
				}
			}
		}
	case llm.User, llm.System:
	}
	if m.Shared > 0 && m.Shared < len(m.Content) { // in a block of its own, whose end can be marked
		blocks = append(blocks, anthropic.NewTextBlock(m.Content[:m.Shared]))
		m.Content = m.Content[m.Shared:]
	}
	if strings.TrimSpace(m.Content) != "" || len(m.ToolCalls)+len(m.Images)+len(blocks) == 0 {
		blocks = append(blocks, anthropic.NewTextBlock(visibleText(m.Content)))
	}
	for _, call := range m.ToolCalls {
		blocks = append(blocks, anthropic.NewToolUseBlock(callIDs.ReplaceAllString(call.ID, "_"), json.RawMessage(sendableArguments(call.Arguments)), call.Name))
	}
	for _, image := range m.Images {
		if sent.has(imagesPart) {
			blocks = append(blocks, anthropic.NewImageBlockBase64(image.MediaType, base64.StdEncoding.EncodeToString(image.Data)))
			continue
		}
		blocks = append(blocks, anthropic.NewTextBlock(unseenImage(image)))
	}
	return blocks
}

func messagesTool(t llm.Tool) anthropic.ToolUnionParam {
	tool := anthropic.ToolParam{Name: t.Name, InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{}}}
	if t.Description != "" {
		tool.Description = param.NewOpt(t.Description)
	}
	if len(t.Parameters) > 0 { // as it is: decoding would change the order of its keys
		tool.InputSchema = param.Override[anthropic.ToolInputSchemaParam](t.Parameters)
	}
	return anthropic.ToolUnionParam{OfTool: &tool}
}

// leastCached returns the least tokens of a prefix that the service keeps. A shorter one is not marked, since there are
// only four marks.
func leastCached(model string) int {
	switch {
	case strings.Contains(model, "opus-4-5"), strings.Contains(model, "opus-4-6"), strings.Contains(model, "haiku-4-5"):
		return 4096
	case strings.Contains(model, "haiku"):
		return 2048
	}
	return 1024
}

// tokenBytes is a low estimate of the bytes of a token.
const tokenBytes = 3

// markCache marks the ends of four prefixes that later requests have in common with this one: the tools, the system
// message, the part of the first turn that the agents of a wave share, if there is one, and the whole conversation, which
// the next call goes on with.
func markCache(p *anthropic.MessageNewParams, least int, shared bool) {
	mark := anthropic.NewCacheControlEphemeralParam()
	size := 0
	kept := func(block any) bool {
		data, _ := json.Marshal(block) // it was made of texts and JSON
		size += len(data)
		return size >= least*tokenBytes
	}
	if n := len(p.Tools); n > 0 && kept(p.Tools) {
		p.Tools[n-1].OfTool.CacheControl = mark
	}
	if n := len(p.System); n > 0 && kept(p.System) {
		p.System[n-1].CacheControl = mark
	}
	for i, m := range p.Messages {
		rest := m.Content
		if shared && i == 0 {
			if rest = m.Content[1:]; kept(m.Content[0]) {
				*m.Content[0].GetCacheControl() = mark
			}
		}
		if !kept(rest) || i < len(p.Messages)-1 {
			continue
		}
		if control := m.Content[len(m.Content)-1].GetCacheControl(); control != nil { // thoughts take no mark
			*control = mark
		}
	}
}

// thinkingField is the field of a message with its thoughts, which Messages wants back unchanged.
const thinkingField = "thinking_blocks"

// messageUsage is the usage of a reply. Input that is written to the cache or read from it is counted beside the rest.
type messageUsage struct {
	Input   int64 `json:"input_tokens"`
	Written int64 `json:"cache_creation_input_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Output  int64 `json:"output_tokens"`
}

// later returns the usage with the counts of a later report, which may have only some of them.
func (u messageUsage) later(v messageUsage) messageUsage {
	return messageUsage{max(u.Input, v.Input), max(u.Written, v.Written), max(u.Read, v.Read), max(u.Output, v.Output)}
}

func (u messageUsage) spent() llm.Usage {
	count := func(n int64) int64 { return min(max(n, 0), maxCount) }
	return llm.Usage{
		InputTokens: count(u.Input) + count(u.Written) + count(u.Read), CachedInputTokens: count(u.Read), CacheWriteTokens: count(u.Written),
		OutputTokens: count(u.Output), ModelCalls: 1,
	}
}

// messageBlock is a part of a reply.
type messageBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`

	written strings.Builder // the fragments of Input
}

// thought returns the block as it is sent back, or nil if it is no thought.
func (b *messageBlock) thought() any {
	switch b.Type {
	case "thinking":
		return anthropic.ThinkingBlockParam{Thinking: b.Thinking, Signature: b.Signature}
	case "redacted_thinking":
		return anthropic.RedactedThinkingBlockParam{Data: b.Data}
	}
	return nil
}

// assembleMessage returns the message with the blocks of a reply.
func (c *Client) assembleMessage(blocks []*messageBlock) (llm.Message, error) {
	out := llm.Message{Role: llm.Assistant}
	var thoughts []any
	for _, b := range blocks {
		switch {
		case b.thought() != nil:
			thoughts = append(thoughts, b.thought())
		case b.Type == "text":
			out.Content += b.Text
		case b.Type == "tool_use" && b.Name == "":
			return out, c.unusableError("a tool call of the reply names no function", nil)
		case b.Type == "tool_use":
			arguments := b.written.String()
			if arguments == "" && string(b.Input) != "{}" {
				arguments = string(b.Input)
			}
			out.ToolCalls = append(out.ToolCalls, llm.ToolCall{ID: b.ID, Name: b.Name, Arguments: arguments})
		}
	}
	if len(thoughts) > 0 {
		data, err := json.Marshal(thoughts)
		if err != nil {
			return out, c.unusableError("the thoughts of the reply cannot be kept", err)
		}
		out.Extra = map[string]json.RawMessage{thinkingField: data}
	}
	return out, nil
}

// checkStop returns the error of a reply that did not end by itself.
func (c *Client) checkStop(reason string, m llm.Message) error {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		cut := c.unusableError("the reply was cut off at the token limit; raise max_tokens in params", nil)
		cut.Cut = true
		return cut
	case "refusal":
		return c.newError(llm.ContentPolicy, 0, "the model refused", "rephrase the query", nil)
	case "":
		return c.newError(llm.Network, 0, "the response ended early, without stop_reason", "", nil)
	}
	if slices.ContainsFunc(m.ToolCalls, func(call llm.ToolCall) bool { return call.Arguments != "" && !json.Valid([]byte(call.Arguments)) }) {
		return c.unusableError("the arguments of a tool call are cut off", nil)
	}
	return nil
}
