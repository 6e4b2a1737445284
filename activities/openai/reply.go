package openai

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"

	"conclave/engine/llm"
)

// maxCount and maxPrice bound the usage that a server reports; larger values are ignored, to keep sums valid.
const (
	maxCount = 1e12 // tokens of one call
	maxPrice = 1e12 // USD of one call
)

// readReply reads the body of a successful response. An error in the body or an incomplete reply is an
// *llm.Error; any other error is a failed read.
func (c *Client) readReply(header http.Header, body io.Reader, most int, w *watchdog, said func(text string)) (llm.Reply, error) {
	r := bufio.NewReader(body)
	streamed, err := isStream(header, r)
	if err != nil {
		return llm.Reply{}, err
	}
	if c.messages != nil {
		return c.readMessage(header, r, streamed, most, w, said)
	}
	if c.options.Wire == ResponsesWire {
		return c.readResponse(header, r, streamed, most, w, teller{tell: said})
	}
	if streamed {
		return c.streamedReply(header, r, stream{most: most}, w, teller{tell: said})
	}
	whole, err := io.ReadAll(r)
	if err != nil {
		// The provider charges for the reply even if reading it failed.
		return llm.Reply{Usage: llm.Usage{ModelCalls: 1}}, err
	}
	reply, err := c.parseCompletion(header, whole)
	s := stream{most: most}
	s.addEvent(event{data: string(whole)})
	return reply, c.checkLength(&s, err)
}

