package chat

import (
	"encoding/json"
	"net/http"
	"strings"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/llm/wire"
	"conclave/engine/loop"
	"conclave/engine/text"
)

// messages is the protocol Messages.
type messages struct{}

var messageLimits = map[string]bounds{"temperature": {0, 1}, "top_p": {0, 1}, "max_tokens": {1, 1e9}}

func (messages) decode(body []byte) (request, error) {
	in, out, err := decodeMessages(body, messageLimits)
	if err != nil {
		return out, err
	}
	if in.MaxTokens == nil {
		return out, invalidParam("max_tokens", "the request has no max_tokens, which Messages requires")
	}
	out.limit, out.stops = *in.MaxTokens, in.StopSequences
	format := in.OutputConfig.Format
	if format == nil {
		format = in.OutputFormat
	}
	if err := out.readFormat("output_config.format", format); err != nil {
		return out, err
	}
	return out, out.chooseTools(in.ToolChoice)
}

// decodeMessages reads the fields that a request and a count of its tokens share.
func decodeMessages(body []byte, limits map[string]bounds) (in wire.MessagesRequest, out request, err error) {
	out.ignored, err = decodeBody(body, &in, limits)
	switch {
	case err != nil:
		return in, out, err
	case in.Model == "":
		return in, out, invalidParam("model", "the request has no model; GET /v1/models lists the teams")
	case len(in.Messages) == 0:
		return in, out, invalidParam("messages", "the request has no messages")
	}
	if in.System.Text != "" {
		out.messages = append(out.messages, message{role: "system", Content: in.System})
	}
	for _, m := range in.Messages {
		out.addBlocks(m)
	}
	out.model, out.stream, out.metadata = in.Model, in.Stream, map[string]string{toolsFor: artifact.ForPresenter}
	out.thinking = in.Thinking != nil && in.Thinking.Type != "disabled"
	return in, out, out.readTools(in.Tools)
}

// addBlocks adds the results in a message as messages of their own, and its text.
func (out *request) addBlocks(m wire.BlockMessage) {
	for _, result := range m.Blocks.Results {
		if result.IsError && !strings.HasPrefix(strings.ToLower(result.Content.Text), "error") {
			result.Content.Text = "error: " + result.Content.Text
		}
		out.messages = append(out.messages, message{role: "tool", Content: result.Content, callID: result.ID})
	}
	calls := text.Each(m.Blocks.Calls, func(c wire.BlockCall) string { return callText(c.Name, string(c.Input)) })
	if c := m.Blocks.Content; len(m.Blocks.Results) == 0 || c.Text != "" || len(c.Attachments) > 0 {
		out.addMessage(message{role: m.Role, Content: c, calls: calls})
	}
}

// countTokens sends the estimate of a request's tokens that agents use for their models' windows.
// The tokens that a session takes are those of its agents, which nobody knows before.
func (h *Handler) countTokens(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	var in request
	if err == nil {
		_, in, err = decodeMessages(body, nil)
	}
	if err == nil {
		_, err = h.teamOfModel(access.From(r.Context()), in.model)
	}
	if err != nil {
		sendRefusal(w, r, err)
		return
	}
	conversation := []llm.Message{{Content: string(in.tools)}}
	for _, m := range in.messages {
		conversation = append(conversation, llm.Message{Content: m.Text, Images: make([]llm.Image, len(m.Attachments))})
	}
	w.Header().Set("X-Conclave-Estimate", "true")
	writeJSON(w, r, map[string]any{"input_tokens": loop.History{Messages: conversation}.Tokens(nil), "estimate": true})
}

// Values of stop_reason.
var stopReasons = map[ending]string{
	endedAlone: wire.StopEndTurn, endedWithCalls: wire.StopToolUse, endedBySequence: wire.StopSequence, endedByLength: wire.StopMaxTokens,
}

func newMessage(want wish, id string) *wire.MessageReply {
	return &wire.MessageReply{ID: "msg_" + id, Type: "message", Role: "assistant", Model: want.model, Content: []wire.Block{}}
}

func (messages) body(want wish, id string, r reply) any {
	out := newMessage(want, id)
	out.Content, out.Usage = blocksOf(r), messageUsage(r.usage)
	out.StopReason, out.StopSequence = endOf(r)
	return out
}

