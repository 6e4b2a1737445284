package chat

import (
	"encoding/json"
	"slices"

	"conclave/activities"
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

// offeredTools returns the tools of a request, or nil if its tool_choice is "none". It refuses
// a tool_choice that forces a call, since the agents decide.
func (in request) offeredTools() (json.RawMessage, error) {
	var choice string
	if activities.Given(in.ToolChoice) && json.Unmarshal(in.ToolChoice, &choice) != nil {
		choice = "a tool"
	}
	switch choice {
	case "none":
		return nil, nil
	case "", "auto":
		if !activities.Given(in.Tools) {
			return nil, nil
		}
		return in.Tools, nil
	}
	return nil, unsupported("tool_choice", "the agents choose; give auto or none")
}

// resultsOf returns the tool results at the end of a request.
func resultsOf(messages []message) ([]coordination.ToolResult, error) {
	var results []coordination.ToolResult
	for _, m := range slices.Backward(messages) {
		if m.Role != "tool" {
			break
		}
		if m.ToolCallID == "" {
			return nil, invalid("messages", "a tool message at the end has no tool_call_id")
		}
		results = append(results, coordination.ToolResult{ID: m.ToolCallID, Content: string(m.Content)})
	}
	slices.Reverse(results)
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
