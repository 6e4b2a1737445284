package chat

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"conclave/activities"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/llm/wire"
)

// responses is the protocol Responses.
type responses struct{}

var responseLimits = map[string]bounds{
	"temperature": {0, 2}, "top_p": {0, 1}, "top_logprobs": {0, 20}, "max_output_tokens": {1, 1e9}, "max_tool_calls": {1, 1e9},
}

func (responses) decode(body []byte) (request, error) {
	var in wire.ResponseRequest
	ignored, err := decodeBody(body, &in, responseLimits)
	out := request{ignored: ignored}
	switch {
	case err != nil:
		return out, err
	case in.Model == "":
		return out, invalidParam("model", "the request has no model; GET /v1/models lists the teams")
	case activities.Given(in.Conversation):
		return out, unsupportedParam("conversation", "give previous_response_id, or the whole input")
	case activities.Given(in.Prompt):
		return out, unsupportedParam("prompt", "this server stores no prompts; give input and instructions")
	}
	if in.PreviousResponseID != "" {
		if out.continues = sessionOfResponse(in.PreviousResponseID); out.continues == "" {
			return out, invalidParam("previous_response_id", "%.80q is not the id of a response of this server", in.PreviousResponseID)
		}
	}
	if err = out.readItems(in); err == nil {
		err = out.readTools(in.Tools)
	}
	if err == nil && in.Text != nil {
		err = out.readFormat("text.format", in.Text.Format)
	}
	if err == nil {
		err = out.chooseTools(in.ToolChoice)
	}
	out.model, out.stream, out.background, out.metadata = in.Model, in.Stream, in.Background, withPresenter(in.Metadata)
	if in.MaxOutputTokens != nil {
		out.limit = *in.MaxOutputTokens
	}
	return out, err
}

// withPresenter returns metadata in which the presenter alone is offered the caller's tools, unless
// they say otherwise: several agents in the one directory of a coding client would be in each
// other's way.
func withPresenter(given map[string]string) map[string]string {
	out := map[string]string{toolsFor: artifact.ForPresenter}
	maps.Copy(out, given)
	return out
}

// readItems translates the items of the input. Items that a model has thought, and calls of tools
// that a service runs, say nothing to a team.
func (out *request) readItems(in wire.ResponseRequest) error {
	if in.Instructions != "" {
		out.messages = append(out.messages, message{role: "system", Content: wire.Content{Text: in.Instructions}})
	}
	for i, item := range in.Input {
		switch item.Type {
		case "", wire.ItemMessage:
			out.addMessage(message{role: item.Role, Content: item.Content})
		case wire.ItemFunctionCall, wire.ItemCustomCall:
			out.messages = append(out.messages, message{role: "assistant", calls: []string{callText(item.Name, item.Arguments+item.Input)}})
		case wire.ItemFunctionOutput, wire.ItemCustomOutput:
			if item.CallID == "" {
				return invalidParam("input", "item %d, the output of a tool, has no call_id", i+1)
			}
			out.messages = append(out.messages, message{role: "tool", Content: item.Output, callID: item.CallID})
		case wire.ItemReasoning:
		default:
			if !strings.HasSuffix(item.Type, "_call") && !strings.HasSuffix(item.Type, "_output") {
				return invalidParam("input", "item %d has the type %.40q; send messages, calls of functions and their outputs", i+1, item.Type)
			}
		}
	}
	if len(in.Input) == 0 {
		return invalidParam("input", "the request has no input")
	}
	return nil
}

// addMessage adds a message. The text of a user right after the results of tools, such as a client's
// reminder, belongs to the last of them: results go to their session alone.
func (out *request) addMessage(m message) {
	last := len(out.messages) - 1
	if m.role != "assistant" && last >= 0 && out.messages[last].role == "tool" {
		out.messages[last].Text = strings.TrimSpace(out.messages[last].Text + "\n\n" + m.Text)
		return
	}
	out.messages = append(out.messages, m)
}

// responsePrefix makes the ID of a response from that of its session.
const responsePrefix = "resp_"

func sessionOfResponse(id string) string {
	session, ok := strings.CutPrefix(id, responsePrefix)
	if !ok {
		return ""
	}
	return session
}

func newResponse(want wish, id, status string) *wire.Response {
	return &wire.Response{
		ID: responsePrefix + id, Object: "response", CreatedAt: time.Now().Unix(), Status: status, Background: want.background, Model: want.model, Store: true,
		Metadata: map[string]string{}, Output: []wire.OutputItem{}, ParallelToolCalls: true, ToolChoice: "auto", Tools: []json.RawMessage{}, Text: json.RawMessage(`{"format":{"type":"text"}}`),
	}
}

func (responses) body(want wish, id string, r reply) any { return endedResponse(want, id, r) }

func endedResponse(want wish, id string, r reply) *wire.Response {
	out := newResponse(want, id, wire.StatusCompleted)
	out.Usage = responseUsage(r.usage)
	if r.ending == endedByLength {
		out.Status, out.IncompleteDetails = wire.StatusIncomplete, &wire.IncompleteDetails{Reason: "max_output_tokens"}
	}
	if len(r.calls) == 0 {
		out.Output = append(out.Output, messageItem(id, out.Status, r.answer))
	}
	for _, c := range r.calls {
		out.Output = append(out.Output, callItem(want, c))
	}
	return out
}

