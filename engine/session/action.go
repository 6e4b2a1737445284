package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session/quality"
)

// Limits of submitted texts, in bytes.
const (
	maxAnswer = 256 << 10 // far below the limits of objects and prompts; larger contents belong in files
	maxReason = 4 << 10   // most bytes of a vote's reason, a stop's summary, a restart's reason and instructions; longer ones are truncated
)

// Examples in hints. Weak models copy them, so they are JSON in plain ASCII.
const (
	exampleAnswer = "your complete answer" // refused as an answer
	exampleVote   = `{"agent_id": %q, "reason": "it is right"}`
	exampleStop   = `{"status": "complete", "summary": "my part is done"}`
)

// proposal is the payload of an accepted new_answer, before it is sealed.
type proposal struct {
	Content string          `json:"content"`
	Data    json.RawMessage `json:"data,omitempty"`
	Equal   string          `json:"equal,omitempty"` // as in Answer
}

// ballot is the payload of an accepted vote, before it is sealed. Label is the revision that
// the model named, or else the newest one shown of the agent with Number. Repeats is the
// label of the answer that the same reply also submitted.
type ballot struct {
	Number  int    `json:"number"`
	Label   string `json:"label"`
	Reason  string `json:"reason"`
	Repeats string `json:"repeats,omitempty"`

	Confidence *float64 `json:"confidence,omitempty"` // confidence from 0 to 1
}

// action is a parsed call of a workflow tool.
type action struct {
	kind    coordination.Action
	payload json.RawMessage
	same    string // equal for calls that request the same action
	result  string // the call's result for the model
}

// parseCall reads a call of a workflow tool.
func (r *rules) parseCall(call llm.ToolCall) (action, *rejection) {
	switch coordination.Action(call.Name) {
	case coordination.NewAnswer:
		return r.parseAnswer(call.Arguments)
	case coordination.Vote:
		return r.parseVote(call.Arguments)
	case coordination.Stop:
		return parseStop(call.Arguments)
	case coordination.Submit:
		return parseSubmit(call.Arguments)
	case coordination.SubmitEvaluation:
		return r.parseEvaluation(call.Arguments)
	default:
		return parseRestart(call.Arguments)
	}
}

func (r *rules) parseAnswer(arguments string) (action, *rejection) {
	if r.task.Schema != nil {
		return r.parseData(arguments)
	}
	var args struct{ Content string }
	if err := json.Unmarshal([]byte(arguments), &args); err != nil || args.Content == "" {
		return action{}, &rejection{code: invalidArguments, why: `new_answer takes {"content": "` + exampleAnswer + `"}, a JSON object with a text that is not empty.`}
	}
	if loop.NamesTool(args.Content, longTools...) || strings.Trim(strings.ToLower(args.Content), " \t\r\n.") == exampleAnswer {
		return action{}, &rejection{code: invalidArguments, why: "The content is only the name of a tool or the words of an example, which is no answer. Write your complete answer there."}
	}
	if isBlank(args.Content) {
		return action{}, &rejection{code: invalidArguments, why: "The content has only white space, control characters or marks without a width, so nobody can see it. Write the answer as visible text."}
	}
	return r.propose(proposal{Content: args.Content}, strings.TrimSpace(args.Content))
}

// parseData reads an answer whose data fit the schema. Its text has the words and the data.
func (r *rules) parseData(arguments string) (action, *rejection) {
	var args struct {
		Content string
		Data    json.RawMessage
	}
	if err := json.Unmarshal([]byte(arguments), &args); err != nil || args.Data == nil {
		return action{}, &rejection{code: invalidArguments, why: `new_answer takes {"data": …}, a JSON object with the data in the form that the schema describes.`}
	}
	d, err := r.task.Schema.Read(args.Data)
	if err != nil {
		return action{}, &rejection{code: invalidArguments, why: "The data do not fit the schema: " + err.Error() + "."}
	}
	var indented bytes.Buffer
	_ = json.Indent(&indented, d.JSON, "", "  ")
	text := indented.String()
	if !isBlank(args.Content) {
		text = strings.TrimSpace(args.Content) + "\n\n```json\n" + text + "\n```"
	}
	return r.propose(proposal{Content: text, Data: d.JSON, Equal: hashParts(d.Canonical)}, d.Canonical)
}

