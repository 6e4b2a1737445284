package session

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session/quality"
	"conclave/engine/text"
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
	ruling := r.judgeCalls(reply)
	ruling.Conceal = r.memory.live
	return ruling
}

func (r *rules) judgeCalls(reply llm.Message) loop.Ruling {
	calls, rejected := r.workflowCalls(reply.ToolCalls)
	if rejected != nil {
		return r.rejectReply(reply.ToolCalls, rejected)
	}
	calls, echoes, repeated := r.withoutEchoes(calls)
	if rejected = rejectMixed(calls); rejected != nil {
		return r.rejectReply(reply.ToolCalls, rejected)
	}
	var accepted action
	if len(calls) > 0 {
		if accepted, rejected = r.mergeCalls(calls); rejected != nil {
			return r.rejectReply(reply.ToolCalls, rejected)
		}
		accepted = accepted.withRepeated(repeated)
	}
	var ruling loop.Ruling
	if r.memory.timeOver(r.task.limits) {
		ruling = r.denyCalls(reply.ToolCalls)
	} else {
		ruling = r.answerScoring(reply.ToolCalls)
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
	permitted := r.permittedActions()
	var calls []llm.ToolCall
	for _, call := range all {
		switch {
		case r.task.endsStep(call):
			calls = append(calls, call)
		case !r.task.isGated() && r.task.hasChecklist() && (r.task.Checklist.Offers(call.Name) || quality.OffersPlanTool(call.Name)):
			return nil, &rejection{code: toolNotOffered, why: "The checklist is not open to you in this turn."}
		case !r.task.hasTool(call.Name) && !r.task.isScoringCall(call):
			return nil, &rejection{code: unknownTool, why: fmt.Sprintf("There is no tool %.64q. %s", call.Name, r.toolNames())}
		}
	}
	called := func(action coordination.Action) bool {
		return slices.ContainsFunc(calls, func(c llm.ToolCall) bool { return c.Name == string(action) })
	}
	if called(coordination.Vote) && len(r.memory.answers) == 0 {
		return nil, &rejection{code: voteNoAnswers, why: "There is no answer to vote for yet."}
	}
	for _, action := range r.task.stepActions() {
		if called(action) && !slices.Contains(permitted, action) {
			return nil, &rejection{code: toolNotOffered, why: subjects[action] + " not open to you in this turn."}
		}
	}
	return calls, nil
}

// openActions returns the open actions. After an answer that repeats another, this is only the
// action that endorses it.
func (r *rules) openActions() []coordination.Action {
	if r.memory.repeated {
		return []coordination.Action{r.endorsingAction()}
	}
	return r.permittedActions()
}

// permittedActions returns the actions that the step can take now. A vote needs an answer to
// vote for.
func (r *rules) permittedActions() []coordination.Action {
	var permitted []coordination.Action
	for _, action := range r.task.stepActions() {
		if r.task.offersAction(action) && (action != coordination.Vote || len(r.memory.answers) > 0) {
			permitted = append(permitted, action)
		}
	}
	return permitted
}

func (t task) endsStep(call llm.ToolCall) bool {
	return slices.Contains(t.stepActions(), coordination.Action(call.Name))
}

// rejectMixed rejects calls that would end the step in different ways.
func rejectMixed(calls []llm.ToolCall) *rejection {
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

func (r *rules) mergeCalls(calls []llm.ToolCall) (action, *rejection) {
	var first action
	for i, call := range calls {
		a, rejected := r.parseCall(call)
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

// rejectReply refuses the whole reply. If only a part of it were run, the model could not know
// which calls took effect.
func (r *rules) rejectReply(calls []llm.ToolCall, why *rejection) loop.Ruling {
	text, inText := why.why+" Nothing was submitted", ""
	if why.code == noToolCalls || r.textOnly() || r.task.Schema != nil && len(calls) == 0 {
		inText = r.inText()
	}
	if !r.textOnly() {
		text += " and no tool was run"
		if inText == "" || !r.answersOnly() {
			text += ". Finish by calling " + r.endingCalls()
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

func (r *rules) endingCalls() string {
	names := text.Each(r.openActions(), func(action coordination.Action) string { return string(action) })
	return strings.Join(names, " or ")
}

func (r *rules) toolNames() string {
	names := text.Each(r.Offer(), func(tool llm.Tool) string { return tool.Name })
	names = append(names, r.task.Tools...)
	if len(names) == 0 {
		return "You have no tools."
	}
	return "The tools are " + strings.Join(names, ", ") + "."
}

// The values of text_answers with which text without a call counts.
const (
	textWhenAsked = "auto"
	textAlways    = "always"
)

// heading precedes a label in a vote given as text, as in "Label: agent3" or "My vote: agent3".
var heading = regexp.MustCompile(`(?i)^(my )?(label|vote|answer)\W*:\W`)

// labelled matches the names and labels of agents, such as agent3 and agent1.2.
var labelled = regexp.MustCompile(`(?i)\bagent\d+(\.\d+)?\b`)

// isPlain reports whether the prompt asks for a reply in plain text and the task begins without
// tools: text_answers is always, the agent has no tools of its own, and the only open action is a
// new answer or a vote without a confidence.
func (t task) isPlain() bool {
	if t.TextAnswers != textAlways || t.Purpose != coordination.Coordinate || t.isDivided() || t.Confidence ||
		t.hasChecklist() || len(t.Plan) > 0 || len(t.Tools) > 0 {
		return false
	}
	voting := len(t.Answers) > 0 && t.offersAction(coordination.Vote)
	return voting != t.offersAction(coordination.NewAnswer)
}

// judgeText rules on a reply without tool calls. A label, alone or after a heading, is a vote; in
// a plain step, so is a text that names a single agent. Where only a new answer is open, the text
// is the answer if text was asked for or text_answers is always.
func (r *rules) judgeText(content string) loop.Ruling {
	content = text.WithoutThoughts(content)
	if calls := r.textCalls(content); len(calls) > 0 {
		accepted, rejected := r.mergeCalls(calls)
		if rejected != nil {
			return r.rejectReply(nil, rejected)
		}
		return loop.Ruling{Action: &loop.Action{Kind: string(accepted.kind), Payload: accepted.payload}, Withdrawn: withdrawn}
	}
	why := "Your reply had no tool call."
	switch {
	case r.task.namesTool(content):
		why = "Your reply is only the name of a tool, which is no answer."
	case r.textOnly():
		why = "Your reply cannot be read."
	case loop.LooksLikeCall(content):
		why = "Your reply looks like a tool call, but it cannot be read as a call of an offered tool. Write the call alone, without text around it."
	}
	return r.rejectReply(nil, &rejection{code: noToolCalls, why: why})
}

// inFence ends the sentences that ask for data as text.
const inFence = "eply with the data as JSON between a line ```json and a line ```"

// textCalls returns the tool call that a text represents, or nil.
func (r *rules) textCalls(content string) []llm.ToolCall {
	if r.task.Schema != nil && slices.Contains(r.permittedActions(), coordination.NewAnswer) {
		if data, words, found := llm.FindData(content); found {
			return []llm.ToolCall{{Name: string(coordination.NewAnswer), Arguments: `{"data":` + data + `,"content":` + string(marshal(words)) + `}`}}
		}
	}
	if r.task.TextAnswers != textWhenAsked && r.task.TextAnswers != textAlways {
		return nil
	}
	const decoration = " \t\r\n*_`\"'."
	label := strings.Trim(content, decoration)
	label = strings.Trim(label[len(heading.FindString(label)):], decoration)
	if slices.Contains(r.permittedActions(), coordination.Vote) {
		// A number alone may be an answer where one is open.
		named := strings.HasPrefix(strings.ToLower(label), "agent") || len(r.openActions()) == 1 && strings.Contains(label, ".")
		if _, _, found := r.memory.findAnswer(label); found && named {
			return textVote(label, "Voted for it without giving a reason.")
		}
		if label := r.memory.onlyLabel(content); label != "" && r.textOnly() {
			return textVote(label, content)
		}
	}
	asked := r.task.TextAnswers == textAlways || r.memory.silent
	if !asked || r.task.Schema != nil || !r.answersOnly() || isBlank(content) || loop.LooksLikeCall(content) || r.task.namesTool(content) {
		return nil
	}
	return []llm.ToolCall{{Name: string(coordination.NewAnswer), Arguments: string(marshal(proposal{Content: content}))}}
}

func (t task) namesTool(content string) bool {
	return loop.NamesTool(content, slices.Concat(longTools, []string{"vote", "stop", "submit"}, t.Tools)...)
}

func textVote(label, reason string) []llm.ToolCall {
	arguments := marshal(map[string]string{"agent_id": label, "reason": reason})
	return []llm.ToolCall{{Name: string(coordination.Vote), Arguments: string(arguments)}}
}

// onlyLabel returns the label in a text that names a single agent, in one or more places, or
// "" for any other text.
func (m *memory) onlyLabel(content string) string {
	labels := labelled.FindAllString(content, -1)
	if len(labels) == 0 {
		return ""
	}
	named, _, found := m.findAnswer(labels[0])
	for _, label := range labels[1:] {
		other, _, also := m.findAnswer(label)
		found = found && also && other.Number == named.Number
	}
	if !found {
		return ""
	}
	return labels[0]
}

func (r *rules) answersOnly() bool {
	return slices.Equal(r.openActions(), []coordination.Action{coordination.NewAnswer})
}

// textOnly reports whether the step is plain and has one open action. News can open a second one,
// and then the workflow tools are offered.
func (r *rules) textOnly() bool { return r.task.isPlain() && len(r.openActions()) == 1 }

// inText returns the words that tell a model, which may be unable to call tools, how its text
// counts.
func (r *rules) inText() string {
	if r.task.Schema != nil && slices.Contains(r.openActions(), coordination.NewAnswer) {
		return " If you cannot call tools, r" + inFence + "."
	}
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
	case slices.Contains(r.openActions(), coordination.Vote):
		return fmt.Sprintf("%s with the label that you vote for and nothing else. The labels are: %s.", begin, strings.Join(r.memory.electableAgents(), ", "))
	}
	return ""
}