func responseUsage(u llm.Usage) *wire.ResponseUsage {
	out := &wire.ResponseUsage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens}
	out.InputDetails.CachedTokens, out.OutputDetails.ReasoningTokens = u.CachedInputTokens, u.ReasoningTokens
	return out
}

func messageItem(id, status, text string) wire.OutputItem {
	return wire.OutputItem{ID: "msg_" + id, Type: wire.ItemMessage, Status: status, Role: "assistant", Content: []wire.OutputPart{textPart(text)}}
}

func textPart(text string) wire.OutputPart {
	return wire.OutputPart{Type: "output_text", Text: text, Annotations: []json.RawMessage{}, Logprobs: []json.RawMessage{}}
}

// callItem returns the item of a call, in the form in which the tool was offered.
func callItem(want wish, c coordination.Call) wire.OutputItem {
	item := wire.OutputItem{ID: "fc_" + c.ID, Type: wire.ItemFunctionCall, Status: wire.StatusCompleted, CallID: c.ID, Name: c.Name, Arguments: &c.Arguments}
	if slices.Contains(want.custom, c.Name) {
		var args struct {
			Input string `json:"input"`
		}
		_ = json.Unmarshal([]byte(c.Arguments), &args) // checked against customParameters
		item.ID, item.Type, item.Arguments, item.Input = "ctc_"+c.ID, wire.ItemCustomCall, nil, &args.Input
	}
	return item
}

// showResponse sends how far a response is.
func (h *Handler) showResponse(w http.ResponseWriter, r *http.Request) {
	id := sessionOfResponse(r.PathValue("id"))
	run, err := h.desk.Find(r.Context(), access.From(r.Context()), id)
	if err != nil {
		sendRefusal(w, r, err)
		return
	}
	want := wish{model: ModelName(cmp.Or(run.Team, activities.DefaultTeam)), background: true, form: formOf(h.desk.AnswerSchema(r.Context(), id))}
	h.sendProgress(w, r, want, run.ID)
}

// sendProgress sends a response as it stands: in progress, waiting for results, or ended.
func (h *Handler) sendProgress(w http.ResponseWriter, r *http.Request, want wish, id string) {
	answered, running, err := h.desk.Peek(r.Context(), access.From(r.Context()), id)
	switch {
	case err == nil && running:
		writeJSON(w, r, newResponse(want, id, wire.StatusInProgress))
	case err == nil:
		writeJSON(w, r, endedResponse(want, id, newReply(want, answered)))
	default:
		h.sendFailure(w, r, want, id, err)
	}
}

// sendFailure sends the response of a session that ended without an answer, which is a reply like
// any other, or a refusal.
func (h *Handler) sendFailure(w http.ResponseWriter, r *http.Request, want wish, id string, err error) {
	refused, _ := refusalOf(err)
	ended, ok := strings.CutPrefix(refused.Code, "session_")
	if !ok || refused.Status != http.StatusInternalServerError {
		sendRefusal(w, r, err)
		return
	}
	out := newResponse(want, id, wire.StatusFailed)
	out.Error = &wire.ResponseError{Code: "server_error", Message: refused.Message}
	if ended == string(coordination.Cancelled) {
		out.Status, out.Error = wire.StatusCancelled, nil
	}
	writeJSON(w, r, out)
}

func (h *Handler) cancelResponse(w http.ResponseWriter, r *http.Request) {
	if h.reads {
		sendRefusal(w, r, &gateway.Refusal{Status: http.StatusForbidden, Code: "read_only", Message: "this server cancels no sessions: it runs with --read-only"})
		return
	}
	id := sessionOfResponse(r.PathValue("id"))
	if err := h.desk.Cancel(r.Context(), access.From(r.Context()), id); err != nil {
		sendRefusal(w, r, err)
		return
	}
	h.sendProgress(w, r, wish{model: modelPrefix, background: true}, id)
}

func (responses) begin(w http.ResponseWriter, want wish, id string) replyStream {
	s := &responseStream{events: newEvents(w), want: want, id: id}
	s.beat = func() {
		s.emitLocked(wire.ResponseEvent{Type: "response.in_progress", Response: newResponse(want, id, wire.StatusInProgress)})
	}
	s.emit(wire.ResponseEvent{Type: "response.created", Response: newResponse(want, id, wire.StatusInProgress)})
	s.emit(wire.ResponseEvent{Type: "response.in_progress", Response: newResponse(want, id, wire.StatusInProgress)})
	return s
}

// responseStream is the stream of a reply of Responses. Progress is the summary of a reasoning item.
type responseStream struct {
	*events
	want     wish
	id       string
	sequence int // number of the next event
	items    []wire.OutputItem
	thoughts *wire.OutputItem // progress so far; nil before the first line
}

