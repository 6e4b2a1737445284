package chat

import (
	"encoding/json"
	"slices"

	"conclave/activities"
	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/desk"
	"conclave/engine/coordination"
)

// toolsFor is the metadata key that limits the tools to some agents.
const toolsFor = "client_tools_for"

// hasTools reports whether the caller may be asked to run tools because it offered some
// or returned results.
func (in request) hasTools() bool {
	return activities.Given(in.Tools) || slices.ContainsFunc(in.Messages, func(m message) bool { return m.Role == "tool" })
}

// offeredTools returns the tools of a request, or nil if its tool_choice is "none".
func (in request) offeredTools() (json.RawMessage, error) {
	mayCall, err := in.mayCall()
	if err != nil || !mayCall || !activities.Given(in.Tools) {
		return nil, err
	}
	return in.Tools, nil
}

// mayCall reports whether the tool_choice of a request lets the agents call tools. It refuses one
// that forces a call, since the agents decide.
func (in request) mayCall() (bool, error) {
	var choice string
	if activities.Given(in.ToolChoice) && json.Unmarshal(in.ToolChoice, &choice) != nil {
		choice = "a tool"
	}
	switch choice {
	case "none":
		return false, nil
	case "", "auto":
		return true, nil
	}
	return false, unsupported("tool_choice", "the agents choose; give auto or none")
}

// checkResults refuses parameters that would hold for a new question, but not for the session
// to which results return.
func (h *Handler) checkResults(by access.Caller, in request) error {
	if _, err := h.team(by, in.Model); err != nil {
		return err
	}
	mayCall, err := in.mayCall()
	if err == nil && !mayCall {
		err = unsupported("tool_choice", "none does not take the tools away from a session that has them; give auto with the results")
	}
	return err
}

// resultsOf returns the tool results at the end of a request, or nil if the request is a new
// question. It refuses results mixed with other messages after the last reply, which would be
// neither results nor a new question.
func resultsOf(messages []message) (results []coordination.ToolResult, err error) {
	isResult := func(m message) bool { return m.Role == "tool" || m.Role == "function" }
	first := len(messages) // position of the first message after the last reply
	for first > 0 && messages[first-1].Role != "assistant" {
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
			return nil, invalid("messages", "message %d has the role %q and is next to tool results; end the request with the results, and send other messages after the reply to them", number, m.Role)
		case m.ToolCallID == "":
			return nil, invalid("messages", "message %d, the result of a tool, has no tool_call_id", number)
		case at[m.ToolCallID] > 0:
			return nil, invalid("messages", "messages %d and %d are both the result of the call %.80q; send one", at[m.ToolCallID], number, m.ToolCallID)
		}
		at[m.ToolCallID] = number
		results = append(results, coordination.ToolResult{ID: m.ToolCallID, Content: string(m.Content)})
	}
	return results, nil
}

// callsOf returns the calls of a reply.
func callsOf(r desk.Reply) []toolCall {
	var calls []toolCall
	for _, c := range r.Calls {
		calls = append(calls, toolCall{ID: c.ID, Type: "function", Function: function{Name: c.Name, Arguments: c.Arguments}})
	}
	return calls
}
