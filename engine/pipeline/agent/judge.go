package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
)

// The tools by which a step goes elsewhere.
const (
	JumpTool = "jump_to_step"
	CallTool = "call_step"
)

// mcpPrefix begins the names of tools that come and go while a step runs.
const mcpPrefix = "mcp__"

// The kinds of loop.Action that a segment ends with. Those of a jump and a call
// are the actions themselves.
const (
	KindCompleted     = string(pipeline.Completed)
	KindMaxIterations = string(pipeline.MaxIterations)
	KindJump          = string(pipeline.Jump)
	KindCall          = string(pipeline.Call)
)

// Payload is the JSON of every loop.Action of a segment.
type Payload struct {
	Text string `json:"text"`         // beside the action; the step's text but for a call
	To   string `json:"to,omitempty"` // of a jump or a call
}

// withdrawn is what a control call is told whose action does not count yet.
const withdrawn = "Not done: somebody said something before it counted. Read it below, then decide again."

// Judge decides what a reply means: a reply without tool calls is the step's text
// and its end. What it may not do is refused in words, and changes nothing.
func (r *Rules) Judge(reply llm.Message) loop.Ruling {
	if len(reply.ToolCalls) == 0 {
		return loop.Ruling{Action: action(KindCompleted, Payload{Text: reply.Content})}
	}
	v := loop.Ruling{Told: map[string]string{}, Withdrawn: withdrawn}
	controls := r.refuse(reply.ToolCalls, v.Told)
	if len(controls) == 1 {
		v.Action = r.control(controls[0], reply.Content, v.Told)
	}
	if len(controls) > 1 {
		for _, call := range controls {
			v.Told[call.ID] = answer(false, "one of "+JumpTool+" and "+CallTool+" in a reply, once: none of them was done")
		}
	}
	if v.Action == nil && r.Iterations() >= r.task.Most {
		v.Action = action(KindMaxIterations, Payload{Text: reply.Content})
	}
	return v
}

// refuse answers calls of tools that are not there, and returns those that would
// lead elsewhere.
func (r *Rules) refuse(calls []llm.ToolCall, told map[string]string) []llm.ToolCall {
	var controls []llm.ToolCall
	for _, call := range calls {
		switch {
		case call.Name == JumpTool || call.Name == CallTool:
			controls = append(controls, call)
		case !slices.Contains(r.task.Tools, call.Name) && !strings.HasPrefix(call.Name, mcpPrefix):
			told[call.ID] = fmt.Sprintf("error: there is no tool %.64q; the tools are %s", call.Name, r.names())
		}
	}
	return controls
}

// control is the action of one control call; nil if it is refused.
func (r *Rules) control(call llm.ToolCall, text string, told map[string]string) *loop.Action {
	var arguments struct {
		Step string `json:"step_name"`
	}
	err := json.Unmarshal([]byte(call.Arguments), &arguments)
	choice := "one of " + strings.Join(r.task.Destinations, ", ")
	switch {
	case len(r.task.Destinations) == 0:
		told[call.ID] = answer(false, "this step leads nowhere: end it with your answer, without a tool call")
	case err != nil || arguments.Step == "":
		told[call.ID] = answer(false, "the argument step_name is missing: give "+choice)
	case !slices.Contains(r.task.Destinations, arguments.Step):
		told[call.ID] = answer(false, fmt.Sprintf("%.64q is no step to go to from here: give %s", arguments.Step, choice))
	case call.Name == CallTool && r.task.Deepest:
		told[call.ID] = answer(false, "too many steps wait for one they called: do it yourself, or use "+JumpTool)
	case call.Name == CallTool:
		told[call.ID] = answer(true, arguments.Step+" is called; what it comes to is told to you next")
		return action(KindCall, Payload{Text: text, To: arguments.Step})
	default:
		told[call.ID] = answer(true, arguments.Step+" takes over")
		return action(KindJump, Payload{Text: text, To: arguments.Step})
	}
	return nil
}

// answer is the result of a control call, a JSON object of success and message.
func answer(success bool, message string) string {
	// Text and a truth value always can be written.
	data, _ := json.Marshal(map[string]any{"success": success, "message": message})
	return string(data)
}

func action(kind string, p Payload) *loop.Action {
	payload, _ := json.Marshal(p) // text always can be written
	return &loop.Action{Kind: kind, Payload: payload}
}

func (r *Rules) names() string {
	var names []string
	for _, tool := range r.Offer() {
		names = append(names, tool.Name)
	}
	return strings.Join(append(names, r.task.Tools...), ", ")
}

// control describes a tool that leads to another step.
func control(name, description string, destinations []string) llm.Tool {
	schema, _ := json.Marshal(map[string]any{ // text always can be written
		"type":     "object",
		"required": []string{"step_name"},
		"properties": map[string]any{
			"step_name": map[string]any{"type": "string", "enum": destinations, "description": "The step to go to."},
		},
		"additionalProperties": false,
	})
	return llm.Tool{Name: name, Description: description, Parameters: schema}
}