func (s *responseStream) emit(e wire.ResponseEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emitLocked(e)
}

func (s *responseStream) emitLocked(e wire.ResponseEvent) {
	e.Sequence = s.sequence
	s.sequence++
	s.sendLocked(e.Type, e)
}

// emitItem sends an event of the item at an index, and of its first part.
func (s *responseStream) emitItem(index int, e wire.ResponseEvent) {
	first := 0
	e.OutputIndex = &index
	switch {
	case strings.Contains(e.Type, "summary"):
		e.SummaryIndex = &first
	case strings.Contains(e.Type, "content_part"), strings.Contains(e.Type, "output_text"):
		e.ContentIndex = &first
	}
	s.emit(e)
}

func (s *responseStream) tell(line string) {
	if s.thoughts == nil {
		s.thoughts = &wire.OutputItem{ID: "rs_" + s.id, Type: wire.ItemReasoning, Summary: []wire.OutputPart{}}
		item := *s.thoughts
		s.emitItem(0, wire.ResponseEvent{Type: "response.output_item.added", Item: &item})
		s.thoughts.Summary = []wire.OutputPart{{Type: "summary_text"}}
		s.emitItem(0, wire.ResponseEvent{Type: "response.reasoning_summary_part.added", ItemID: item.ID, Part: &wire.OutputPart{Type: "summary_text"}})
	}
	line += "\n"
	s.thoughts.Summary[0].Text += line
	s.emitItem(0, wire.ResponseEvent{Type: "response.reasoning_summary_text.delta", ItemID: s.thoughts.ID, Delta: &line})
}

func (s *responseStream) endThoughts() {
	if s.thoughts == nil {
		return
	}
	id, part := s.thoughts.ID, s.thoughts.Summary[0]
	s.emitItem(0, wire.ResponseEvent{Type: "response.reasoning_summary_text.done", ItemID: id, Text: &part.Text})
	s.emitItem(0, wire.ResponseEvent{Type: "response.reasoning_summary_part.done", ItemID: id, Part: &part})
	s.emitItem(0, wire.ResponseEvent{Type: "response.output_item.done", Item: s.thoughts})
	s.items = append(s.items, *s.thoughts)
}

func (s *responseStream) finish(r reply) {
	s.endThoughts()
	ended := endedResponse(s.want, s.id, r)
	for _, item := range ended.Output {
		if item.Type == wire.ItemMessage {
			s.sendMessage(item)
		} else {
			s.sendCall(item)
		}
		s.items = append(s.items, item)
	}
	ended.Output = s.items
	s.emit(wire.ResponseEvent{Type: "response." + ended.Status, Response: ended})
}

func (s *responseStream) sendMessage(item wire.OutputItem) {
	at, none := len(s.items), []json.RawMessage{}
	begun := item
	begun.Status, begun.Content = wire.StatusInProgress, []wire.OutputPart{}
	empty, whole := textPart(""), item.Content[0]
	s.emitItem(at, wire.ResponseEvent{Type: "response.output_item.added", Item: &begun})
	s.emitItem(at, wire.ResponseEvent{Type: "response.content_part.added", ItemID: item.ID, Part: &empty})
	for part := range cutPieces(whole.Text) {
		s.emitItem(at, wire.ResponseEvent{Type: "response.output_text.delta", ItemID: item.ID, Delta: &part, Logprobs: none})
	}
	s.emitItem(at, wire.ResponseEvent{Type: "response.output_text.done", ItemID: item.ID, Text: &whole.Text, Logprobs: none})
	s.emitItem(at, wire.ResponseEvent{Type: "response.content_part.done", ItemID: item.ID, Part: &whole})
	s.emitItem(at, wire.ResponseEvent{Type: "response.output_item.done", Item: &item})
}

func (s *responseStream) sendCall(item wire.OutputItem) {
	at, begun, nothing := len(s.items), item, ""
	begun.Status = wire.StatusInProgress
	kind := "response.function_call_arguments"
	done := wire.ResponseEvent{ItemID: item.ID, Name: item.Name, Arguments: item.Arguments}
	whole := item.Arguments
	if item.Type == wire.ItemCustomCall {
		begun.Input, kind, whole = &nothing, "response.custom_tool_call_input", item.Input
		done = wire.ResponseEvent{ItemID: item.ID, Input: item.Input}
	} else {
		begun.Arguments = &nothing
	}
	s.emitItem(at, wire.ResponseEvent{Type: "response.output_item.added", Item: &begun})
	s.emitItem(at, wire.ResponseEvent{Type: kind + ".delta", ItemID: item.ID, Delta: whole})
	done.Type = kind + ".done"
	s.emitItem(at, done)
	s.emitItem(at, wire.ResponseEvent{Type: "response.output_item.done", Item: &item})
}

func (s *responseStream) fail(refused *gateway.Refusal, _ string) {
	failed := newResponse(s.want, s.id, wire.StatusFailed)
	failed.Error = &wire.ResponseError{Code: "server_error", Message: refused.Message}
	s.emit(wire.ResponseEvent{Type: "response.failed", Response: failed})
}
