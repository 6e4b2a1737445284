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

// textVote is the reason for a vote that was given as text.
const textVote = "Voted for it without giving a reason."

// heading precedes a label in a vote given as text, as in "Label: agent3" or "My vote: agent3".
var heading = regexp.MustCompile(`(?i)^(my )?(label|vote|answer)\W*:\W`)

// judgeText rules on a reply without tool calls. A label, alone or after a heading, is a
// vote. Where only a new answer is open, the text is the answer if text was asked for or
// text_answers is always.
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
	if loop.LooksLikeCall(content) {
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
		if _, _, found := r.find(label); found {
			arguments := marshal(map[string]string{"agent_id": label, "reason": textVote})
			return []llm.ToolCall{{Name: string(coordination.Vote), Arguments: string(arguments)}}
		}
	}
	asked := r.task.TextAnswers == textAlways || r.memory.silent
	if !asked || !r.answersOnly() || blank(content) || loop.LooksLikeCall(content) {
		return nil
	}
	return []llm.ToolCall{{Name: string(coordination.NewAnswer), Arguments: string(marshal(proposal{Content: content}))}}
}

// answersOnly reports whether a new answer is the only open action.
func (r *rules) answersOnly() bool {
	return slices.Equal(r.open(), []coordination.Action{coordination.NewAnswer})
}

// inText returns the words that tell a model, which may be unable to call tools, how its text
// counts.
func (r *rules) inText() string {
	if r.task.TextAnswers != textWhenAsked && r.task.TextAnswers != textAlways {
		return ""
	}
	switch {
	case r.answersOnly():
		return " If you cannot call tools, reply with your complete answer as plain text and nothing else: that text is then your answer."
	case slices.Contains(r.open(), coordination.Vote):
		return fmt.Sprintf(" If you cannot call tools, reply with the label that you vote for and nothing else. The labels are: %s.", strings.Join(r.electable(), ", "))
	}
	return ""
}
