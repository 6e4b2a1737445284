package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	"conclave/engine/step"
	"conclave/engine/text"
)

// The control tools: each ends the launch.
const (
	jumpTool = "jump_to_step"
	callTool = "call_step"

	outputTool = "submit_output"
)

// mcpPrefix is the prefix of tools that may appear and disappear while a step runs.
const mcpPrefix = "mcp__"

// The kinds of loop.Action that end a launch.
const (
	kindCompleted     = string(pipeline.Completed)
	kindMaxIterations = string(pipeline.MaxIterations)
	kindJump          = string(pipeline.Jump)
	kindCall          = string(pipeline.Call)
	kindFailed        = string(pipeline.Failed) // failed by a tool call
)

// payload is the JSON of every loop.Action of a step.
type payload struct {
	Text string `json:"text"`         // text beside the action; the step's text except for a call
	To   string `json:"to,omitempty"` // destination of a jump or a call

	Output json.RawMessage `json:"output,omitempty"` // fits the schema of the step
	results
}

// rules judge one launch of an agent's step. They are a fold of its journal over a task.
type rules struct {
	task    task
	conv    loop.Conversation
	asked   int  // model calls of this launch
	heard   int  // number of the last human message
	delayed bool // an action was withdrawn for messages
	warned  bool // the limit of model calls was announced

	spending bool // the end of the allowance was announced

	results results   // results of a tools step's calls
	usage   llm.Usage // usage of this launch
}

var _ loop.Rules = (*rules)(nil)

func newRules(task task) *rules {
	r := &rules{task: task}
	if task.Return != nil {
		r.heard = task.Return.Heard
	}
	return r
}

func (r *rules) countIterations() int { return r.task.Used + r.asked }

// Offer implements loop.Rules: it returns the control tools.
func (r *rules) Offer() []llm.Tool {
	var tools []llm.Tool
	if s := r.task.Output; s != nil && r.task.Kind == pipeline.Agent {
		tools = append(tools, llm.Tool{
			Name: outputTool, Description: "Hand in the output of this step, which ends with this call.", Parameters: outputArguments(s),
			Instead: "End this step with its output: a reply with a fenced block of JSON that fits this schema: " + s.Sent(""),
		})
	}
	if len(r.task.Destinations) == 0 {
		return tools
	}
	tools = append(tools, controlTool(jumpTool, "Hand over to another step, for good: this step ends with this call.", r.task.Destinations))
	if !r.task.Deepest {
		if open := r.task.openDestinations(); len(open) > 0 {
			tools = append(tools, controlTool(callTool, "Have another step do its work now. Its result comes back to you, and you go on from here.", open))
		}
	}
	return tools
}

// isObject reports whether the data of a schema are an object.
func isObject(s *llm.DataSchema) bool {
	var schema struct{ Type any }
	return json.Unmarshal([]byte(s.Sent("")), &schema) == nil && schema.Type == "object"
}

// outputArguments returns the parameters of submit_output: the schema itself, or one with the argument value
// if the output is no object.
func outputArguments(s *llm.DataSchema) json.RawMessage {
	if isObject(s) {
		return json.RawMessage(s.Sent(""))
	}
	return json.RawMessage(`{"type":"object","properties":{"value":` + s.Sent("/properties/value") + `},"required":["value"],"additionalProperties":false}`)
}

func controlTool(name, description string, destinations []string) llm.Tool {
	schema, _ := json.Marshal(map[string]any{ // encoding of strings cannot fail
		"type":     "object",
		"required": []string{"step_name"},
		"properties": map[string]any{
			"step_name": map[string]any{"type": "string", "enum": destinations, "description": "The step to go to."},
		},
		"additionalProperties": false,
	})
	return llm.Tool{Name: name, Description: description, Parameters: schema}
}

// withdrawn is the result of a control call whose action is withdrawn because of new messages.
const withdrawn = "Not done: a message arrived before it counted. Read it below, then decide again."

