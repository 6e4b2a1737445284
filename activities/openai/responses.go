package openai

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"conclave/engine/llm"
)

// reasoningField is the field of a message with its encrypted thoughts, which Responses wants back unchanged.
const reasoningField = "reasoning_items"

// postResponse sends one request in the form of Responses.
func (c *Client) postResponse(ctx context.Context, req llm.Request, sent parts, options []option.RequestOption) error {
	_, err := c.responses.New(ctx, c.newResponseRequest(req, sent), options...)
	return err
}

func (c *Client) newResponseRequest(req llm.Request, sent parts) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: c.options.Model, Store: param.NewOpt(false)}
	if sent.has(includePart) {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	var items responses.ResponseInputParam
	for _, m := range sentMessages(req, sent) {
		if m.Role == llm.System && len(items) == 0 {
			p.Instructions = param.NewOpt(strings.TrimPrefix(p.Instructions.Value+"\n\n"+m.Content, "\n\n"))
			continue
		}
		items = append(items, inputItems(m, sent)...)
	}
	p.Input.OfInputItemList = items
	for _, t := range sentTools(req, sent) {
		p.Tools = append(p.Tools, responseTool(t))
	}
	extra := responseParams(c.options.Params, &p)
	if f := req.Form; f != nil && sent.has(formPart) {
		format := responses.ResponseFormatTextJSONSchemaConfigParam{Name: f.Name, Strict: param.NewOpt(false)}
		if f.Description != "" {
			format.Description = param.NewOpt(f.Description)
		}
		format.SetExtraFields(map[string]any{"schema": f.Schema})
		p.Text.Format.OfJSONSchema = &format
	} else if f != nil {
		p.Tools = append(p.Tools, responseTool(llm.Tool{Name: f.Name, Description: f.Description, Parameters: f.Schema}))
	}
	if sent.has(streamPart) {
		extra["stream"] = true
	}
	if len(p.Tools) == 0 {
		delete(extra, "tool_choice")
		delete(extra, "parallel_tool_calls")
	}
	p.SetExtraFields(extra)
	return p
}

// responseParams returns the params of a backend by their names in Responses.
func responseParams(given map[string]any, p *responses.ResponseNewParams) map[string]any {
	extra := maps.Clone(given)
	if extra == nil {
		extra = map[string]any{}
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if n, is := extra[name]; is {
			extra["max_output_tokens"] = n
			delete(extra, name)
		}
	}
	if effort, is := extra["reasoning_effort"]; is {
		extra["reasoning"] = map[string]any{"effort": effort}
		delete(extra, "reasoning_effort")
	}
	if verbosity, is := extra["verbosity"].(string); is {
		p.Text.Verbosity = responses.ResponseTextConfigVerbosity(verbosity)
		delete(extra, "verbosity")
	}
	if choice, is := extra["tool_choice"].(map[string]any); is {
		if function, named := choice["function"].(map[string]any); named {
			extra["tool_choice"] = map[string]any{"type": "function", "name": function["name"]}
		}
	}
	return extra
}

// inputItems returns a message as items: thoughts first, as they were received, then its text and its calls.
func inputItems(m llm.Message, sent parts) (items []responses.ResponseInputItemUnionParam) {
	switch m.Role {
	case llm.ToolRole:
		result := responses.ResponseInputItemFunctionCallOutputParam{CallID: param.NewOpt(m.ToolCallID)}
		result.Output.OfString = param.NewOpt(m.Content)
		return []responses.ResponseInputItemUnionParam{{OfFunctionCallOutput: &result}}
	case llm.User:
		return []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage(inputContent(m, sent), responses.EasyInputMessageRoleUser)}
	case llm.System:
		return []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage(m.Content, responses.EasyInputMessageRoleDeveloper)}
	case llm.Assistant:
	}
	if sent.has(thoughtsPart) {
		for _, thought := range llm.Items(m.Extra[reasoningField]) {
			if len(thought) > 0 {
				items = append(items, param.Override[responses.ResponseInputItemUnionParam](thought))
			}
		}
	}
	if m.Content != "" || len(m.ToolCalls) == 0 {
		items = append(items, responses.ResponseInputItemParamOfMessage(visibleText(m.Content), responses.EasyInputMessageRoleAssistant))
	}
	for _, call := range m.ToolCalls {
		items = append(items, responses.ResponseInputItemParamOfFunctionCall(sendableArguments(call.Arguments), call.ID, call.Name))
	}
	return items
}