// propose accepts a new answer that is not too large; same is equal for equal answers.
func (r *rules) propose(p proposal, same string) (action, *rejection) {
	if n := len(p.Content); n > maxAnswer {
		why := fmt.Sprintf("The content has %d bytes; at most %d are allowed. Shorten it", n, maxAnswer)
		if r.task.Files {
			why += " or put the bulk into files of your workspace"
		}
		return action{}, &rejection{code: answerTooLarge, why: why + "."}
	}
	return action{kind: coordination.NewAnswer, payload: marshal(p), same: same, result: "Your answer is submitted."}, nil
}

func (r *rules) parseVote(arguments string) (action, *rejection) {
	var args struct {
		AgentID    json.RawMessage `json:"agent_id"`
		Reason     string
		Confidence json.RawMessage
	}
	if err := json.Unmarshal([]byte(arguments), &args); err != nil || isBlank(readAgent(args.AgentID), args.Reason) {
		label := cmp.Or(r.memory.onlyLabel(arguments), r.memory.electableAgents()[0])
		return action{}, &rejection{code: invalidArguments, why: fmt.Sprintf("vote takes "+exampleVote+", a JSON object with two texts that are not empty.", label)}
	}
	target, label, ok := r.memory.findAnswer(readAgent(args.AgentID))
	confidence, valid := r.task.readConfidence(args.Confidence)
	switch {
	case !valid:
		return action{}, &rejection{code: invalidArguments, why: "The confidence of a vote is a number from 0 to 1."}
	case !ok:
		return action{}, &rejection{code: invalidVoteID, why: "The agent_id names no answer that you were shown. It can be " + strings.Join(r.memory.electableAgents(), ", ") + "."}
	case label != target.Label && !slices.Contains(r.memory.replaced, label):
		return action{}, &rejection{code: voteReplaced, replaced: label, why: fmt.Sprintf("%s was replaced by %s, and a vote counts for the newer one. Vote for %s if it deserves it%s.",
			label, target.Label, target.authorName(), r.orAnswer())}
	}
	result := "Your vote for " + label + " is recorded."
	if label != target.Label {
		result = "Your vote for " + label + " is recorded, and counts for " + target.Label + "."
	}
	return action{
		kind:    coordination.Vote,
		payload: marshal(ballot{Number: target.Number, Label: label, Reason: boundText(args.Reason), Confidence: confidence}),
		same:    label,
		result:  result,
	}, nil
}

// readConfidence reads a vote's confidence, or ignores it without ballot_confidence.
func (t task) readConfidence(argument json.RawMessage) (confidence *float64, valid bool) {
	if !t.Confidence || len(argument) == 0 {
		return nil, true
	}
	err := json.Unmarshal(argument, &confidence)
	return confidence, err == nil && (confidence == nil || 0 <= *confidence && *confidence <= 1)
}

func (a action) withRepeated(label string) action {
	var b ballot
	if label == "" || json.Unmarshal(a.payload, &b) != nil {
		return a
	}
	b.Repeats = label
	a.payload = marshal(b)
	return a
}

func readAgent(value json.RawMessage) string {
	id := string(value)
	_ = json.Unmarshal(value, &id) // leaves a number as it is
	return id
}

// findAnswer returns the newest answer shown of the agent that id names, and the label that id
// names: the newest one for agent2, or for agent2.1 that revision or an older one. It does
// not find newer revisions, which were not shown. The word agent may be missing, as in 2.1; a
// 2 alone is not found if the second answer is another agent's, because it may mean either.
func (m *memory) findAnswer(id string) (a answer, label string, ok bool) {
	number, worded := strings.CutPrefix(strings.ToLower(strings.TrimSpace(id)), "agent")
	id = "agent" + strings.TrimLeft(number, " _-")
	agent, _, versioned := strings.Cut(id, ".")
	for _, a := range m.answers {
		switch named := parseRevision(a.Number, id); {
		case a.authorName() != agent:
		case !worded && !versioned && a.Number <= len(m.answers) && m.answers[a.Number-1].Number != a.Number:
		case !versioned:
			return a, a.Label, true
		default:
			return a, id, 0 < named && named <= parseRevision(a.Number, a.Label)
		}
	}
	return answer{}, "", false
}

