package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"conclave/engine/llm"
)

func (c *Client) newRequest(req llm.Request, sent parts) sdk.ChatCompletionNewParams {
	params := sdk.ChatCompletionNewParams{Model: c.options.Model}
	for _, m := range sentMessages(req, sent) {
		if c.options.ShortCallIDs {
			m = withShortIDs(m)
		}
		params.Messages = append(params.Messages, requestMessage(m, sent))
	}
	for _, t := range sentTools(req, sent) {
		params.Tools = append(params.Tools, toolParam(t))
	}
	extra := map[string]any{}
	maps.Copy(extra, c.options.Params)
	if f := req.Form; f != nil {
		delete(extra, "response_format")
		if sent.has(formPart) {
			params.ResponseFormat = responseFormat(*f)
		} else {
			params.Tools = append(params.Tools, toolParam(llm.Tool{Name: f.Name, Description: f.Description, Parameters: f.Schema}))
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

// sentMessages returns the messages of a request. The first one has the words that stand for tools that are not sent.
func sentMessages(req llm.Request, sent parts) []llm.Message {
	all := slices.Clone(req.Messages)
	for _, t := range req.Tools {
		if len(all) > 0 && t.Instead != "" && !sent.has(schemaPart) {
			all[0].Content += "\n\n" + t.Instead
		}
	}
	return all
}

// sentTools returns the tools of a request that are sent.
func sentTools(req llm.Request, sent parts) (tools []llm.Tool) {
	for _, t := range req.Tools {
		if sent.has(toolsPart) && (t.Instead == "" || sent.has(schemaPart)) {
			tools = append(tools, t)
		}
	}
	return tools
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

func requestMessage(m llm.Message, sent parts) sdk.ChatCompletionMessageParamUnion {
	switch m.Role {
	case llm.System:
		return sdk.SystemMessage(m.Content)
	case llm.Assistant:
		if m.Extra[reasoningField] != nil { // of another form
			m.Extra = maps.Clone(m.Extra)
			delete(m.Extra, reasoningField)
		}
		if !sent.has(thoughtsPart) {
			m.Extra = maps.Clone(m.Extra)
			maps.DeleteFunc(m.Extra, func(name string, _ json.RawMessage) bool { return slices.Contains(thoughts, name) })
		}
		return assistantMessage(m)
	case llm.ToolRole:
		return sdk.ToolMessage(m.Content, m.ToolCallID)
	default:
		return userMessage(m, sent.has(imagesPart))
	}
}

// userMessage returns a user message with its images after its text. If images is false, a placeholder
// replaces each.
func userMessage(m llm.Message, images bool) sdk.ChatCompletionMessageParamUnion {
	if len(m.Images) == 0 {
		return sdk.UserMessage(m.Content)
	}
	if !images {
		lines := []string{m.Content}
		for _, image := range m.Images {
			lines = append(lines, unseenImage(image))
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

func assistantMessage(m llm.Message) sdk.ChatCompletionMessageParamUnion {
	var out sdk.ChatCompletionAssistantMessageParam
	extra := rawFields(m.Extra)
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
			Arguments: sendableArguments(call.Arguments),
		},
	}
	if extra := rawFields(call.Extra); len(extra) > 0 {
		out.SetExtraFields(extra)
	}
	return sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &out}
}

// sendableArguments returns arguments as a JSON object, because several servers refuse a conversation with
// any other value.
func sendableArguments(arguments string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) == nil && object != nil {
		return arguments
	}
	if arguments == "" {
		return "{}"
	}
	quoted, _ := json.Marshal(map[string]string{"invalid_arguments": arguments}) // strings always have a JSON form
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

func rawFields(extra map[string]json.RawMessage) map[string]any {
	fields := make(map[string]any, len(extra)+1)
	for name, value := range extra {
		fields[name] = value
	}
	return fields
}

func toolParam(t llm.Tool) sdk.ChatCompletionToolUnionParam {
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

// partError is the cause of an error by which a server refuses an optional part of the request.
type partError parts

func (e partError) Error() string { return "an optional part of the request is refused" }

// partWords are the words of such errors in order of precedence. They match neither "upstream" nor
// reasoning_effort.
var partWords = []struct {
	refused parts
	words   *regexp.Regexp
}{
	{includePart, regexp.MustCompile(`(?i)\bencrypted[ _]content\b|\binclude\b`)},
	{toolsPart, regexp.MustCompile(`(?i)\b(not|that) support (tools?|tool use|tool calling|function calling|functions)\b`)},
	{formPart, regexp.MustCompile(`(?i)\bresponse_format\b|\bjson_schema\b|\bstructured output|\bjson mode\b`)},
	{schemaPart, regexp.MustCompile(`(?i)schema\b|\bgrammar\b|\bfunction_declarations?\b|\bfunction\.parameters\b|\btools?(\[\d+\]|\.\d+)|\$(ref|defs)\b|\badditionalProperties\b`)},
	{usagePart, regexp.MustCompile(`(?i)\bstream_options\b|\binclude_usage\b`)},
	{streamPart | usagePart, regexp.MustCompile(`(?i)\bstream(ing|ed)?\b`)},
	{thoughtsPart, regexp.MustCompile(`(?i)\breasoning(_content|_details)?\b|\bthinking_blocks\b`)},
	{imagesPart, regexp.MustCompile(`(?i)\bimages?\b|image_url|\bvision\b|multi-?modal|mmproj|\bcontent[ -]types?\b` +
		`|content\b.{0,40}\b(a|valid|type|expected) string\b`)},
}

// thoughts are the fields of a message that some servers require in the next request and others
// refuse.
var thoughts = []string{"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"}

// parts is a set of optional parts of a request.
type parts uint8

const (
	streamPart   parts = 1 << iota // the reply as a stream
	usagePart                      // usage in a stream
	thoughtsPart                   // the model's own thoughts
	imagesPart
	formPart   // the schema of a structured reply; without it a tool is used
	toolsPart  // tools; without them the model can still write text
	schemaPart // tools with words to send instead of them, for their schemas

	includePart // encrypted thoughts in a reply of Responses
)

func (p parts) has(q parts) bool { return p&q != 0 }

// Refusals remembers which parts of requests servers refuse. Clients may share it. The zero value
// is empty and ready for use.
type Refusals struct {
	mu   sync.Mutex
	seen map[server]parts
}

type server struct{ url, model string }

// maxServers bounds the size of Refusals. A forgotten refusal costs one request.
const maxServers = 1000

func (r *Refusals) partsOf(s server) parts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[s]
}

func (r *Refusals) addParts(s server, refused parts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.seen[s] | refused
	if r.seen == nil || len(r.seen) >= maxServers {
		r.seen = map[server]parts{}
	}
	r.seen[s] = all
}

func (c *Client) rememberRefused(refused parts) {
	if refused != 0 {
		c.own.addParts(c.server, refused&(imagesPart|schemaPart))
		c.options.Refusals.addParts(c.server, refused&^(imagesPart|schemaPart))
	}
}

func (p parts) refusedBy(err error, req llm.Request) parts {
	refused, _ := errors.AsType[partError](err)
	part := p & parts(refused)
	if part == formPart && req.Form == nil || part == toolsPart && len(req.Tools) == 0 || part == thoughtsPart && !slices.ContainsFunc(req.Messages, hasThoughts) ||
		part == imagesPart && !slices.ContainsFunc(req.Messages, func(m llm.Message) bool { return len(m.Images) > 0 }) ||
		part == schemaPart && !slices.ContainsFunc(req.Tools, func(t llm.Tool) bool { return t.Instead != "" }) {
		return 0
	}
	return part
}

func hasThoughts(m llm.Message) bool {
	return slices.ContainsFunc(thoughts, func(name string) bool { return m.Extra[name] != nil })
}

// refusedPart returns a partError for the part that the server refused, or nil. llama.cpp refuses
// images and schemas with status 500.
func refusedPart(status int, p errorBody) error {
	relevant := []int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusNotImplemented, http.StatusInternalServerError,
	}
	if !slices.Contains(relevant, status) {
		return nil
	}
	for _, part := range partWords {
		if status == http.StatusInternalServerError && part.refused&(imagesPart|schemaPart) == 0 {
			continue
		}
		if part.words.MatchString(p.param + " " + p.message) {
			return partError(part.refused)
		}
	}
	return nil
}