// inputContent returns a user's message with its images after its text. Without images a placeholder stands for each.
func inputContent(m llm.Message, sent parts) (content responses.ResponseInputMessageContentListParam) {
	if m.Content != "" || len(m.Images) == 0 {
		content = append(content, responses.ResponseInputContentParamOfInputText(m.Content))
	}
	for _, image := range m.Images {
		if !sent.has(imagesPart) {
			content = append(content, responses.ResponseInputContentParamOfInputText(unseenImage(image)))
			continue
		}
		data := "data:" + image.MediaType + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
		content = append(content, responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
			Detail: responses.ResponseInputImageDetailAuto, ImageURL: param.NewOpt(data),
		}})
	}
	return content
}

func unseenImage(image llm.Image) string {
	return fmt.Sprintf("[image of %d KB: this model cannot see images]", (len(image.Data)+1023)/1024)
}

func responseTool(t llm.Tool) responses.ToolUnionParam {
	tool := responses.FunctionToolParam{Name: t.Name, Strict: param.NewOpt(false)}
	if t.Description != "" {
		tool.Description = param.NewOpt(t.Description)
	}
	if len(t.Parameters) > 0 { // as they are: decoding would change the order of their keys
		tool.SetExtraFields(map[string]any{"parameters": t.Parameters})
	}
	return responses.ToolUnionParam{OfFunction: &tool}
}

