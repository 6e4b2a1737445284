package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"conclave/activities"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm/wire"
	"conclave/engine/text"
	sessionflow "conclave/workflows/session"
)

// Bounds of a request.
const (
	maxBody = 64 << 20 // most bytes of a body
	maxKey  = 256      // bytes of an Idempotency-Key

	maxCalled = 2 << 10 // bytes of a call, or its result, in an earlier turn
)

// Headers in addition to those of the protocols.
const (
	depthHeader   = "X-Conclave-Depth"
	sessionHeader = "X-Conclave-Session"
	ignoredHeader = "X-Conclave-Ignored"
	retryHeader   = "X-Stainless-Retry-Count" // header of the official clients that counts retries
)

// Metadata keys of a request.
const (
	sessionKey = "session_id"       // ID of the session
	toolsFor   = "client_tools_for" // limits the tools to some agents
)

// request is the question of a client, read from the body of any of the protocols.
type request struct {
	wish
	messages  []message
	metadata  map[string]string
	continues string   // ID of the session that the request goes on with; may be empty
	ignored   []string // parameters without a meaning here

	tools   json.RawMessage // in the form of Chat Completions; nil without
	mayCall bool            // tool_choice does not forbid calls
	schema  json.RawMessage // of the answer; nil for a text
	told    string          // instructions about its form
}

// message is a message of a conversation. Its role is system, user, assistant or tool.
type message struct {
	role string
	wire.Content
	callID string   // of a result
	calls  []string // calls of tools, each as one line
}

// wish is the form in which a request wants its reply. The request itself may be large and is
// not kept while the caller waits.
type wish struct {
	form
	model      string
	stream     bool
	background bool     // the reply is fetched later
	usageApart bool     // the usage has an event of its own
	thinking   bool     // the progress may be shown as thoughts
	hasTools   bool     // the caller may be asked to run tools
	limit      int      // most tokens of the answer; 0 for no limit
	stops      []string // texts before which the answer is cut
	custom     []string // names of the tools whose argument is plain text
}

// modelPrefix is the model name of the default team and the prefix of the other names.
const modelPrefix = "conclave"

// ModelName returns the model that stands for a team.
func ModelName(team string) string {
	if team == activities.DefaultTeam {
		return modelPrefix
	}
	return modelPrefix + "/" + team
}

func (h *Handler) teamOfModel(by access.Caller, model string) (gateway.Team, error) {
	var models []string
	for _, t := range h.desk.Teams(by) {
		if ModelName(t.Name) == model {
			return t, nil
		}
		models = append(models, ModelName(t.Name))
	}
	return gateway.Team{}, &gateway.Refusal{Status: http.StatusNotFound, Code: "model_not_found", Param: "model", Message: fmt.Sprintf(
		"there is no model %.80q for you; the models are %s", model, strings.Join(models, ", "))}
}

func invalidParam(param, format string, args ...any) error {
	return &gateway.Refusal{Status: http.StatusBadRequest, Code: "invalid_value", Param: param, Message: fmt.Sprintf(format, args...)}
}

// unsupportedParam returns the refusal of a parameter that cannot be ignored silently.
func unsupportedParam(param, why string) error {
	return &gateway.Refusal{Status: http.StatusBadRequest, Code: "unsupported_parameter", Param: param, Message: param + " is not supported: " + why}
}

// readBody reads a body of limited size. The server's timeouts limit its duration.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &gateway.Refusal{Status: http.StatusRequestEntityTooLarge, Code: "request_too_large", Message: fmt.Sprintf(
			"the request has more than %d bytes; put large material where the agents can read it", maxBody)}
	}
	if err != nil {
		return nil, invalidParam("", "the body could not be read: %v", err)
	}
	return body, nil
}

// bounds are the least and the greatest value of a parameter.
type bounds struct{ least, most float64 }

// decodeBody decodes a body, refuses parameters out of their bounds, and returns those that the
// struct has no field for, sorted.
func decodeBody(body []byte, into any, limits map[string]bounds) (ignored []string, err error) {
	if err := json.Unmarshal(body, into); err != nil {
		return nil, decodeRefusal(err)
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(body, &fields) // it is an object
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !hasField(reflect.TypeOf(into).Elem(), name) && activities.Given(fields[name]) {
			ignored = append(ignored, name)
		}
		if limit, ok := limits[name]; ok && err == nil {
			err = checkBounds(name, fields[name], limit)
		}
	}
	return ignored, err
}

func hasField(t reflect.Type, name string) bool {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return true
		}
	}
	return false
}