func endOf(r reply) (reason, sequence *string) {
	why := stopReasons[r.ending]
	if r.sequence != "" {
		sequence = &r.sequence
	}
	return &why, sequence
}

func blocksOf(r reply) []wire.Block {
	if len(r.calls) == 0 {
		return []wire.Block{{Type: wire.BlockText, Text: &r.answer}}
	}
	var blocks []wire.Block
	for _, c := range r.calls {
		blocks = append(blocks, wire.Block{Type: wire.BlockToolUse, ID: c.ID, Name: c.Name, Input: json.RawMessage(c.Arguments)})
	}
	return blocks
}

// messageUsage returns the tokens as Messages counts them: those read from a cache are not input.
func messageUsage(u llm.Usage) wire.MessageUsage {
	return wire.MessageUsage{InputTokens: u.InputTokens - u.CachedInputTokens, CacheReadTokens: u.CachedInputTokens, OutputTokens: u.OutputTokens}
}

func (messages) begin(w http.ResponseWriter, want wish, id string) replyStream {
	s := &messageStream{events: newEvents(w), thinks: want.thinking}
	s.beat = func() { s.sendLocked("ping", wire.MessageEvent{Type: "ping"}) }
	s.emit(wire.MessageEvent{Type: "message_start", Message: newMessage(want, id)})
	s.emit(wire.MessageEvent{Type: "ping"})
	return s
}

// messageStream is the stream of a reply of Messages. Progress is a thinking block, if the client
// has asked for thoughts.
type messageStream struct {
	*events
	thinks   bool
	thinking bool // the block of thoughts is open
	blocks   int  // number of blocks that have ended
}

func (s *messageStream) emit(e wire.MessageEvent) { s.send(e.Type, func() any { return e }) }

func (s *messageStream) emitBlock(e wire.MessageEvent) {
	at := s.blocks
	e.Index = &at
	s.emit(e)
}

func (s *messageStream) tell(line string) {
	if !s.thinks {
		return
	}
	if !s.thinking {
		s.thinking = true
		nothing := ""
		s.emitBlock(wire.MessageEvent{Type: "content_block_start", Block: &wire.Block{Type: wire.BlockThinking, Thinking: &nothing, Signature: &nothing}})
	}
	s.emitBlock(wire.MessageEvent{Type: "content_block_delta", Delta: &wire.BlockDelta{Type: "thinking_delta", Thinking: line + "\n"}})
}

func (s *messageStream) endBlock() {
	s.emitBlock(wire.MessageEvent{Type: "content_block_stop"})
	s.blocks++
}

func (s *messageStream) finish(r reply) {
	if s.thinking {
		s.endBlock()
	}
	for _, block := range blocksOf(r) {
		if block.Type == wire.BlockText {
			s.sendText(*block.Text)
		} else {
			whole := string(block.Input)
			block.Input = json.RawMessage(`{}`)
			s.emitBlock(wire.MessageEvent{Type: "content_block_start", Block: &block})
			s.emitBlock(wire.MessageEvent{Type: "content_block_delta", Delta: &wire.BlockDelta{Type: "input_json_delta", PartialJSON: &whole}})
		}
		s.endBlock()
	}
	used := messageUsage(r.usage)
	end := &wire.BlockDelta{}
	end.StopReason, end.StopSequence = endOf(r)
	s.emit(wire.MessageEvent{Type: "message_delta", Delta: end, Usage: &used})
	s.emit(wire.MessageEvent{Type: "message_stop"})
}

func (s *messageStream) sendText(text string) {
	nothing := ""
	s.emitBlock(wire.MessageEvent{Type: "content_block_start", Block: &wire.Block{Type: wire.BlockText, Text: &nothing}})
	for part := range cutPieces(text) {
		s.emitBlock(wire.MessageEvent{Type: "content_block_delta", Delta: &wire.BlockDelta{Type: "text_delta", Text: part}})
	}
}

func (s *messageStream) fail(refused *gateway.Refusal, _ string) {
	wrong := access.MessageError(refused.Status, refused.Message)
	s.send("error", func() any { return wire.MessageFailure{Type: "error", Error: wrong} })
}