func (c *Client) parseCompletion(header http.Header, body []byte) (llm.Reply, error) {
	var envelope struct {
		Error  json.RawMessage `json:"error"`
		Object string          `json:"object"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return llm.Reply{}, c.unusableError("the response is not JSON: "+c.cleanExcerpt(string(body)), err)
	}
	if !isEmpty(envelope.Error) || envelope.Object == "error" {
		return llm.Reply{}, c.refusedError(http.StatusOK, header, body)
	}
	var completion sdk.ChatCompletion
	if err := json.Unmarshal(body, &completion); err != nil {
		return llm.Reply{}, c.unusableError("the response is not a chat completion: "+c.cleanExcerpt(string(body)), err)
	}
	out := llm.Reply{Usage: convertUsage(completion.Usage)}
	if len(completion.Choices) == 0 {
		return out, c.unusableError("the response has no choices: "+c.cleanExcerpt(string(body)), nil)
	}
	choice := completion.Choices[0]
	if !choice.JSON.Message.Valid() {
		return out, c.unusableError("the response has no message: "+c.cleanExcerpt(string(body)), nil)
	}
	var err error
	if out.Message, err = c.replyMessage(choice.Message); err != nil {
		return out, err
	}
	return out, c.checkFinish(choice, out.Message)
}

func (c *Client) checkFinish(choice sdk.ChatCompletionChoice, m llm.Message) error {
	switch strings.ToLower(choice.FinishReason) {
	case "length", "max_tokens", "model_length", "max_output_tokens":
		truncated := c.unusableError("the reply was cut off at the token limit; raise max_tokens (or max_completion_tokens) in params, "+
			"or the server's context size", nil)
		truncated.Cut = true
		return truncated
	case "content_filter", "safety", "recitation", "prohibited_content", "blocklist", "sensitive":
		return c.newError(llm.ContentPolicy, 0, "the provider's content filter stopped the reply", "rephrase the query", nil)
	case "error", "abort", "network_error", "insufficient_system_resource":
		return c.unusableError("the provider broke the reply off ("+choice.FinishReason+")", nil)
	case "malformed_function_call", "function_call_filter: malformed_function_call":
		return c.unusableError("the model made a tool call that its provider cannot read", nil)
	}
	if choice.Message.Refusal != "" && len(m.ToolCalls) == 0 {
		return c.newError(llm.ContentPolicy, 0, "the model refused: "+c.cleanExcerpt(choice.Message.Refusal), "rephrase the query", nil)
	}
	if choice.FinishReason == "" {
		// Many servers omit the reason. Then only truncated arguments can be detected.
		for _, call := range m.ToolCalls {
			if call.Arguments != "" && !json.Valid([]byte(call.Arguments)) {
				return c.unusableError("the reply has no finish_reason and the arguments of "+call.Name+" are cut off", nil)
			}
		}
		if len(m.ToolCalls) == 0 && m.Content == "" {
			return c.unusableError("the reply is empty and has no finish_reason", nil)
		}
	}
	return nil
}

func (c *Client) replyMessage(in sdk.ChatCompletionMessage) (llm.Message, error) {
	out := llm.Message{
		Role:    llm.Assistant,
		Content: contentText(in.JSON.Content.Raw()),
		Extra:   echoedFields(in.JSON.ExtraFields),
	}
	for i, call := range in.ToolCalls {
		function := call.AsFunction()
		if function.Function.Name == "" {
			return out, c.unusableError(fmt.Sprintf("tool call %d of the reply names no function", i+1), nil)
		}
		out.ToolCalls = append(out.ToolCalls, llm.ToolCall{
			ID:        function.ID,
			Name:      function.Function.Name,
			Arguments: callArguments(function.Function),
			Extra:     echoedFields(function.JSON.ExtraFields),
		})
	}
	return out, nil
}

// contentText returns the text of a message's content, which is a string, null or, from some
// servers, a list of parts.
func contentText(content string) string {
	var s string
	if json.Unmarshal([]byte(content), &s) == nil {
		return s
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal([]byte(content), &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, part := range parts {
		if part.Type == "text" {
			b.WriteString(part.Text)
		}
	}
	return b.String()
}

// callArguments returns the arguments of a call, which are a JSON string or, from some servers, the
// object itself.
func callArguments(f sdk.ChatCompletionMessageFunctionToolCallFunction) string {
	if object := f.JSON.Arguments.Raw(); strings.HasPrefix(object, "{") {
		return object
	}
	return f.Arguments
}

// echoedFields returns the thoughts and signatures that providers require in the next request. Other
// fields are omitted, as providers may refuse them.
func echoedFields(fields map[string]respjson.Field) map[string]json.RawMessage {
	var kept map[string]json.RawMessage
	for _, name := range slices.Concat(thoughts, []string{"extra_content"}) {
		value := fields[name].Raw()
		if value == "" || value == "null" || value == `""` || !json.Valid([]byte(value)) {
			continue
		}
		if kept == nil {
			kept = make(map[string]json.RawMessage)
		}
		kept[name] = json.RawMessage(value)
	}
	return kept
}

// convertUsage converts the token counts and the cost that the server reports. xAI and Gemini include
// thoughts only in the total.
func convertUsage(u sdk.CompletionUsage) llm.Usage {
	out := llm.Usage{
		InputTokens:       tokenCount(u.JSON.PromptTokens),
		CachedInputTokens: cachedTokens(u),
		OutputTokens:      tokenCount(u.JSON.CompletionTokens),
		ReasoningTokens:   tokenCount(u.CompletionTokensDetails.JSON.ReasoningTokens),
		TotalUSD:          statedCost(u),
		ModelCalls:        1,
	}
	if apart := tokenCount(u.JSON.TotalTokens) - out.InputTokens - out.OutputTokens; apart > 0 && out.InputTokens > 0 {
		out.OutputTokens += apart
		out.ReasoningTokens = max(out.ReasoningTokens, apart)
	}
	return out
}

// statedCost returns the cost that the server reports. OpenRouter reports US dollars; xAI reports
// ticks, of which 10,000,000,000 are a dollar.
func statedCost(u sdk.CompletionUsage) *float64 {
	const ticks = 1e10
	extra := u.JSON.ExtraFields
	if extra["is_byok"].Raw() == "true" {
		return throughRouter(extra)
	}
	if usd, ok := parseDollars([]byte(extra["cost"].Raw()), 1); ok {
		return &usd
	}
	if usd, ok := parseDollars([]byte(extra["cost_in_usd_ticks"].Raw()), ticks); ok {
		return &usd
	}
	return nil
}

// throughRouter returns the cost of a call through OpenRouter with the customer's own provider key:
// OpenRouter's fee plus the provider's cost.
func throughRouter(extra map[string]respjson.Field) *float64 {
	var details struct {
		Upstream json.RawMessage `json:"upstream_inference_cost"`
	}
	if json.Unmarshal([]byte(extra["cost_details"].Raw()), &details) != nil {
		return nil
	}
	own, ok := parseDollars([]byte(extra["cost"].Raw()), 1)
	upstream, upstreamOK := parseDollars(details.Upstream, 1)
	if !ok || !upstreamOK {
		return nil
	}
	usd := own + upstream
	return &usd
}

// parseDollars converts an amount to US dollars; part is the number of its units in a dollar. ok is
// false if the amount is missing or implausible.
func parseDollars(amount json.RawMessage, part float64) (usd float64, ok bool) {
	var n *float64
	if json.Unmarshal(amount, &n) != nil || n == nil || *n < 0 || *n/part > maxPrice {
		return 0, false
	}
	return *n / part, true
}

func cachedTokens(u sdk.CompletionUsage) int64 {
	extra := u.JSON.ExtraFields
	return max(tokenCount(u.PromptTokensDetails.JSON.CachedTokens), tokenCount(extra["prompt_cache_hit_tokens"]), tokenCount(extra["cached_tokens"]))
}

// tokenCount returns a number of tokens, or 0 if it is not within 0..maxCount.
func tokenCount(field respjson.Field) int64 {
	n, err := strconv.ParseFloat(field.Raw(), 64)
	if math.IsNaN(n) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return int64(min(max(n, 0), maxCount))
}
