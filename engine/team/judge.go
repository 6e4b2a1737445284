package team

import (
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// withdrawn is what the calls of a reply are told whose action does not count
// yet. It fits all of them.
const withdrawn = "Not submitted: something new came in before it counted. Read it below, then submit again or revise."

// Judge decides what a reply means, by the table in the package comment.
func (r *Rules) Judge(reply llm.Message) loop.Ruling {
	calls, rejected := r.workflowCalls(reply.ToolCalls)
	if rejected != nil {
		return r.reject(reply.ToolCalls, rejected)
	}
	var accepted action
	if len(calls) > 0 {
		if accepted, rejected = r.agree(calls); rejected != nil {
			return r.reject(reply.ToolCalls, rejected)
		}
	}
	v := r.besides(reply.ToolCalls)
	for i, call := range calls {
		v.Told[call.ID] = accepted.told
		if i > 0 {
			v.Told[call.ID] = "The same as the accepted call; counted once."
		}
	}
	if len(calls) > 0 {
		v.Action = &loop.Action{Kind: accepted.kind, Payload: accepted.payload}
		v.Withdrawn = withdrawn
	}
	return v
}

// workflowCalls picks the calls that would end the step, after refusing what
// the step does not have.
func (r *Rules) workflowCalls(all []llm.ToolCall) ([]llm.ToolCall, *rejection) {
	if len(all) == 0 {
		return nil, &rejection{NoToolCalls, "Your reply had no tool call."}
	}
	kinds, open := r.task.kinds(), r.open()
	var calls []llm.ToolCall
	for _, call := range all {
		switch {
		case slices.Contains(kinds, call.Name):
			calls = append(calls, call)
		case !r.task.has(call.Name) && !r.checklistCall(call):
			return nil, &rejection{UnknownTool, fmt.Sprintf("There is no tool %.64q. The tools are %s.", call.Name, r.toolNames())}
		}
	}
	called := func(kind string) bool {
		return slices.ContainsFunc(calls, func(c llm.ToolCall) bool { return c.Name == kind })
	}
	if called(KindVote) && len(r.known.answers) == 0 {
		return nil, &rejection{VoteNoAnswers, "There is no answer to vote for yet."}
	}
	for _, kind := range []string{KindVote, KindNewAnswer, KindStop, KindSubmit, KindRestart} {
		if called(kind) && !slices.Contains(open, kind) {
			return nil, &rejection{ToolNotOffered, notOpen[kind] + " not open to you in this step."}
		}
	}
	return calls, mixed(calls)
}

var notOpen = map[string]string{
	KindVote:      "Voting is",
	KindNewAnswer: "New answers are",
	KindStop:      "Stopping is",
	KindSubmit:    "Submitting is",
	KindRestart:   "Beginning again is",
}

// mixed refuses calls that would end the step in different ways.
func mixed(calls []llm.ToolCall) *rejection {
	for _, call := range calls {
		first := calls[0].Name
		if call.Name == first {
			continue
		}
		code, pair := SeveralActions, []string{first, call.Name}
		if slices.Contains(pair, KindVote) && slices.Contains(pair, KindNewAnswer) {
			code, pair = VoteAndAnswer, []string{KindVote, KindNewAnswer}
		}
		return &rejection{code, fmt.Sprintf("You called both %s and %s. Decide for one of them.", pair[0], pair[1])}
	}
	return nil
}

// agree turns calls of one workflow tool into the one action they ask for.
func (r *Rules) agree(calls []llm.ToolCall) (action, *rejection) {
	var first action
	for i, call := range calls {
		a, rejected := r.read(call)
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

// besides answers what the calls that do not end the step come to: those of the
// checklist, and, when time is over, all of them.
func (r *Rules) besides(all []llm.ToolCall) loop.Ruling {
	if r.timeOver() {
		return r.deny(all)
	}
	return r.score(all)
}

// toolNames lists what a reply may call.
func (r *Rules) toolNames() string {
	var names []string
	for _, tool := range r.Offer() {
		names = append(names, tool.Name)
	}
	return strings.Join(append(names, r.task.Tools...), ", ")
}
