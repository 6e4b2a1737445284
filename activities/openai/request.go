package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"conclave/engine/llm"
)

// request converts a request, with the optional parts sent, to the SDK's parameters.
func (c *Client) request(req llm.Request, sent parts) sdk.ChatCompletionNewParams {
	params := sdk.ChatCompletionNewParams{Model: c.model}
	for _, m := range req.Messages {
		if c.shortIDs {
			m = withShortIDs(m)
		}
		params.Messages = append(params.Messages, message(m, sent))
	}
	for _, t := range req.Tools {
		if sent.has(toolsPart) {
			params.Tools = append(params.Tools, tool(t))
		}
	}
	extra := map[string]any{}
	maps.Copy(extra, c.params)
	if f := req.Form; f != nil {
		delete(extra, "response_format")
		if sent.has(formPart) {
			params.ResponseFormat = responseFormat(*f)
		} else {
			params.Tools = append(params.Tools, tool(llm.Tool{Name: f.Name, Description: f.Description, Parameters: f.Schema}))
		}
	}
	if len(params.Tools) == 0 {
		// Servers refuse parameters about tools in a request without tools.
		delete(extra, "tool_choice")
		delete(extra, "parallel_tool_calls")
	}
	if sent.has(streamPart) {
		extra["stream"] = true
	}
	if sent.has(streamPart) && sent.has(usagePart) {
		params.StreamOptions.IncludeUsage = param.NewOpt(true)
	}
	if len(extra) > 0 {
		params.SetExtraFields(extra)
	}
	return params
}

// responseFormat requests a structured reply. The schema is not strict, because a strict schema
// cannot bound the length of a list.
func responseFormat(f llm.Form) sdk.ChatCompletionNewParamsResponseFormatUnion {
	schema := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: f.Name, Schema: f.Schema}
	if f.Description != "" {
		schema.Description = param.NewOpt(f.Description)
	}
	return sdk.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{JSONSchema: schema}}
}

func message(m llm.Message, sent parts) sdk.ChatCompletionMessageParamUnion {
	switch m.Role {
	case llm.System:
		return sdk.SystemMessage(m.Content)
	case llm.Assistant:
		if !sent.has(thoughtsPart) {
			m.Extra = withoutThoughts(m.Extra)
		}
		return assistant(m)
	case llm.ToolRole:
		return sdk.ToolMessage(m.Content, m.ToolCallID)
	default:
		return user(m, sent.has(imagesPart))
	}
}

// user returns a user message with its images after its text. If images is false, a placeholder
// replaces each.
func user(m llm.Message, images bool) sdk.ChatCompletionMessageParamUnion {
	if len(m.Images) == 0 {
		return sdk.UserMessage(m.Content)
	}
	if !images {
		lines := []string{m.Content}
		for _, image := range m.Images {
			lines = append(lines, fmt.Sprintf("[image of %d KB: this model cannot see images]", (len(image.Data)+1023)/1024))
		}
		return sdk.UserMessage(strings.TrimPrefix(strings.Join(lines, "\n"), "\n"))
	}
	var parts []sdk.ChatCompletionContentPartUnionParam
	if m.Content != "" {
		parts = append(parts, sdk.TextContentPart(m.Content))
	}
	for _, image := range m.Images {
		data := "data:" + image.MediaType + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
		parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: data}))
	}
	return sdk.UserMessage(parts)
}

func assistant(m llm.Message) sdk.ChatCompletionMessageParamUnion {
	var out sdk.ChatCompletionAssistantMessageParam
	extra := raw(m.Extra)
	switch {
	case m.Content == "" && len(m.ToolCalls) > 0:
		// Some servers drop the tool calls of a message whose content is a string.
		extra["content"] = nil
	case m.Content == "":
		// Some servers refuse an empty message, but a model may send one.
		out.Content.OfString = param.NewOpt("(nothing)")
	default:
		out.Content.OfString = param.NewOpt(m.Content)
	}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, toolCall(call))
	}
	if len(extra) > 0 {
		out.SetExtraFields(extra)
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &out}
}

func toolCall(call llm.ToolCall) sdk.ChatCompletionMessageToolCallUnionParam {
	out := sdk.ChatCompletionMessageFunctionToolCallParam{
		ID: call.ID,
		Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
			Name:      call.Name,
			Arguments: sendable(call.Arguments),
		},
	}
	if extra := raw(call.Extra); len(extra) > 0 {
		out.SetExtraFields(extra)
	}
	return sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &out}
}

// sendable returns arguments as a JSON object, because several servers refuse a conversation with
// any other value.
func sendable(arguments string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) == nil && object != nil {
		return arguments
	}
	if arguments == "" {
		return "{}"
	}
	quoted, err := json.Marshal(map[string]string{"invalid_arguments": arguments})
	if err != nil {
		return "{}"
	}
	return string(quoted)
}

// withShortIDs returns the message with IDs of nine letters and digits. An ID of that form is kept;
// any other is replaced by its hash.
func withShortIDs(m llm.Message) llm.Message {
	m.ToolCallID = shortID(m.ToolCallID)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		m.ToolCalls[i].ID = shortID(m.ToolCalls[i].ID)
	}
	return m
}

var shortIDForm = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func shortID(id string) string {
	if id == "" || shortIDForm.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}

func raw(extra map[string]json.RawMessage) map[string]any {
	fields := make(map[string]any, len(extra)+1)
	for name, value := range extra {
		fields[name] = value
	}
	return fields
}

func tool(t llm.Tool) sdk.ChatCompletionToolUnionParam {
	function := shared.FunctionDefinitionParam{Name: t.Name}
	if t.Description != "" {
		function.Description = param.NewOpt(t.Description)
	}
	if len(t.Parameters) > 0 {
		// The schema is passed as raw JSON, because decoding and encoding would change the order of
		// its keys.
		function.SetExtraFields(map[string]any{"parameters": t.Parameters})
	}
	return sdk.ChatCompletionFunctionTool(function)
}
