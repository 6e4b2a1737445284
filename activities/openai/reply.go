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

// maxCount and maxPrice bound what a server's usage is believed. What is beyond
// is a fault of the server, and must not break the sums.
const (
	maxCount = 1e12 // tokens of one call
	maxPrice = 1e12 // USD of one call
)

// reply reads the body of a successful response. A body that is an error after
// all, or no complete reply, is an *llm.Error.
// An error of another kind is one of reading.
func (c *Client) reply(header http.Header, body io.Reader, w *watch) (llm.Reply, error) {
	r := bufio.NewReader(body)
	stream, err := streamed(header, r)
	if err != nil {
		return llm.Reply{}, err
	}
	if stream {
		return c.streamedReply(header, r, w)
	}
	whole, err := io.ReadAll(r)
	if err != nil {
		// What had begun to arrive was thought of already, and is charged for.
		return llm.Reply{Usage: llm.Usage{ModelCalls: 1}}, err
	}
	return c.completion(header, whole)
}

// completion reads a body that is one JSON object.
func (c *Client) completion(header http.Header, body []byte) (llm.Reply, error) {
	var envelope struct {
		Error  json.RawMessage `json:"error"`
		Object string          `json:"object"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return llm.Reply{}, c.unusable("the response is not JSON: "+c.excerpt(string(body)), err)
	}
	if !empty(envelope.Error) || envelope.Object == "error" {
		return llm.Reply{}, c.refused(http.StatusOK, header, body)
	}
	var completion sdk.ChatCompletion
	if err := json.Unmarshal(body, &completion); err != nil {
		return llm.Reply{}, c.unusable("the response is not a chat completion: "+c.excerpt(string(body)), err)
	}
	out := llm.Reply{Usage: usage(completion.Usage)}
	if len(completion.Choices) == 0 {
		return out, c.unusable("the response has no choices: "+c.excerpt(string(body)), nil)
	}
	choice := completion.Choices[0]
	if !choice.JSON.Message.Valid() {
		return out, c.unusable("the response has no message: "+c.excerpt(string(body)), nil)
	}
	var err error
	if out.Message, err = c.message(choice.Message); err != nil {
		return out, err
	}
	return out, c.finished(choice, out.Message)
}

// finished judges how the reply ended.
func (c *Client) finished(choice sdk.ChatCompletionChoice, m llm.Message) error {
	switch strings.ToLower(choice.FinishReason) {
	case "length", "max_tokens", "model_length", "max_output_tokens":
		cut := c.unusable("the reply was cut off at the token limit; raise max_tokens (or max_completion_tokens) in params, "+
			"or the server's context size", nil)
		cut.Cut = true
		return cut
	case "content_filter", "safety", "recitation", "prohibited_content", "blocklist", "sensitive":
		return c.failure(llm.ContentPolicy, 0, "the provider's content filter stopped the reply", "rephrase the query", nil)
	case "error", "abort", "network_error", "insufficient_system_resource":
		return c.unusable("the provider broke the reply off ("+choice.FinishReason+")", nil)
	case "malformed_function_call", "function_call_filter: malformed_function_call":
		return c.unusable("the model made a tool call that its provider cannot read", nil)
	}
	if choice.Message.Refusal != "" && len(m.ToolCalls) == 0 {
		return c.failure(llm.ContentPolicy, 0, "the model refused: "+c.excerpt(choice.Message.Refusal), "rephrase the query", nil)
	}
	if choice.FinishReason == "" {
		// Many servers leave the reason out of replies that are complete. Only
		// calls can be seen to be cut.
		for _, call := range m.ToolCalls {
			if call.Arguments != "" && !json.Valid([]byte(call.Arguments)) {
				return c.unusable("the reply has no finish_reason and the arguments of "+call.Name+" are cut off", nil)
			}
		}
		if len(m.ToolCalls) == 0 && m.Content == "" {
			return c.unusable("the reply is empty and has no finish_reason", nil)
		}
	}
	return nil
}

func (c *Client) message(in sdk.ChatCompletionMessage) (llm.Message, error) {
	out := llm.Message{
		Role:    llm.Assistant,
		Content: text(in.JSON.Content.Raw()),
		Extra:   echoed(in.JSON.ExtraFields),
	}
	for i, call := range in.ToolCalls {
		function := call.AsFunction()
		if function.Function.Name == "" {
			return out, c.unusable(fmt.Sprintf("tool call %d of the reply names no function", i+1), nil)
		}
		out.ToolCalls = append(out.ToolCalls, llm.ToolCall{
			ID:        function.ID,
			Name:      function.Function.Name,
			Arguments: arguments(function.Function),
			Extra:     echoed(function.JSON.ExtraFields),
		})
	}
	return out, nil
}

// text is a content that is a string, null, or, at some servers, a list of parts.
func text(content string) string {
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

// arguments are a string of JSON, or, at some servers, the object itself.
func arguments(f sdk.ChatCompletionMessageFunctionToolCallFunction) string {
	if object := f.JSON.Arguments.Raw(); strings.HasPrefix(object, "{") {
		return object
	}
	return f.Arguments
}

// echoed keeps the fields that providers want back with the message or the
// call they came with: thoughts and their signatures. Others are not sent back,
// because strict servers refuse what they do not know.
func echoed(fields map[string]respjson.Field) map[string]json.RawMessage {
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

// usage takes the server's counts, and its price where it sends one. At xAI and
// Gemini the thoughts are in the total, but not among the output tokens.
func usage(u sdk.CompletionUsage) llm.Usage {
	out := llm.Usage{
		InputTokens:       count(u.JSON.PromptTokens),
		CachedInputTokens: cached(u),
		OutputTokens:      count(u.JSON.CompletionTokens),
		ReasoningTokens:   count(u.CompletionTokensDetails.JSON.ReasoningTokens),
		TotalUSD:          stated(u),
		ModelCalls:        1,
	}
	if apart := count(u.JSON.TotalTokens) - out.InputTokens - out.OutputTokens; apart > 0 && out.InputTokens > 0 {
		out.OutputTokens += apart
		out.ReasoningTokens = max(out.ReasoningTokens, apart)
	}
	return out
}

// stated is what the server itself says that the call cost, in US dollars: as
// OpenRouter does, or xAI, in 10,000,000,000ths.
func stated(u sdk.CompletionUsage) *float64 {
	const ticks = 1e10
	extra := u.JSON.ExtraFields
	if extra["is_byok"].Raw() == "true" {
		return throughRouter(extra)
	}
	if usd, ok := dollars([]byte(extra["cost"].Raw()), 1); ok {
		return &usd
	}
	if usd, ok := dollars([]byte(extra["cost_in_usd_ticks"].Raw()), ticks); ok {
		return &usd
	}
	return nil
}

// throughRouter is the cost of a call that OpenRouter passed on with a key that is
// the customer's own: its cost is OpenRouter's part only, often 0, and who has the
// model charges, too.
func throughRouter(extra map[string]respjson.Field) *float64 {
	var details struct {
		Upstream json.RawMessage `json:"upstream_inference_cost"`
	}
	if json.Unmarshal([]byte(extra["cost_details"].Raw()), &details) != nil {
		return nil
	}
	own, known := dollars([]byte(extra["cost"].Raw()), 1)
	upstream, stated := dollars(details.Upstream, 1)
	if !known || !stated {
		return nil
	}
	usd := own + upstream
	return &usd
}

// dollars is an amount in the given part of a dollar, if it is one to believe.
func dollars(amount json.RawMessage, part float64) (usd float64, ok bool) {
	var n *float64
	if json.Unmarshal(amount, &n) != nil || n == nil || *n < 0 || *n/part > maxPrice {
		return 0, false
	}
	return *n / part, true
}

// cached is how much of the input came from the provider's cache, where OpenAI
// says so, or DeepSeek, or Moonshot.
func cached(u sdk.CompletionUsage) int64 {
	extra := u.JSON.ExtraFields
	return max(count(u.PromptTokensDetails.JSON.CachedTokens), count(extra["prompt_cache_hit_tokens"]), count(extra["cached_tokens"]))
}

// readUsage is usage for a usage object by itself, which may be missing.
func readUsage(object json.RawMessage) llm.Usage {
	var u sdk.CompletionUsage
	if json.Unmarshal(object, &u) != nil {
		return llm.Usage{ModelCalls: 1}
	}
	return usage(u)
}

// count is a number of tokens within 0..maxCount, 0 if the field is no number.
func count(field respjson.Field) int64 {
	n, err := strconv.ParseFloat(field.Raw(), 64)
	if math.IsNaN(n) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return int64(min(max(n, 0), maxCount))
}