// Judge implements loop.Rules. A reply without tool calls is the step's text and
// ends it, unless it only names a control tool; refusals have no effect.
func (r *rules) Judge(reply llm.Message) loop.Ruling {
	if len(reply.ToolCalls) == 0 {
		if len(r.task.Destinations) > 0 && r.countIterations() < r.task.Most && loop.NamesTool(reply.Content, jumpTool, callTool) {
			return loop.Ruling{Rejected: "tool_name_alone", Say: "Your reply is only the name of a tool. Call the tool, or end the step with your result as text."}
		}
		return r.judgeText(reply.Content)
	}
	v := loop.Ruling{Results: map[string]string{}, Withdrawn: withdrawn, StopAtFailure: r.task.StopAtFailure}
	controls := r.refuseUnknown(reply.ToolCalls, v.Results)
	if len(controls) == 1 {
		v.Action = r.judgeControl(controls[0], reply.Content, v.Results)
	}
	if len(controls) > 1 {
		for _, call := range controls {
			v.Results[call.ID] = controlAnswer(false, "one of "+strings.Join(r.controlNames(), " and ")+" in a reply, once: none of them was done")
		}
	}
	if v.Action == nil && r.countIterations() >= r.task.Most {
		v.Action = controlAction(kindMaxIterations, payload{Text: reply.Content})
	}
	return v
}

// controlNames returns the names of the control tools.
func (r *rules) controlNames() []string {
	if r.task.Output != nil {
		return []string{jumpTool, callTool, outputTool}
	}
	return []string{jumpTool, callTool}
}

// judgeText ends a step with a text. A step with an output has it in the text, or from its team (rule 21).
func (r *rules) judgeText(content string) loop.Ruling {
	p, kind := payload{Text: content, results: r.results}, kindCompleted
	if reply := r.task.Reply; reply != nil {
		p.Output, _ = json.Marshal(map[string]any{"approved": reply.Allow, "option": reply.Option, "text": reply.Text, "by": reply.By}) // encoding of these cannot fail
		return loop.Ruling{Action: controlAction(kind, p)}
	}
	if j := r.task.Join; j != nil {
		if p.Output, p.Why = j.Output, j.Why; p.Why != "" {
			kind, p.Failed = kindFailed, true
		}
		return loop.Ruling{Action: controlAction(kind, p)}
	}
	if r.task.StopAtFailure && r.results.Failed {
		return loop.Ruling{Action: controlAction(kindFailed, p)}
	}
	if r.task.Output == nil {
		return loop.Ruling{Action: controlAction(kind, p)}
	}
	d, words, err := r.readOutput(content)
	switch {
	case err == nil:
		p.Text, p.Output = words, d
	case r.task.Kind != pipeline.Agent:
		kind, p.Failed, p.Why = kindFailed, true, "its output: "+err.Error()
	case r.countIterations() >= r.task.Most:
		kind = kindMaxIterations
	default:
		return loop.Ruling{Rejected: "no_output", Say: "This step ends with an output. Call " + outputTool + ", or reply with a fenced block of JSON: " + err.Error() + "."}
	}
	return loop.Ruling{Action: controlAction(kind, p)}
}

// readOutput returns the output in the text of a step, or in its team's data, and the text of the step.
func (r *rules) readOutput(content string) (output json.RawMessage, words string, err error) {
	given, words := string(r.task.Data), content
	switch r.task.Kind {
	case pipeline.Tools:
		given = r.lastResult()
	case pipeline.Agent:
		var found bool
		if given, _, found = llm.FindData(content); !found {
			return nil, "", errors.New("the reply has none")
		}
	case pipeline.Session:
		if given == "" {
			return nil, "", errors.New("the decision has no data")
		}
	case pipeline.Parallel, pipeline.ForEach, pipeline.Nested, pipeline.Approval: // these end with their Join or Reply
	}
	d, err := r.task.Output.Read([]byte(given))
	return d.JSON, words, err
}

// lastResult returns the result of the last call of a tools step, that of a command without the line on its exit.
func (r *rules) lastResult() string {
	result := ""
	for _, m := range r.conv.Messages {
		if m.Role == llm.ToolRole {
			result = m.Content
		}
	}
	if first, rest, _ := strings.Cut(result, "\n"); strings.HasPrefix(first, "exit code 0") {
		return rest
	}
	return result
}

