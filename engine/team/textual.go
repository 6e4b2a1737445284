package team

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/text"
)

// The values of text_answers with which text without a call counts.
const (
	textWhenAsked = "auto"
	textAlways    = "always"
)

// heading precedes a label in a vote given as text, as in "Label: agent3" or "My vote: agent3".
var heading = regexp.MustCompile(`(?i)^(my )?(label|vote|answer)\W*:\W`)

// labelled matches the names and labels of agents, such as agent3 and agent1.2.
var labelled = regexp.MustCompile(`(?i)\bagent\d+(\.\d+)?\b`)

// plain reports whether the prompt asks for a reply in plain text and the task begins without
// tools: text_answers is always, the agent has no tools of its own, and the only open action is a
// new answer or a vote without a confidence.
func (t task) plain() bool {
	if t.TextAnswers != textAlways || t.Purpose != coordination.Coordinate || t.divided() || t.Confidence ||
		t.scored() || len(t.Plan) > 0 || len(t.Tools) > 0 {
		return false
	}
	voting := len(t.Answers) > 0 && t.offers(coordination.Vote)
	return voting != t.offers(coordination.NewAnswer)
}

// judgeText rules on a reply without tool calls. A label, alone or after a heading, is a vote; in
// a plain step, so is a text that names a single agent. Where only a new answer is open, the text
// is the answer if text was asked for or text_answers is always.
func (r *rules) judgeText(content string) loop.Ruling {
	content = text.WithoutThoughts(content)
	if calls := r.textCalls(content); len(calls) > 0 {
		accepted, rejected := r.agree(calls)
		if rejected != nil {
			return r.reject(nil, rejected)
		}
		return loop.Ruling{Action: &loop.Action{Kind: string(accepted.kind), Payload: accepted.payload}, Withdrawn: withdrawn}
	}
	why := "Your reply had no tool call."
	switch {
	case r.namesTool(content):
		why = "Your reply is only the name of a tool, which is no answer."
	case r.textOnly():
		why = "Your reply cannot be read."
	case loop.LooksLikeCall(content):
		why = "Your reply looks like a tool call, but it cannot be read as a call of an offered tool. Write the call alone, without text around it."
	}
	return r.reject(nil, &rejection{code: noToolCalls, why: why})
}

// textCalls returns the tool call that a text represents, or nil.
func (r *rules) textCalls(content string) []llm.ToolCall {
	if r.task.TextAnswers != textWhenAsked && r.task.TextAnswers != textAlways {
		return nil
	}
	const decoration = " \t\r\n*_`\"'."
	label := strings.Trim(content, decoration)
	label = strings.Trim(label[len(heading.FindString(label)):], decoration)
	if slices.Contains(r.permitted(), coordination.Vote) {
		// A number alone may be an answer where one is open.
		named := strings.HasPrefix(strings.ToLower(label), "agent") || len(r.open()) == 1 && strings.Contains(label, ".")
		if _, _, found := r.find(label); found && named {
			return textVote(label, "Voted for it without giving a reason.")
		}
		if label := r.onlyLabel(content); label != "" && r.textOnly() {
			return textVote(label, content)
		}
	}
	asked := r.task.TextAnswers == textAlways || r.memory.silent
	if !asked || !r.answersOnly() || blank(content) || loop.LooksLikeCall(content) || r.namesTool(content) {
		return nil
	}
	return []llm.ToolCall{{Name: string(coordination.NewAnswer), Arguments: string(marshal(proposal{Content: content}))}}
}

// namesTool reports whether a text is only the name of a tool.
func (r *rules) namesTool(content string) bool {
	return loop.NamesTool(content, slices.Concat(longTools, []string{"vote", "stop", "submit"}, r.task.Tools)...)
}

// textVote returns the call that a vote given as text represents.
func textVote(label, reason string) []llm.ToolCall {
	arguments := marshal(map[string]string{"agent_id": label, "reason": reason})
	return []llm.ToolCall{{Name: string(coordination.Vote), Arguments: string(arguments)}}
}

// onlyLabel returns the label in a text that names a single agent, in one or more places, or
// "" for any other text.
func (r *rules) onlyLabel(content string) string {
	labels := labelled.FindAllString(content, -1)
	if len(labels) == 0 {
		return ""
	}
	named, _, found := r.find(labels[0])
	for _, label := range labels[1:] {
		other, _, also := r.find(label)
		found = found && also && other.Number == named.Number
	}
	if !found {
		return ""
	}
	return labels[0]
}

// answersOnly reports whether a new answer is the only open action.
func (r *rules) answersOnly() bool {
	return slices.Equal(r.open(), []coordination.Action{coordination.NewAnswer})
}

// textOnly reports whether the step is plain and has one open action. News can open a second one,
// and then the workflow tools are offered.
func (r *rules) textOnly() bool { return r.task.plain() && len(r.open()) == 1 }

// inText returns the words that tell a model, which may be unable to call tools, how its text
// counts.
func (r *rules) inText() string {
	if r.task.TextAnswers != textWhenAsked && r.task.TextAnswers != textAlways {
		return ""
	}
	begin := " If you cannot call tools, reply"
	if r.textOnly() {
		begin = " Reply"
	} else if r.answersOnly() { // without the name of the tool, which weak models repeat
		begin = " Submit your complete answer with a tool call." + begin
	}
	switch {
	case r.answersOnly():
		return begin + " with your complete answer as plain text and nothing else: that text is then your answer."
	case slices.Contains(r.open(), coordination.Vote):
		return fmt.Sprintf("%s with the label that you vote for and nothing else. The labels are: %s.", begin, strings.Join(r.electable(), ", "))
	}
	return ""
}