// responseBody is a reply, or the reply in the last event of a stream.
type responseBody struct {
	Status     string            `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Error      json.RawMessage   `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *struct {
		Input   int64 `json:"input_tokens"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

func (b responseBody) spent() llm.Usage {
	u := llm.Usage{ModelCalls: 1}
	if b.Usage == nil {
		return u
	}
	count := func(n int64) int64 { return min(max(n, 0), maxCount) }
	u.InputTokens, u.OutputTokens = count(b.Usage.Input), count(b.Usage.Output)
	u.CachedInputTokens, u.ReasoningTokens = count(b.Usage.Details.Cached), count(b.Usage.OutputDetails.Reasoning)
	return u
}

// outputItem is a part of a reply.
type outputItem struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	CallID    string `json:"call_id"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`

	Summary   json.RawMessage `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
}

// responseEvent is an event of a stream.
type responseEvent struct {
	Type     string          `json:"type"`
	Delta    string          `json:"delta"`
	Item     outputItem      `json:"item"`
	Response json.RawMessage `json:"response"`
}

// responseStream is the progress of a streamed reply.
type responseStream struct {
	started bool
	said    strings.Builder
	size    int
}

// readResponse reads the body of a successful response in the form of Responses.
func (c *Client) readResponse(header http.Header, r *bufio.Reader, streamed bool, most int, w *watchdog, tell teller) (llm.Reply, error) {
	if !streamed {
		whole, err := io.ReadAll(r)
		if err != nil {
			return llm.Reply{Usage: llm.Usage{ModelCalls: 1}}, err
		}
		return c.endResponse(header, whole, most)
	}
	s := responseStream{}
	for e, err := range readEvents(r) {
		if err != nil {
			return llm.Reply{Usage: s.spent()}, err
		}
		var event responseEvent
		if json.Unmarshal([]byte(e.data), &event) != nil {
			return llm.Reply{Usage: s.spent()}, c.unusableError("the response has an event that is not JSON: "+c.cleanExcerpt(e.data), nil)
		}
		switch event.Type {
		case "error":
			return llm.Reply{Usage: s.spent()}, c.refusedError(http.StatusOK, header, []byte(`{"error":`+e.data+`}`))
		case "response.completed", "response.incomplete", "response.failed":
			return c.endResponse(header, event.Response, most)
		}
		if s.addEvent(event); most > 0 && s.size > most {
			return llm.Reply{Usage: s.spent()}, c.overlongError(most)
		}
		limit := idleTimeout
		if s.size == 0 {
			limit = 0
		}
		w.noteEvent(limit)
		if now := time.Now(); tell.tell != nil && s.size > 0 && !now.Before(tell.next) {
			tell.next = now.Add(saidInterval)
			tell.tell(s.said.String())
		}
	}
	return llm.Reply{Usage: s.spent()}, c.newError(llm.Network, 0, "the response ended early, without response.completed", "", nil)
}

func (s *responseStream) spent() llm.Usage {
	if !s.started {
		return llm.Usage{}
	}
	return llm.Usage{ModelCalls: 1}
}

// addEvent adds the text of an event to the progress.
func (s *responseStream) addEvent(e responseEvent) {
	s.started = true
	switch e.Type {
	case "response.output_item.added":
		if e.Item.Name != "" {
			s.said.WriteString("\n\n" + e.Item.Name + " ")
		}
	case "response.output_text.delta", "response.refusal.delta":
		s.said.WriteString(e.Delta)
	case "response.function_call_arguments.delta":
		s.said.WriteString(lineEnds.Replace(e.Delta))
	}
	if strings.HasSuffix(e.Type, ".delta") {
		s.size += len(e.Delta)
	}
}

// endResponse returns the reply, or the error of one that is no answer.
func (c *Client) endResponse(header http.Header, body []byte, most int) (llm.Reply, error) {
	var b responseBody
	if err := json.Unmarshal(body, &b); err != nil {
		return llm.Reply{}, c.unusableError("the response is not JSON: "+c.cleanExcerpt(string(body)), err)
	}
	reply := llm.Reply{Usage: b.spent()}
	if !isEmpty(b.Error) {
		return reply, c.refusedError(http.StatusOK, header, []byte(`{"error":`+string(b.Error)+`}`))
	}
	refusal, err := c.assembleResponse(b.Output, &reply.Message)
	size := len(reply.Message.Content)
	for _, call := range reply.Message.ToolCalls {
		size += len(call.Arguments)
	}
	switch {
	case err != nil:
		return reply, err
	case b.Incomplete.Reason == "content_filter":
		return reply, c.newError(llm.ContentPolicy, 0, "the provider's content filter stopped the reply", "rephrase the query", nil)
	case b.Status == "incomplete":
		cut := c.unusableError("the reply was cut off at the token limit; raise max_output_tokens in params", nil)
		cut.Cut = true
		return reply, cut
	case b.Status != "completed":
		return reply, c.unusableError("the response is no complete reply: "+c.cleanExcerpt(string(body)), nil)
	case most > 0 && size > most:
		return reply, c.overlongError(most)
	case refusal != "" && len(reply.Message.ToolCalls) == 0:
		return reply, c.newError(llm.ContentPolicy, 0, "the model refused: "+c.cleanExcerpt(refusal), "rephrase the query", nil)
	}
	return reply, nil
}

// assembleResponse sets the message of a reply, and returns the words of a refusal.
func (c *Client) assembleResponse(output []json.RawMessage, m *llm.Message) (refusal string, err error) {
	m.Role = llm.Assistant
	var thoughts []any
	for _, raw := range output {
		var item outputItem
		if err := json.Unmarshal(raw, &item); err != nil {
			return "", c.unusableError("the response has an item that cannot be read: "+c.cleanExcerpt(string(raw)), err)
		}
		switch item.Type {
		case "reasoning":
			if item.Encrypted != "" { // nobody keeps the others
				thoughts = append(thoughts, map[string]any{"type": "reasoning", "summary": orEmpty(item.Summary), "encrypted_content": item.Encrypted})
			}
		case "message":
			for _, part := range item.Content {
				m.Content += part.Text
				refusal += part.Refusal
			}
		case "function_call":
			if item.Name == "" {
				return "", c.unusableError("a tool call of the reply names no function", nil)
			}
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
		}
	}
	if len(thoughts) > 0 {
		data, err := json.Marshal(thoughts)
		if err != nil {
			return "", c.unusableError("the thoughts of the reply cannot be kept", err)
		}
		m.Extra = map[string]json.RawMessage{reasoningField: data}
	}
	return refusal, nil
}

func orEmpty(list json.RawMessage) json.RawMessage {
	if !isPresent(list) {
		return json.RawMessage("[]")
	}
	return list
}