// refuseUnknown adds the results of calls of unknown tools, and returns the control calls.
func (r *rules) refuseUnknown(calls []llm.ToolCall, results map[string]string) []llm.ToolCall {
	var controls []llm.ToolCall
	for _, call := range calls {
		switch {
		case slices.Contains(r.controlNames(), call.Name):
			controls = append(controls, call)
		case !slices.Contains(r.task.Tools, call.Name) && !strings.HasPrefix(call.Name, mcpPrefix):
			results[call.ID] = fmt.Sprintf("error: there is no tool %.64q; the tools are %s", call.Name, r.toolNames())
		}
	}
	return controls
}

// judgeControl adds the result of a control call and returns its action, or nil if the call is refused.
func (r *rules) judgeControl(call llm.ToolCall, text string, results map[string]string) *loop.Action {
	if call.Name == outputTool {
		return r.judgeOutput(call, text, results)
	}
	var arguments struct {
		Step string `json:"step_name"`
	}
	err := json.Unmarshal([]byte(call.Arguments), &arguments)
	choice := "one of " + strings.Join(r.task.Destinations, ", ")
	switch {
	case len(r.task.Destinations) == 0:
		results[call.ID] = controlAnswer(false, "this step leads nowhere: end it with your answer, without a tool call")
	case err != nil || arguments.Step == "":
		results[call.ID] = controlAnswer(false, "the argument step_name is missing: give "+choice)
	case !slices.Contains(r.task.Destinations, arguments.Step):
		results[call.ID] = controlAnswer(false, fmt.Sprintf("%.64q is no step to go to from here: give %s", arguments.Step, choice))
	case call.Name == callTool && r.task.Deepest:
		results[call.ID] = controlAnswer(false, "too many steps wait for one they called: do it yourself, or use "+jumpTool)
	case call.Name == callTool && slices.Contains(r.task.Closed, arguments.Step):
		results[call.ID] = controlAnswer(false, arguments.Step+" was entered as often as max_visits allows: do without it, or use "+jumpTool)
	case call.Name == callTool:
		results[call.ID] = controlAnswer(true, arguments.Step+" is called; its result is your next message")
		return controlAction(kindCall, payload{Text: text, To: arguments.Step})
	default:
		results[call.ID] = controlAnswer(true, arguments.Step+" takes over")
		return controlAction(kindJump, payload{Text: text, To: arguments.Step})
	}
	return nil
}

// judgeOutput ends a step with the data of a call if they fit. The words beside the call are its text, above the data.
func (r *rules) judgeOutput(call llm.ToolCall, words string, results map[string]string) *loop.Action {
	given := json.RawMessage(call.Arguments)
	if !isObject(r.task.Output) {
		var wrapped struct{ Value json.RawMessage }
		if json.Unmarshal(given, &wrapped) == nil && wrapped.Value != nil {
			given = wrapped.Value
		}
	}
	d, err := r.task.Output.Read(given)
	if err != nil {
		results[call.ID] = controlAnswer(false, "the output does not fit the schema: "+err.Error())
		return nil
	}
	results[call.ID] = controlAnswer(true, "the output is handed in")
	var indented bytes.Buffer
	_ = json.Indent(&indented, d.JSON, "", "  ")
	shown := indented.String()
	if strings.TrimSpace(words) != "" {
		shown = strings.TrimSpace(words) + "\n\n```json\n" + shown + "\n```"
	}
	return controlAction(kindCompleted, payload{Text: shown, Output: d.JSON})
}

func controlAnswer(success bool, message string) string {
	data, _ := json.Marshal(map[string]any{"success": success, "message": message}) // encoding of strings cannot fail
	return string(data)
}

func controlAction(kind string, p payload) *loop.Action {
	data, _ := json.Marshal(p) // encoding of strings cannot fail
	return &loop.Action{Kind: kind, Payload: data}
}

func (r *rules) toolNames() string {
	names := text.Each(r.Offer(), func(tool llm.Tool) string { return tool.Name })
	return strings.Join(append(names, r.task.Tools...), ", ")
}