func parseStop(arguments string) (action, *rejection) {
	var args stop
	err := json.Unmarshal([]byte(arguments), &args)
	if err != nil || isBlank(args.Summary) || (args.Status != coordination.Complete && args.Status != coordination.Blocked) {
		return action{}, &rejection{code: invalidArguments, why: "stop takes " + exampleStop + ", a JSON object; the summary is not empty, and the status is complete or blocked."}
	}
	return action{
		kind:    coordination.Stop,
		payload: marshal(stop{Status: args.Status, Summary: boundText(args.Summary)}),
		same:    string(args.Status),
		result:  "You have stopped; what you submitted stands as " + string(args.Status) + ".",
	}, nil
}

// parseSubmit accepts any object, and no arguments at all.
func parseSubmit(arguments string) (action, *rejection) {
	var args map[string]any
	if err := json.Unmarshal([]byte(arguments), &args); err != nil && strings.TrimSpace(arguments) != "" {
		return action{}, &rejection{code: invalidArguments, why: `submit takes {}, an empty JSON object.`}
	}
	return action{kind: coordination.Submit, payload: marshal(struct{}{}), result: "The final answer is submitted."}, nil
}

func parseRestart(arguments string) (action, *rejection) {
	var args restart
	if err := json.Unmarshal([]byte(arguments), &args); err != nil || isBlank(args.Reason, args.Instructions) {
		return action{}, &rejection{code: invalidArguments, why: `restart_orchestration takes {"reason": "what is wrong", "instructions": "what to do differently"}, a JSON object with two texts that are not empty.`}
	}
	accepted := restart{Reason: boundText(args.Reason), Instructions: boundText(args.Instructions)}
	return action{
		kind:    coordination.RestartTeam,
		payload: marshal(accepted),
		same:    accepted.Reason + "\x00" + accepted.Instructions,
		result:  "The work begins again.",
	}, nil
}

// parseEvaluation reads the evaluation of an answer. It rejects invalid tasks once; after
// that the evaluation counts without them.
func (r *rules) parseEvaluation(arguments string) (action, *rejection) {
	s, bad := quality.ParseEvaluation(arguments, len(r.task.Criteria))
	if bad != nil {
		return action{}, &rejection{code: invalidArguments, why: bad.Why}
	}
	if len(s.Faults) > 0 && !r.memory.faulty {
		why := "The next_tasks are faulty."
		for _, f := range s.Faults {
			why += " " + f.Why
		}
		return action{}, &rejection{code: invalidTasks, why: why}
	}
	payload := marshal(s)
	return action{kind: coordination.SubmitEvaluation, payload: payload, same: string(payload), result: "Your evaluation is submitted."}, nil
}

// fillers are letters and symbols without a shape.
const fillers = "\u115f\u1160\u3164\uffa0\u2800"

// isBlank reports whether one of the texts has nothing visible: only white space, control
// characters, and marks without a width.
func isBlank(texts ...string) bool {
	visible := func(c rune) bool {
		return !unicode.In(c, unicode.White_Space, unicode.C, unicode.M) && !strings.ContainsRune(fillers, c)
	}
	return slices.ContainsFunc(texts, func(s string) bool { return !strings.ContainsFunc(s, visible) })
}

// marshal encodes a struct that always has a JSON form.
func marshal(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

// orAnswer returns the words that offer a new answer, if one is open.
func (r *rules) orAnswer() string {
	if slices.Contains(r.openActions(), coordination.NewAnswer) {
		return ", or submit an answer of your own with new_answer"
	}
	return ""
}