func checkBounds(name string, given json.RawMessage, b bounds) error {
	var value *float64
	switch err := json.Unmarshal(given, &value); {
	case err != nil:
		return invalidParam(name, "the value of %s is not a number; give one from %g to %g", name, b.least, b.most)
	case value != nil && (*value < b.least || *value > b.most):
		return invalidParam(name, "the value of %s is %g; give one from %g to %g", name, *value, b.least, b.most)
	}
	return nil
}

func decodeRefusal(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	content, unreadable := errors.AsType[*wire.ContentError](err)
	switch {
	case unreadable:
		return invalidParam("messages", "%v", content)
	case !ok:
		return invalidParam("", "the body is not JSON: %v", err)
	}
	kinds := map[reflect.Kind]string{
		reflect.String: "string", reflect.Int: "whole number", reflect.Bool: "boolean", reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object",
	}
	part := "the body"
	switch {
	case wrong.Field == "metadata" && wrong.Type.Kind() == reflect.String:
		return invalidParam("metadata", "a value of metadata is of type %s; give strings", wrong.Value)
	case wrong.Field != "":
		part = "the value of " + wrong.Field
	}
	return invalidParam(wrong.Field, "%s is of type %s; give one of type %s", part, wrong.Value, kinds[wrong.Type.Kind()])
}

// splitMessages translates the messages. The last user message is the query. Each earlier one
// begins a turn of the history, whose answer is all that was said until the next: replies, calls of
// tools and their results, of which long ones are cut. Calls whose results end the messages are shown
// below the query, whole.
func splitMessages(messages []message) (query message, instructions string, history []artifact.Turn, err error) {
	var system, said, called []string
	began, replied, last := false, false, "" // a user message has come, a reply to it; the role of the last message
	for i, m := range messages {
		switch last = m.role; m.role {
		case "system", "developer":
			system = append(system, m.Text)
		case "user":
			turn := artifact.Turn{Query: withPlaceholders(query), Answer: strings.Join(said, "\n\n")}
			if began && strings.TrimSpace(turn.Query+turn.Answer) != "" {
				history = append(history, turn)
			}
			began, replied, query, said, called = true, false, m, nil, nil
		case "assistant":
			if m.Text != "" {
				said, replied = append(said, m.Text), true
			}
			for _, c := range m.calls {
				said, called = append(said, text.Truncate(c, maxCalled)), append(called, c)
			}
		case "tool", "function":
			result := "result: " + m.Text
			said, called = append(said, text.Truncate(result, maxCalled)), append(called, result)
		default:
			return query, "", nil, invalidParam("messages", "message %d has the role %q; roles are system, developer, user, assistant and tool", i+1, m.role)
		}
	}
	if last == "tool" || last == "function" {
		query.Text = strings.TrimSpace(query.Text + "\n\nThe program that asks has run these functions for you since:\n" + strings.Join(called, "\n"))
		replied = false
	}
	switch {
	case replied:
		return query, "", nil, invalidParam("messages", "the last message is a reply; end with a user message, which is the query")
	case strings.TrimSpace(query.Text) == "":
		return query, "", nil, invalidParam("messages", "the last user message, which is the query, has no text")
	}
	return query, strings.Join(system, "\n\n"), history, nil
}

// callText returns a call of a tool as agents read it in a conversation.
func callText(name, arguments string) string { return "call: " + name + " " + arguments }

// withPlaceholders returns the text of an earlier message. Its attachments were seen then.
func withPlaceholders(m message) string {
	shown := m.Text
	for _, a := range m.Attachments {
		shown += fmt.Sprintf("\n[an earlier %s, not shown again]", a.Kind)
	}
	return shown
}

func (h *Handler) toQuestion(r *http.Request, by access.Caller, body []byte, in request) (gateway.Question, error) {
	var q gateway.Question
	var err error
	if q.Team, err = h.teamOfModel(by, in.model); err != nil {
		return q, err
	}
	if err := h.readDocuments(r.Context(), in.messages); err != nil {
		return q, err
	}
	if q.Input, err = sessionInput(r, in); err != nil {
		return q, err
	}
	if q.Input.Images, err = h.storePictures(r.Context(), in.messages); err != nil {
		return q, err
	}
	if in.continues != "" {
		if _, err := h.desk.Find(r.Context(), by, in.continues); err != nil {
			return q, err
		}
		q.Input.Continues = in.continues
	}
	if q.ID, err = sessionID(r, by, in); err != nil {
		return q, err
	}
	q.Hash = hashOf(body)
	count, _ := strconv.Atoi(r.Header.Get(retryHeader))
	q.Retry = count > 0
	return q, nil
}