// memory is the journaled note of an update.
type memory struct {
	Heard int  `json:"heard"`
	Late  bool `json:"late,omitempty"`  // it withdrew an action
	Limit bool `json:"limit,omitempty"` // it announces the limit of model calls

	Spending bool `json:"spending,omitempty"` // the message announces the end of the allowance
}

// Updates implements loop.Rules. It returns the human messages at a safe point and, once, a
// warning that the limit of model calls is near.
func (r *rules) Updates(ctx context.Context) (loop.Update, error) {
	if u, err := r.checkAllowance(); err != nil || len(u.Messages) > 0 {
		return u, err
	}
	if made, most := r.countIterations(), r.task.Most; !r.warned && loop.NearLimit(made, most) {
		note, err := json.Marshal(memory{Heard: r.heard, Limit: true})
		text := fmt.Sprintf("You have made %d of the %d model calls of this step. Finish now: the step ends after %d more.", made, most, most-made)
		return loop.Update{Messages: []llm.Message{{Role: llm.User, Content: text}}, Note: note}, err
	}
	return r.readNews(ctx, false)
}

// warnShare is the share of the allowance at which the agent is asked to finish.
const warnShare = 0.8

// checkAllowance ends a step that has spent its allowance. When most of it is spent, it
// asks the agent once to finish.
func (r *rules) checkAllowance() (loop.Update, error) {
	limit, spent := r.task.CostUSD, r.usage.AtLeastUSD()
	switch {
	case limit == 0 || spent < limit*warnShare || spent < limit && r.spending:
		return loop.Update{}, nil
	case spent >= limit:
		return loop.Update{}, &loop.OverspentError{Spent: spent, Limit: limit}
	}
	note, err := json.Marshal(memory{Heard: r.heard, Spending: true})
	text := fmt.Sprintf("This step has spent %s of its %s. Finish now: the step ends when the rest is spent.", llm.FormatUSD(spent, 4), llm.FormatUSD(limit, 4))
	return loop.Update{Messages: []llm.Message{{Role: llm.User, Content: text}}, Note: note}, err
}

// Confirm implements loop.Rules. New messages withdraw an action, at most once.
func (r *rules) Confirm(ctx context.Context, _ loop.Action) (loop.Update, error) {
	if r.delayed || r.countIterations() >= r.task.Most {
		return loop.Update{}, nil
	}
	return r.readNews(ctx, true)
}

func (r *rules) readNews(ctx context.Context, late bool) (loop.Update, error) {
	if r.task.News == nil {
		return loop.Update{}, nil
	}
	messages, err := r.task.News(ctx, r.heard)
	if err != nil {
		return loop.Update{}, fmt.Errorf("read human messages: %w", err)
	}
	if len(messages) == 0 {
		return loop.Update{}, nil
	}
	note, err := json.Marshal(memory{Heard: messages[len(messages)-1].Number, Late: late})
	return loop.Update{Messages: []llm.Message{step.Quote(messages)}, Note: note}, err
}

func (r *rules) Learn(_ context.Context, e loop.Entry) error {
	r.conv.Add(e)
	if e.Usage != nil {
		r.usage = r.usage.Add(*e.Usage)
	}
	switch e.Kind {
	case loop.Reply:
		r.asked++
	case loop.Results:
		if r.task.Kind == pipeline.Tools { // the exit codes of an agent's commands do not count
			r.results.addOutcomes(r.conv, e.Outcomes)
		}
	case loop.Resumed: // the resumed step has an allowance of its own
		r.usage, r.spending = llm.Usage{}, false
	case loop.Updated:
		if len(e.Note) == 0 {
			return nil
		}
		var m memory
		if err := json.Unmarshal(e.Note, &m); err != nil {
			return fmt.Errorf("read the note of an update: %w", err)
		}
		r.heard, r.delayed = max(r.heard, m.Heard), r.delayed || m.Late
		r.warned, r.spending = r.warned || m.Limit, r.spending || m.Spending
	}
	return nil
}
