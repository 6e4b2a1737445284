package team

import (
	"fmt"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/team/plan"
)

// The reasons of rejections. They are stable: journals, transcripts and errors
// contain them.
const (
	noToolCalls      = "no_tool_calls"
	unknownTool      = "unknown_tool"
	toolNotOffered   = "tool_not_offered"
	voteNoAnswers    = "vote_no_answers"
	voteAndAnswer    = "vote_and_answer"
	severalActions   = "several_actions"
	invalidArguments = "invalid_arguments"
	invalidVoteID    = "invalid_vote_id"
	voteReplaced     = "vote_replaced"
	answerTooLarge   = "answer_too_large"
	answerDuplicate  = "answer_duplicate"
	answerNovelty    = "answer_novelty"
	invalidTasks     = "invalid_tasks"
)

// rejection is a stable code, and a sentence for the model.
type rejection struct {
	code, why string
	replaced  string // label that the vote named, for voteReplaced
}

// withdrawn replaces the rules' results for a reply whose action was withdrawn because of
// news.
const withdrawn = "Not submitted: something new came in before it counted. Read it below, then submit again or revise."

// longTools are the tools of the rules whose names cannot be meant as answers.
var longTools = []string{"new_answer", "restart_orchestration", "submit_evaluation", "submit_checklist", "propose_improvements", "get_task_plan", "update_task"}

// subjects begin the sentences about closed actions.
var subjects = map[coordination.Action]string{
	coordination.Vote:        "Voting is",
	coordination.NewAnswer:   "New answers are",
	coordination.Stop:        "Stopping is",
	coordination.Submit:      "Submitting is",
	coordination.RestartTeam: "Beginning again is",

	coordination.SubmitEvaluation: "Evaluating is",
}

// Judge rules on a reply by the table in the package comment.
func (r *rules) Judge(reply llm.Message) loop.Ruling {
	if len(reply.ToolCalls) == 0 {
		return r.judgeText(reply.Content)
	}
	ruling := r.judge(reply)
	ruling.Conceal = r.memory.live
	return ruling
}

func (r *rules) judge(reply llm.Message) loop.Ruling {
	calls, rejected := r.workflowCalls(reply.ToolCalls)
	if rejected != nil {
		return r.reject(reply.ToolCalls, rejected)
	}
	calls, echoes, repeated := r.withoutEchoes(calls)
	if rejected = mixed(calls); rejected != nil {
		return r.reject(reply.ToolCalls, rejected)
	}
	var accepted action
	if len(calls) > 0 {
		if accepted, rejected = r.agree(calls); rejected != nil {
			return r.reject(reply.ToolCalls, rejected)
		}
		accepted = accepted.repeating(repeated)
	}
	var ruling loop.Ruling
	if r.timeOver() {
		ruling = r.deny(reply.ToolCalls)
	} else {
		ruling = r.score(reply.ToolCalls)
	}
	for i, call := range calls {
		ruling.Results[call.ID] = accepted.result
		if i > 0 {
			ruling.Results[call.ID] = "The same as the accepted call; counted once."
		}
	}
	for _, call := range echoes {
		ruling.Results[call.ID] = "The same as the answer that you vote for; the vote counts."
	}
	if len(calls) > 0 {
		ruling.Action = &loop.Action{Kind: string(accepted.kind), Payload: accepted.payload}
		ruling.Withdrawn = withdrawn
	}
	return ruling
}