// sessionInput applies the limits that a worker would apply, so that the refusal has HTTP's form.
func sessionInput(r *http.Request, in request) (sessionflow.Input, error) {
	query, instructions, history, err := splitMessages(in.messages)
	if err != nil {
		return sessionflow.Input{}, err
	}
	if in.told != "" {
		instructions = strings.TrimSpace(instructions + "\n\n" + in.told)
	}
	if in.limit > 0 && !in.asData {
		instructions = strings.TrimSpace(instructions + fmt.Sprintf("\n\nThe answer may have at most %d tokens; what is beyond is cut off.", in.limit))
	}
	out := sessionflow.Input{Query: query.Text, Instructions: instructions, History: history, AnswerSchema: in.schema}
	if in.mayCall && in.call == "" && activities.Given(in.tools) {
		out.ClientTools, out.ClientToolsFor = in.tools, in.metadata[toolsFor]
	}
	texts := artifact.Conversation{Query: out.Query, History: history, Instructions: instructions, ClientTools: out.ClientTools}
	if size := texts.Size(); size > artifact.MaxConversation {
		return out, &gateway.Refusal{Status: http.StatusBadRequest, Code: "context_length_exceeded", Param: "messages", Message: fmt.Sprintf(
			"the messages and the tools have %d bytes of text, at most %d are accepted", size, artifact.MaxConversation)}
	}
	if err := gateway.CheckTools(artifact.Caller{ClientTools: out.ClientTools, ClientToolsFor: out.ClientToolsFor}); err != nil {
		return out, err
	}
	if given := r.Header.Get(depthHeader); given != "" {
		if out.Depth, err = strconv.Atoi(given); err != nil || out.Depth < 0 {
			return out, invalidParam("", "the header %s is %q, not a whole number", depthHeader, given)
		}
		if out.Depth > artifact.MaxTeamDepth {
			return out, &gateway.Refusal{Status: http.StatusBadRequest, Code: "depth_exceeded", Message: fmt.Sprintf(
				"this request is %d levels of teams deep, and at most %d are allowed; does a team ask itself?", out.Depth, artifact.MaxTeamDepth)}
		}
	}
	return out, nil
}

// sessionID returns the ID of the session that the request names, or "".
func sessionID(r *http.Request, by access.Caller, in request) (string, error) {
	if id := in.metadata[sessionKey]; id != "" {
		if err := cli.CheckRunID(id); err != nil {
			return "", invalidParam("metadata.session_id", "%v", err)
		}
		return id, nil
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return "", invalidParam("", "the Idempotency-Key has %d bytes, at most %d are accepted", len(key), maxKey)
	}
	if key == "" {
		return "", nil
	}
	return gateway.SessionOf(by, key), nil
}

// hashOf returns the hash of a body in canonical JSON, without the fields that request a stream.
func hashOf(body []byte) string {
	var fields map[string]any
	_ = json.Unmarshal(body, &fields) // decodeBody has read it
	delete(fields, "stream")
	delete(fields, "stream_options")
	canonical, _ := json.Marshal(fields)
	return gateway.Hash(canonical)
}

// checkResults refuses parameters that would hold for a new question, but not for the session
// to which results return.
func (h *Handler) checkResults(by access.Caller, in request) error {
	if _, err := h.teamOfModel(by, in.model); err != nil {
		return err
	}
	if !in.mayCall || in.call != "" {
		return unsupportedParam("tool_choice", "a session that waits for results keeps its tools and the form of its answer; give auto with the results")
	}
	return nil
}

// resultsOf returns the tool results at the end of a request, or nil if the request is a new
// question. It refuses results mixed with other messages after the last reply, which would be
// neither results nor a new question. Results of calls that ended their session belong to the question.
func resultsOf(messages []message) (results []coordination.ToolResult, err error) {
	isResult := func(m message) bool {
		return (m.role == "tool" || m.role == "function") && !endedCall.MatchString(m.callID)
	}
	first := len(messages) // position of the first message after the last reply
	for first > 0 && messages[first-1].role != "assistant" {
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
			return nil, invalidParam("messages", "message %d has the role %q and is next to tool results; end the request with the results, and send other messages after the reply to them", number, m.role)
		case m.callID == "":
			return nil, invalidParam("messages", "message %d, the result of a tool, has no tool_call_id", number)
		case at[m.callID] > 0:
			return nil, invalidParam("messages", "messages %d and %d are both the result of the call %.80q; send one", at[m.callID], number, m.callID)
		}
		at[m.callID] = number
		results = append(results, coordination.ToolResult{ID: m.callID, Content: m.Text})
	}
	return results, nil
}
