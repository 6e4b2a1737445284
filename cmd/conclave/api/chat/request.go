package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"conclave/activities"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/cli"
	"conclave/engine/files/artifact"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// Bounds of a request.
const (
	maxBody = 4 << 20 // most bytes of a body
	maxKey  = 256     // bytes of an Idempotency-Key
)

// Headers in addition to those of OpenAI's API.
const (
	depthHeader   = "X-Conclave-Depth"
	sessionHeader = "X-Conclave-Session"
	retryHeader   = "X-Stainless-Retry-Count" // header of OpenAI's clients that counts retries
)

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

func decodeRequest(body []byte) (request, error) {
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		return in, decodeRefusal(err)
	}
	given := func(raw json.RawMessage) bool { return activities.Given(raw) }
	switch {
	case in.Model == "":
		return in, invalidParam("model", "the request has no model; GET /v1/models lists the teams")
	case len(in.Messages) == 0:
		return in, invalidParam("messages", "the request has no messages")
	case in.N != nil && *in.N != 1:
		return in, unsupportedParam("n", "a session has one answer; send the request again for another")
	case in.ResponseFormat != nil && in.ResponseFormat.Type != "text" && in.ResponseFormat.Type != "":
		return in, unsupportedParam("response_format", "the answer of a team is text; ask for the form that you need in a message")
	case given(in.Functions):
		return in, unsupportedParam("functions", "give tools")
	case given(in.Audio), slices.ContainsFunc(in.Modalities, func(m string) bool { return m != "text" }):
		return in, unsupportedParam("modalities", "the answer of a team is text")
	case given(in.WebSearch):
		return in, unsupportedParam("web_search_options", "the tools of a team are in its configuration")
	case in.Logprobs != nil && *in.Logprobs:
		return in, unsupportedParam("logprobs", "an answer that was decided by votes has none")
	}
	return in, nil
}

func decodeRefusal(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case errors.Is(err, errNotText):
		return invalidParam("messages", "%v", err)
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
// begins a turn of the history, whose answer is empty if no reply follows. Tool results in
// earlier turns are left out, because the reply after them covers them.
func splitMessages(messages []message) (query, instructions string, history []artifact.Turn, err error) {
	var system, replied []string
	began := false // a user message has come
	for i, m := range messages {
		text := string(m.Content)
		switch m.Role {
		case "system", "developer":
			system = append(system, text)
		case "user":
			turn := artifact.Turn{Query: query, Answer: strings.Join(replied, "\n\n")}
			if began && strings.TrimSpace(turn.Query+turn.Answer) != "" {
				history = append(history, turn)
			}
			began, query, replied = true, text, nil
		case "assistant":
			if text != "" {
				replied = append(replied, text)
			}
		case "tool", "function":
		default:
			return "", "", nil, invalidParam("messages", "message %d has the role %q; roles are system, developer, user, assistant and tool", i+1, m.Role)
		}
	}
	switch {
	case len(replied) > 0:
		return "", "", nil, invalidParam("messages", "the last message is a reply; end with a user message, which is the query")
	case strings.TrimSpace(query) == "":
		return "", "", nil, invalidParam("messages", "the last user message, which is the query, has no text")
	}
	return query, strings.Join(system, "\n\n"), history, nil
}

func (h *Handler) toQuestion(r *http.Request, by access.Caller, body []byte, in request) (gateway.Question, error) {
	var q gateway.Question
	var err error
	if q.Team, err = h.teamOfModel(by, in.Model); err != nil {
		return q, err
	}
	if q.Input, err = sessionInput(r, in); err != nil {
		return q, err
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
	query, instructions, history, err := splitMessages(in.Messages)
	if err != nil {
		return sessionflow.Input{}, err
	}
	out := sessionflow.Input{Query: query, Instructions: instructions, History: history}
	size := len(query)
	for _, t := range history {
		size += len(t.Query) + len(t.Answer)
	}
	if size > workflows.MaxInput || len(instructions) > workflows.MaxInput {
		return out, &gateway.Refusal{Status: http.StatusBadRequest, Code: "context_length_exceeded", Param: "messages", Message: fmt.Sprintf(
			"the messages have %d bytes, at most %d are accepted", size+len(instructions), workflows.MaxInput)}
	}
	if out.ClientTools, err = in.offeredTools(); err != nil {
		return out, err
	}
	if len(out.ClientTools) > 0 {
		out.ClientToolsFor = in.Metadata[toolsFor]
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
	if id := in.Metadata["session_id"]; id != "" {
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
	_ = json.Unmarshal(body, &fields) // decodeRequest has read it
	delete(fields, "stream")
	delete(fields, "stream_options")
	canonical, _ := json.Marshal(fields)
	return gateway.Hash(canonical)
}