// workflowCalls returns the calls that would end the step. It rejects calls of tools that the
// step does not have.
func (r *rules) workflowCalls(all []llm.ToolCall) ([]llm.ToolCall, *rejection) {
	permitted := r.permitted()
	var calls []llm.ToolCall
	for _, call := range all {
		switch {
		case r.task.ends(call):
			calls = append(calls, call)
		case !r.task.gated() && r.task.scored() && (r.task.Checklist.Offers(call.Name) || plan.Offers(call.Name)):
			return nil, &rejection{code: toolNotOffered, why: "The checklist is not open to you in this turn."}
		case !r.task.has(call.Name) && !r.scores(call):
			return nil, &rejection{code: unknownTool, why: fmt.Sprintf("There is no tool %.64q. %s", call.Name, r.toolNames())}
		}
	}
	called := func(action coordination.Action) bool {
		return slices.ContainsFunc(calls, func(c llm.ToolCall) bool { return c.Name == string(action) })
	}
	if called(coordination.Vote) && len(r.memory.answers) == 0 {
		return nil, &rejection{code: voteNoAnswers, why: "There is no answer to vote for yet."}
	}
	for _, action := range r.task.actions() {
		if called(action) && !slices.Contains(permitted, action) {
			return nil, &rejection{code: toolNotOffered, why: subjects[action] + " not open to you in this turn."}
		}
	}
	return calls, nil
}

// open returns the open actions. After an answer that repeats another, this is only the
// action that endorses it.
func (r *rules) open() []coordination.Action {
	if r.memory.repeated {
		return []coordination.Action{r.endorsing()}
	}
	return r.permitted()
}

// permitted returns the actions that the step can take now. A vote needs an answer to
// vote for.
func (r *rules) permitted() []coordination.Action {
	var permitted []coordination.Action
	for _, action := range r.task.actions() {
		if r.task.offers(action) && (action != coordination.Vote || len(r.memory.answers) > 0) {
			permitted = append(permitted, action)
		}
	}
	return permitted
}

// ends reports whether the call is to a workflow tool of this kind of step.
func (t task) ends(call llm.ToolCall) bool {
	return slices.Contains(t.actions(), coordination.Action(call.Name))
}

// mixed rejects calls that would end the step in different ways.
func mixed(calls []llm.ToolCall) *rejection {
	for _, call := range calls {
		first := calls[0].Name
		if call.Name == first {
			continue
		}
		const vote, answer = string(coordination.Vote), string(coordination.NewAnswer)
		code, pair := severalActions, []string{first, call.Name}
		if slices.Contains(pair, vote) && slices.Contains(pair, answer) {
			code, pair = voteAndAnswer, []string{vote, answer}
		}
		return &rejection{code: code, why: fmt.Sprintf("You called both %s and %s. Decide for one of them.", pair[0], pair[1])}
	}
	return nil
}

// agree merges calls of one workflow tool into the single action that they request.
func (r *rules) agree(calls []llm.ToolCall) (action, *rejection) {
	var first action
	for i, call := range calls {
		a, rejected := r.parse(call)
		switch {
		case rejected != nil:
			return action{}, rejected
		case i == 0:
			first = a
		case a.same != first.same:
			return action{}, &rejection{code: severalActions, why: fmt.Sprintf("You called %s several times with different contents. Call it once.", call.Name)}
		}
	}
	return first, nil
}

// reject refuses the whole reply. If only a part of it were run, the model could not know
// which calls took effect.
func (r *rules) reject(calls []llm.ToolCall, why *rejection) loop.Ruling {
	text, inText := why.why+" Nothing was submitted", ""
	if why.code == noToolCalls || r.textOnly() {
		inText = r.inText()
	}
	if !r.textOnly() {
		text += " and no tool was run"
		if inText == "" || !r.answersOnly() {
			text += ". Finish by calling " + r.ways()
		}
	}
	text += "." + inText
	results := make(map[string]string, len(calls))
	for _, call := range calls {
		results[call.ID] = text
	}
	ruling := loop.Ruling{Rejected: why.code, Results: results, Say: text}
	if why.replaced != "" {
		ruling.Note = marshal(note{Replaced: why.replaced})
	}
	return ruling
}

// ways lists the calls that end the step.
func (r *rules) ways() string {
	var names []string
	for _, action := range r.open() {
		names = append(names, string(action))
	}
	return strings.Join(names, " or ")
}

// toolNames returns a sentence with all tools that a reply may call.
func (r *rules) toolNames() string {
	var names []string
	for _, tool := range r.Offer() {
		names = append(names, tool.Name)
	}
	names = append(names, r.task.Tools...)
	if len(names) == 0 {
		return "You have no tools."
	}
	return "The tools are " + strings.Join(names, ", ") + "."
}
