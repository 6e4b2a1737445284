package chat

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"conclave/activities"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/llm"
	"conclave/engine/llm/wire"
)

// completions is the protocol Chat Completions.
type completions struct{}

// completionLimits are the bounds of parameters that have no meaning here, but are wrong outside.
var completionLimits = map[string]bounds{
	"temperature": {0, 2}, "top_p": {0, 1}, "frequency_penalty": {-2, 2}, "presence_penalty": {-2, 2}, "top_logprobs": {0, 20},
	"max_tokens": {1, 1e9}, "max_completion_tokens": {1, 1e9}, "n": {1, 128},
}

func (completions) decode(body []byte) (request, error) {
	var in wire.ChatRequest
	ignored, err := decodeBody(body, &in, completionLimits)
	out := request{ignored: ignored}
	if err != nil {
		return out, err
	}
	given := func(raw json.RawMessage) bool { return activities.Given(raw) }
	switch {
	case in.Model == "":
		return out, invalidParam("model", "the request has no model; GET /v1/models lists the teams")
	case len(in.Messages) == 0:
		return out, invalidParam("messages", "the request has no messages")
	case in.N != nil && *in.N != 1:
		return out, unsupportedParam("n", "a session has one answer; send the request again for another")
	case given(in.Functions):
		return out, unsupportedParam("functions", "give tools")
	case given(in.Audio), slices.ContainsFunc(in.Modalities, func(m string) bool { return m != "text" }):
		return out, unsupportedParam("modalities", "the answer of a team is text")
	case given(in.WebSearch):
		return out, unsupportedParam("web_search_options", "the tools of a team are in its configuration")
	case in.Logprobs != nil && *in.Logprobs:
		return out, unsupportedParam("logprobs", "an answer that was decided by votes has none")
	}
	if out.stops, err = readStops(in.Stop); err != nil {
		return out, err
	}
	for _, m := range in.Messages {
		read := message{role: m.Role, Content: m.Content, callID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			read.calls = append(read.calls, callText(c.Function.Name, c.Function.Arguments))
		}
		out.messages = append(out.messages, read)
	}
	out.model, out.stream, out.tools, out.metadata = in.Model, in.Stream, in.Tools, in.Metadata
	out.usageApart = in.StreamOptions != nil && in.StreamOptions.IncludeUsage
	if most := cmp.Or(in.MaxCompletionTokens, in.MaxTokens); most != nil {
		out.limit = *most
	}
	if err = out.readFormat("response_format", in.ResponseFormat); err == nil {
		err = out.chooseTools(in.ToolChoice)
	}
	return out, err
}

// readStops reads a text or a list of at most four.
func readStops(raw json.RawMessage) (stops []string, err error) {
	const most = 4
	var one string
	switch {
	case !activities.Given(raw):
		return nil, nil
	case json.Unmarshal(raw, &one) == nil:
		stops = []string{one}
	case json.Unmarshal(raw, &stops) != nil || len(stops) > most:
		return nil, invalidParam("stop", "the value of stop is neither a text nor a list of up to %d texts", most)
	}
	return slices.DeleteFunc(stops, func(s string) bool { return s == "" }), nil
}

// Values of finish_reason.
var finishReasons = map[ending]string{endedAlone: "stop", endedBySequence: "stop", endedByLength: "length", endedWithCalls: "tool_calls"}

func (completions) body(want wish, id string, r reply) any {
	out := wire.ChatCompletion{
		ID: completionID(id), Object: "chat.completion", Created: time.Now().Unix(), Model: want.model, Usage: chatUsage(r.usage),
		Choices: []wire.ChatChoice{{Message: wire.ChatReply{Role: "assistant", Content: &r.answer}, FinishReason: finishReasons[r.ending]}},
	}
	if len(r.calls) > 0 {
		out.Choices[0].Message = wire.ChatReply{Role: "assistant", ToolCalls: chatCalls(r)}
	}
	return out
}

func completionID(session string) string { return "conclave-" + session }

func chatUsage(u llm.Usage) wire.ChatUsage {
	out := wire.ChatUsage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens, Cost: u.TotalUSD}
	out.PromptDetails.CachedTokens = u.CachedInputTokens
	out.CompletionDetails.ReasoningTokens = u.ReasoningTokens
	return out
}

func chatCalls(r reply) []wire.ToolCall {
	var calls []wire.ToolCall
	for _, c := range r.calls {
		calls = append(calls, wire.ToolCall{ID: c.ID, Type: "function", Function: wire.Function{Name: c.Name, Arguments: c.Arguments}})
	}
	return calls
}

func (completions) begin(w http.ResponseWriter, want wish, id string) replyStream {
	s := &completionStream{events: newEvents(w), id: completionID(id), model: want.model, apart: want.usageApart, created: time.Now().Unix()}
	s.beat = func() { s.writeLocked(": the session goes on\n\n") }
	s.sendDelta(wire.ChatDelta{Role: "assistant"}, "", nil)
	return s
}

// completionStream is the stream of a reply of Chat Completions.
type completionStream struct {
	*events
	id, model string
	apart     bool
	created   int64
}

func (s *completionStream) tell(line string) {
	s.sendDelta(wire.ChatDelta{Reasoning: line + "\n"}, "", nil)
}

// finish sends the answer and the usage. The usage is part of the event with the finish
// reason, or the event after it if the client asked for that.
func (s *completionStream) finish(r reply) {
	used := chatUsage(r.usage)
	for part := range cutPieces(r.answer) {
		s.sendDelta(wire.ChatDelta{Content: part}, "", nil)
	}
	if calls := chatCalls(r); len(calls) > 0 {
		for i := range calls {
			calls[i].Index = &i
		}
		s.sendDelta(wire.ChatDelta{ToolCalls: calls}, "", nil)
	}
	if s.apart {
		s.sendDelta(wire.ChatDelta{}, finishReasons[r.ending], nil)
		s.sendChunk(wire.ChatChunk{Choices: []wire.ChunkChoice{}, Usage: &used})
	} else {
		s.sendDelta(wire.ChatDelta{}, finishReasons[r.ending], &used)
	}
	s.write("data: [DONE]\n\n")
}

func (s *completionStream) fail(refused *gateway.Refusal, kind string) {
	s.write("data: %s\n\n", access.ErrorJSON(kind, refused.Code, refused.Param, refused.Message))
}

func (s *completionStream) sendDelta(d wire.ChatDelta, finish string, used *wire.ChatUsage) {
	c := wire.ChunkChoice{Delta: d}
	if finish != "" {
		c.FinishReason = &finish
	}
	s.sendChunk(wire.ChatChunk{Choices: []wire.ChunkChoice{c}, Usage: used})
}

func (s *completionStream) sendChunk(c wire.ChatChunk) {
	c.ID, c.Object, c.Created, c.Model = s.id, "chat.completion.chunk", s.created, s.model
	s.send("", func() any { return c })
}
