package offline

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// directiveMark begins a line of a prompt that is addressed to this model.
const directiveMark = "offline:"

// directive is a line of a pipeline step's system prompt; the line begins with directiveMark:
//
//	offline: call lint
//	offline: jump export
//
// Each directive is followed once, in order, unless the step is not offered its destination.
type directive struct {
	tool string
	to   string // destination of the jump or call
}

func (m *model) playStep(req llm.Request) llm.Message {
	for _, d := range readDirectives(req) {
		if !isDone(req, d) && isOffered(req, d) {
			return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{newCall(d.tool, map[string]string{"step_name": d.to})}}
		}
	}
	message := llm.Message{Role: llm.Assistant, Content: m.stepText(req)}
	for _, t := range req.Tools {
		if t.Name != "submit_output" {
			continue
		}
		if form, err := llm.ReadDataSchema(t.Parameters); err == nil {
			message.ToolCalls = []llm.ToolCall{{Name: t.Name, Arguments: string(form.Example(m.first))}}
		}
	}
	return message
}

func readDirectives(req llm.Request) []directive {
	tools := map[string]string{"call": "call_step", "jump": "jump_to_step"}
	var found []directive
	for _, line := range markedLines(req, llm.System) {
		if words := strings.Fields(line); len(words) == 2 && tools[words[0]] != "" {
			found = append(found, directive{tools[words[0]], words[1]})
		}
	}
	return found
}

func markedLines(req llm.Request, role llm.Role) []string {
	var found []string
	for _, message := range req.Messages {
		if message.Role != role {
			continue
		}
		for line := range strings.Lines(message.Content) {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(line), directiveMark); ok {
				found = append(found, strings.TrimSpace(rest))
			}
		}
	}
	return found
}

func isDone(req llm.Request, d directive) bool {
	return slices.ContainsFunc(req.Messages, func(message llm.Message) bool {
		return slices.ContainsFunc(message.ToolCalls, func(c llm.ToolCall) bool {
			var arguments struct {
				Step string `json:"step_name"`
			}
			return c.Name == d.tool && json.Unmarshal([]byte(c.Arguments), &arguments) == nil && arguments.Step == d.to
		})
	})
}

func isOffered(req llm.Request, d directive) bool {
	return slices.ContainsFunc(req.Tools, func(t llm.Tool) bool {
		return t.Name == d.tool && slices.Contains(enumValues(t, "step_name"), d.to)
	})
}

// maxQuoted bounds a quotation of the request or of a message, in bytes.
const maxQuoted = 300

func (m *model) stepText(req llm.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, no language model was asked: this text comes from a fixed rule.\n", markForm(m.mark))
	asked := false
	for _, message := range req.Messages {
		if message.Role != llm.User {
			continue
		}
		switch note, called := strings.CutPrefix(message.Content, "[Called step completed with result: "); {
		case called:
			fmt.Fprintf(&b, "\nA called step returned: %s\n", quoteText(strings.TrimSuffix(note, "]")))
		case !asked:
			asked = true
			fmt.Fprintf(&b, "\nThe request was: %s\n", quoteText(message.Content))
		default:
			fmt.Fprintf(&b, "\nA further message was: %s\n", quoteText(message.Content))
		}
	}
	return strings.TrimSpace(b.String())
}

func quoteText(s string) string { return text.Truncate(text.OneLine(s), maxQuoted) }

// reportResult plays the step of a scenario. It reports pass, or fail after the directive "offline: fail".
func (m *model) reportResult(req llm.Request, v view) []llm.ToolCall {
	var calls []llm.ToolCall
	if v.offersTool("record_evidence") {
		calls = append(calls, newCall("record_evidence", map[string]string{
			"name": "after", "type": "stdout", "data": markForm(m.mark) + ": nothing was tested.\n",
		}))
	}
	const untested = "The offline model reports by a fixed rule: nothing was tested."
	report := `{"status":"pass","evidence_paths":[],"error":null,"summary":"` + untested + `"}`
	if slices.Contains(markedLines(req, llm.User), "fail") {
		report = `{"status":"fail","evidence_paths":[],"error":"the step tells the offline model to fail","summary":"` + untested + `"}`
	}
	return append(calls, llm.ToolCall{Name: "report_result", Arguments: report})
}

// criterion matches the ID of a criterion in the prompt of an evaluation.
var criterion = regexp.MustCompile(`(?m)^- (E[0-9]+)\b`)

var packetParts = []string{
	"criteria_interpretation", "criterion_findings", "cross_answer_synthesis", "preserve", "improvement_spec", "verification_plan", "evidence_gaps",
}

func submitEvaluation(req llm.Request) llm.ToolCall {
	packet, scores := map[string]string{}, map[string]float64{}
	for _, part := range packetParts {
		packet[part] = "The offline model evaluates by a fixed rule: nothing was checked."
	}
	for _, message := range req.Messages {
		if message.Role != llm.User {
			continue
		}
		for _, found := range criterion.FindAllStringSubmatch(message.Content, -1) {
			scores[found[1]] = 8
		}
	}
	arguments, _ := json.Marshal(map[string]any{ // texts and numbers always have a JSON form
		"packet": packet, "verdict": map[string]any{"verdict": "converged", "scores": scores}, "next_tasks": nil,
	})
	return llm.ToolCall{Name: "submit_evaluation", Arguments: string(arguments)}
}
