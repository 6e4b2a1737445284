package team

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Rules are the rules of one team member's step.
type Rules struct{ task Task }

var _ loop.Rules = (*Rules)(nil)

// New returns the rules of a step on task. Opening says whether task can be
// worked on.
func New(task Task) *Rules { return &Rules{task: task} }

// Updates brings nothing: in this version an agent sees what was there when its
// step was launched.
func (r *Rules) Updates(context.Context) ([]llm.Message, error) { return nil, nil }

// Judge decides what a reply means, by the table in the package comment.
func (r *Rules) Judge(reply llm.Message) loop.Verdict {
	calls, rejected := r.workflowCalls(reply.ToolCalls)
	if rejected != nil {
		return r.reject(reply.ToolCalls, rejected)
	}
	if len(calls) == 0 {
		return loop.Verdict{}
	}
	action, rejected := r.agree(calls)
	if rejected != nil {
		return r.reject(reply.ToolCalls, rejected)
	}
	told := make(map[string]string, len(calls))
	for i, call := range calls {
		told[call.ID] = action.told
		if i > 0 {
			told[call.ID] = "The same as the accepted call; counted once."
		}
	}
	return loop.Verdict{Action: &loop.Action{Kind: action.kind, Payload: action.payload}, Told: told}
}

// workflowCalls picks the calls of the workflow tools, after refusing what the
// step does not have.
func (r *Rules) workflowCalls(all []llm.ToolCall) ([]llm.ToolCall, *rejection) {
	if len(all) == 0 {
		return nil, &rejection{NoToolCalls, "Your reply had no tool call."}
	}
	var answers, votes []llm.ToolCall
	for _, call := range all {
		switch {
		case call.Name == KindNewAnswer:
			answers = append(answers, call)
		case call.Name == KindVote:
			votes = append(votes, call)
		case !slices.Contains(r.task.Tools, call.Name):
			return nil, &rejection{UnknownTool, fmt.Sprintf("There is no tool %.64q. The tools are %s.", call.Name, r.toolNames())}
		}
	}
	switch {
	case len(votes) > 0 && len(r.task.Answers) == 0:
		return nil, &rejection{VoteNoAnswers, "There is no answer to vote for yet."}
	case len(votes) > 0 && !r.task.canVote():
		return nil, &rejection{ToolNotOffered, "Voting is not open to you in this step."}
	case len(answers) > 0 && !r.task.canAnswer():
		return nil, &rejection{ToolNotOffered, "New answers are not open to you in this step."}
	case len(answers) > 0 && len(votes) > 0:
		return nil, &rejection{VoteAndAnswer, "You called both vote and new_answer. Decide for one of them."}
	}
	return append(answers, votes...), nil
}

// agree turns calls of one workflow tool into the one action they ask for.
func (r *Rules) agree(calls []llm.ToolCall) (action, *rejection) {
	var first action
	for i, call := range calls {
		read := r.newAnswer
		if call.Name == KindVote {
			read = r.vote
		}
		a, rejected := read(call.Arguments)
		switch {
		case rejected != nil:
			return action{}, rejected
		case i == 0:
			first = a
		case a.says != first.says:
			return action{}, &rejection{SeveralActions, fmt.Sprintf("You called %s several times with different contents. Call it once.", call.Name)}
		}
	}
	return first, nil
}

// toolNames lists what a reply may call.
func (r *Rules) toolNames() string {
	var names []string
	for _, tool := range r.Offer() {
		names = append(names, tool.Name)
	}
	return strings.Join(append(names, r.task.Tools...), ", ")
}
