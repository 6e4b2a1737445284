//go:build simulate

package stagetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session/check"
	"conclave/engine/session/quality"
	"conclave/engine/step"
)

// model is the model of an agent. Usually it answers, then votes for the first answer that it is shown.
type model struct {
	proc  *process
	agent config.Agent
}

// Generate implements loop.Model.
func (m *model) Generate(ctx context.Context, req llm.Request) (reply llm.Reply, err error) {
	w := m.proc.w
	request := w.facts.asked(ctx)
	options := []option{
		{"slow 20s", 20}, {"slow 2m", 6}, {"hang 10m", 2}, {"overloaded", 10}, {"unreached", 6}, {"limited", 6}, {"unusable", 6}, {"refused", 1},
	}
	asis := func(err error) error {
		if ctx.Err() == nil {
			return failedCall("unreached")
		}
		return fmt.Errorf("call the model: %w", err)
	}
	err = w.call(ctx, m.proc, "model", options, asis, func(what string) error {
		if time.Now().Before(w.people.modelsAway[m.agent.ID]) {
			what = "overloaded"
		}
		attempt.Replying(ctx)
		if failed := failedCall(what); failed != nil {
			reply.Usage = request.ends(what)
			return failed
		}
		w.facts.requested(executionOf(ctx), req)
		reply.Message = m.reply(ctx, req)
		reply.Usage = request.ends("")
		return nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		request.state = "cut"
		return llm.Reply{}, err
	case request.state == "": // no reply came
		request.state = "refused"
	}
	return reply, err
}

func failedCall(what string) error {
	switch what {
	case "overloaded":
		return &llm.Error{Kind: llm.Overloaded, Status: 503, Message: "simulated: overloaded"}
	case "unreached":
		return &llm.Error{Kind: llm.Network, Message: "simulated: unreached"}
	case "limited":
		return &llm.Error{Kind: llm.RateLimited, Status: 429, RetryAfter: 20 * time.Second, Message: "simulated: limited"}
	case "unusable":
		return &llm.Error{Kind: llm.BadReply, Status: 200, Message: "simulated: unusable"}
	case "refused":
		return &llm.Error{Kind: llm.AuthFailed, Status: 401, Message: "simulated: refused"}
	}
	return nil
}

// reply decides for one of the calls that are open.
func (m *model) reply(ctx context.Context, req llm.Request) llm.Message {
	w := m.proc.w
	offered := map[string]llm.Tool{}
	for _, t := range req.Tools {
		offered[t.Name] = t
	}
	has := func(name string) bool { _, ok := offered[name]; return ok }
	electable := enumOf(offered["vote"], "agent_id")
	options := []option{{"text", 10}, {"two actions", 5}, {"unknown tool", 5}}
	if has("write_file") {
		options = append(options, option{"write", 80}, option{"run", 60}, option{"write and act", 30}, option{"write and run", 30}, option{"run twice", 10})
	}
	for i, label := range electable {
		options = append(options, option{"vote " + label, 80 + 10*float64(i)})
	}
	for _, name := range []string{"new_answer", "stop"} {
		if has(name) {
			options = append(options, option{name, 100})
		}
	}
	if has("ask_person") {
		options = append(options, option{"ask a person", 60})
	}
	if has("client__ask") {
		options = append(options, option{"ask the caller", 60})
	}
	if has("write_file") && w.settings["ballot"] != "" {
		options = append(options, option{"check and act", 150})
	}
	who := whoIs(ctx, m.proc)
	usual := "text"
	switch {
	case has("submit_evaluation"):
		options, usual = []option{{"evaluate badly", 100}}, "evaluate"
	case has("report_result"):
		return m.test(who, offered)
	case has("submit"):
		options, usual = []option{{"restart", 300}}, "submit"
	case len(electable) > 0 && w.facts.hasAnswered(m.agent.ID):
		usual = "vote " + electable[0]
	case has("new_answer") && (!has("stop") || !w.facts.hasAnswered(m.agent.ID)):
		usual = "new_answer"
	case len(electable) > 0:
		usual = "vote " + electable[0]
	case has("stop"):
		usual = "stop"
	case has("jump_to_step"):
		options = append(m.moves(offered), option{"write", 80}, option{"run", 60})
	}
	what := w.choose(who+" says", options...)
	if what == "" {
		what = usual
	}
	return m.say(who, what, criteriaOf(req), takesData(offered["new_answer"]))
}

// takesData reports whether answers of a tool are data.
func takesData(t llm.Tool) bool {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	return json.Unmarshal(t.Parameters, &schema) == nil && schema.Properties["data"] != nil
}

// decide makes data for verdictSchema: an agent's own, those of others in another order, or some that do not fit.
func (m *model) decide(who, text string) json.RawMessage {
	if m.proc.w.choose(who+" decides", option{"misfit", 60}) == "misfit" {
		return json.RawMessage(`{"choice": "middle"}`)
	}
	if text == "yes" {
		tags := m.proc.w.pick(who+" writes", `["a", "b"]`, `["b", "a"]`)
		return json.RawMessage(`{"tags": ` + tags + `, "choice": "right"}`)
	}
	return fmt.Appendf(nil, `{"choice": "left", "try": %d, "tags": [%q]}`, m.proc.w.facts.answers(m.agent.ID)+1, m.agent.ID)
}

var criterion = regexp.MustCompile(`\bE(\d+)\b`)

// criteriaOf returns how many criteria a request names.
func criteriaOf(req llm.Request) (most int) {
	for _, m := range req.Messages {
		for _, found := range criterion.FindAllStringSubmatch(m.Content, -1) {
			n, _ := strconv.Atoi(found[1])
			most = max(most, n)
		}
	}
	return most
}

// scoreOf has the scores of an agent's answers: the one configured first does not make the best.
var scoreOf = map[string]int{"agent_b": 4, "agent_a": 9, "agent_c": 2, "agent_e": 5, "agent_d": 3}

// say makes the message of a reply.
func (m *model) say(who, what string, criteria int, hasData bool) llm.Message {
	w := m.proc.w
	message := llm.Message{Role: llm.Assistant}
	call := func(name string, arguments map[string]any) {
		data, _ := json.Marshal(arguments)
		id := fmt.Sprintf("call%d", len(message.ToolCalls)+1)
		message.ToolCalls = append(message.ToolCalls, llm.ToolCall{ID: id, Name: name, Arguments: string(data)})
	}
	answer := func() {
		text := w.pick(who+" answers", "its own", "yes")
		if text != "yes" {
			text = fmt.Sprintf("answer %d by %s", w.facts.answers(m.agent.ID)+1, m.agent.ID)
		}
		arguments := map[string]any{"content": text}
		if hasData {
			arguments["data"] = m.decide(who, text)
		}
		call("new_answer", arguments)
	}
	write := func() {
		call("write_file", map[string]any{"path": "notes/" + m.agent.ID + ".txt", "content": who})
	}
	kind, rest, _ := strings.Cut(what, " ")
	switch what {
	case "two actions":
		answer()
		call("vote", map[string]any{"agent_id": "agent1", "reason": "both"})
	case "unknown tool":
		call("fly", nil)
	case "text":
		message.Content = "I have nothing to say, by " + m.agent.ID
	case "write":
		write()
	case "write and act":
		write()
		answer()
	case "run":
		call("run_command", map[string]any{"command": w.facts.newCommand()})
	case "write and run":
		write()
		call("run_command", map[string]any{"command": w.facts.newCommand()})
	case "run twice": // as some gateways repeat a call
		call("run_command", map[string]any{"command": w.facts.newCommand()})
		message.ToolCalls = append(message.ToolCalls, message.ToolCalls[0])
	case "new_answer":
		answer()
	case "stop":
		call("stop", map[string]any{"summary": "done", "status": "complete"})
	case "ask a person":
		call("ask_person", map[string]any{"question": "May I, " + w.pick(who+" asks", "please", "as "+m.agent.ID) + "?", "options": []string{"yes", "no"}})
	case "ask the caller":
		call("client__ask", map[string]any{"question": who})
	case "check and act":
		call("write_file", map[string]any{"path": ".conclave/checks/" + m.agent.ID, "content": "#!/bin/sh\n", "executable": true})
		answer()
	case "evaluate", "evaluate badly":
		packet := map[string]string{}
		for _, part := range quality.EvaluationParts {
			packet[part] = "as it should be"
		}
		if what == "evaluate badly" {
			criteria = 0
		}
		scores := map[string]int{}
		for n := range criteria {
			scores[fmt.Sprintf("E%d", n+1)] = scoreOf[m.agent.ID]
		}
		w.facts.evaluated[m.agent.ID] = criteria > 0
		tasks := map[string]any{"approach_assessment": map[string]any{"ceiling_status": "ceiling_reached"}}
		call("submit_evaluation", map[string]any{"packet": packet, "verdict": map[string]any{"verdict": "converged", "scores": scores}, "next_tasks": tasks})
	case "submit":
		call("submit", nil)
	case "restart":
		call("restart_orchestration", map[string]any{"reason": "not good", "instructions": "again"})
	}
	switch kind {
	case "vote":
		call("vote", map[string]any{"agent_id": rest, "reason": "it is right"})
	case "jump", "call":
		call(kind+"_to_step", map[string]any{"step_name": rest})
		if kind == "call" {
			message.ToolCalls[0].Name = "call_step"
		}
	}
	return message
}

// moves are the steps to which an agent of a pipeline may go.
func (m *model) moves(offered map[string]llm.Tool) (options []option) {
	for _, name := range enumOf(offered["jump_to_step"], "step_name") {
		options = append(options, option{"jump " + name, 60}, option{"call " + name, 60})
	}
	return options
}

// test plays the tester of a scenario's step.
func (m *model) test(who string, offered map[string]llm.Tool) llm.Message {
	message := llm.Message{Role: llm.Assistant}
	call := func(name string, arguments map[string]any) {
		data, _ := json.Marshal(arguments)
		message.ToolCalls = append(message.ToolCalls, llm.ToolCall{ID: fmt.Sprintf("call%d", len(message.ToolCalls)+1), Name: name, Arguments: string(data)})
	}
	what := m.proc.w.choose(who+" says", option{"fail", 60}, option{"text", 30}, option{"run", 60}, option{"record only", 60})
	switch what {
	case "text":
		message.Content = "I look around"
		return message
	case "run":
		call("run_command", map[string]any{"command": m.proc.w.facts.newCommand()})
		return message
	}
	if _, ok := offered["record_evidence"]; ok {
		call("record_evidence", map[string]any{"name": "page", "type": "text", "data": "seen by " + who})
	}
	if what == "record only" {
		return message
	}
	report := map[string]any{"status": "pass", "evidence_paths": []string{}, "error": nil, "summary": "as expected"}
	if what == "fail" {
		report["status"], report["error"] = "fail", "not as expected"
	}
	call("report_result", report)
	return message
}

// enumOf returns the values that a tool accepts for an argument.
func enumOf(t llm.Tool, argument string) []string {
	var schema struct {
		Properties map[string]struct {
			Enum []string `json:"enum"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(t.Parameters, &schema)
	return schema.Properties[argument].Enum
}

// toolbox has a tool that changes a file, and one whose calls cannot be repeated.
type toolbox struct {
	proc *process
	dir  string
}

func (p *process) openTools(ctx context.Context, _ config.Agent, dir string, _ activities.Sharing) (step.Tools, error) {
	err := p.w.call(ctx, p, "open tools", []option{{"failed", 4}, {"slow 5s", 4}}, asIs, func(string) error { return nil })
	if err != nil {
		return nil, &activities.LackError{Type: activities.ToolsUnavailable, Err: err}
	}
	return &toolbox{p, dir}, nil
}

// Repeatable implements activities.Equipment.
func (p *process) Repeatable(tool string) bool { return tool != llm.RunCommand }

// Tools implements loop.Tools.
func (t *toolbox) Tools() []llm.Tool {
	text := llm.Property{Type: "string"}
	return []llm.Tool{
		llm.NewTool("write_file", "Write a file.", map[string]llm.Property{"path": text, "content": text}, "path", "content"),
		llm.NewTool(llm.RunCommand, "Run a command.", map[string]llm.Property{"command": text}, "command"),
	}
}

// Close implements io.Closer.
func (t *toolbox) Close() error { return nil }

// Run implements loop.Tools.
func (t *toolbox) Run(ctx context.Context, call llm.ToolCall) (out loop.Output, err error) {
	w := t.proc.w
	w.facts.issued(ctx, "run", call.Name)
	options := []option{{"slow 5s", 15}, {"slow 1m10s", 6}, {"slow 20m", 2}, {"fails", 20}, {"tells a secret", 30}}
	err = w.wait(ctx, &event{at: whoIs(ctx, t.proc) + " " + call.Name, options: options, proc: t.proc, local: true, fault: asIs, perform: func(what string) error {
		arguments := decodeArguments(call.Arguments)
		out = loop.Output{Text: "done", Failed: what == "fails"}
		if what == "tells a secret" {
			out.Text = "the key is " + secret
		}
		name, content := fmt.Sprint(arguments["path"]), fmt.Sprint(arguments["content"])
		if call.Name == llm.RunCommand {
			name, content = "log.txt", fmt.Sprint(arguments["command"])
			w.facts.ran(whoIs(ctx, t.proc), content)
		} else {
			out.Files = []string{name}
			w.facts.wrote[whoIs(ctx, t.proc)] = name
		}
		if err := os.MkdirAll(filepath.Join(t.dir, filepath.Dir(name)), 0o755); err != nil {
			return nil //nolint:nilerr // the attempt has removed its workspace
		}
		mode := os.FileMode(0o644)
		if arguments["executable"] == true {
			mode = 0o755
		}
		_ = os.WriteFile(filepath.Join(t.dir, name), []byte(content), mode)
		return nil
	}})
	return out, err
}

// confine runs a check, whose command is its own name.
func (p *process) confine(ctx context.Context, c check.Confined) (ended check.Ended, err error) {
	err = p.w.call(ctx, p, "check "+c.Command, []option{{"failed", 10}, {"fails", 300}, {"slow 10s", 10}}, asIs, func(what string) error {
		if what == "fails" {
			ended.Code = 1
		}
		return nil
	})
	return ended, err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
