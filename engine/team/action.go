package team

import (
	"encoding/json"
	"fmt"
	"strings"

	"conclave/engine/llm"
)

// Bounds of what an agent may submit, in bytes.
const (
	// MaxAnswer keeps an answer far below what an object or a prompt can hold;
	// anything larger belongs into a file.
	MaxAnswer = 256 << 10

	// MaxReason is where the reason of a vote is cut, and with it the summary of
	// a stop and what an evaluation says.
	MaxReason = 4 << 10
)

// NewAnswer is the payload of a KindNewAnswer action.
type NewAnswer struct {
	Content string `json:"content"`
}

// Vote is the payload of a KindVote action. Label is the revision shown of the
// agent with Number, whichever one the model named.
type Vote struct {
	Number int    `json:"number"`
	Label  string `json:"label"`
	Reason string `json:"reason"`
}

// Stop is the payload of a KindStop action.
type Stop struct {
	Status  string `json:"status"`
	Summary string `json:"summary"`
}

// How the owner of a part sees it when it stops.
const (
	Complete = "complete"
	Blocked  = "blocked"
)

// Submit is the payload of a KindSubmit action.
type Submit struct{}

// Again is the payload of a KindRestart action.
type Again struct {
	Reason       string `json:"reason"`
	Instructions string `json:"instructions"`
}

// action is an acceptable call, read.
type action struct {
	kind    string
	payload json.RawMessage
	says    string // equal for calls that ask for the same
	told    string
}

// read makes an action of a call of a workflow tool.
func (r *Rules) read(call llm.ToolCall) (action, *rejection) {
	switch call.Name {
	case KindNewAnswer:
		return r.newAnswer(call.Arguments)
	case KindVote:
		return r.vote(call.Arguments)
	case KindStop:
		return readStop(call.Arguments)
	case KindSubmit:
		return readSubmit(call.Arguments)
	default:
		return readRestart(call.Arguments)
	}
}

// newAnswer reads the arguments of a new_answer call.
func (r *Rules) newAnswer(arguments string) (action, *rejection) {
	var args struct{ Content *string }
	if err := json.Unmarshal([]byte(arguments), &args); err != nil || blank(args.Content) {
		return action{}, &rejection{InvalidArguments, `new_answer takes {"content": "…"}, a JSON object with a text that is not empty.`}
	}
	content := *args.Content
	if len(content) > MaxAnswer {
		return action{}, &rejection{AnswerTooLarge, r.tooLarge(len(content))}
	}
	if rejected := r.novel(content); rejected != nil {
		return action{}, rejected
	}
	return action{
		kind:    KindNewAnswer,
		payload: marshal(NewAnswer{Content: content}),
		says:    strings.TrimSpace(content),
		told:    "Your answer is submitted.",
	}, nil
}

func (r *Rules) tooLarge(size int) string {
	why := fmt.Sprintf("The content has %d bytes; at most %d are allowed. Shorten it", size, MaxAnswer)
	if r.task.Files {
		why += " or put the bulk into files of your workspace"
	}
	return why + "."
}

// vote reads the arguments of a vote call.
func (r *Rules) vote(arguments string) (action, *rejection) {
	var args struct {
		AgentID *string `json:"agent_id"`
		Reason  *string
	}
	if err := json.Unmarshal([]byte(arguments), &args); err != nil || blank(args.AgentID) || blank(args.Reason) {
		return action{}, &rejection{InvalidArguments, `vote takes {"agent_id": "agent…", "reason": "…"}, a JSON object with two texts that are not empty.`}
	}
	shown, ok := r.find(*args.AgentID)
	if !ok {
		return action{}, &rejection{InvalidVoteID, "The agent_id names no answer that you were shown. It can be " + strings.Join(r.electable(), ", ") + "."}
	}
	return action{
		kind:    KindVote,
		payload: marshal(Vote{Number: shown.Number, Label: shown.Label, Reason: cut(*args.Reason, MaxReason)}),
		says:    shown.Label,
		told:    "Your vote for " + shown.Label + " is recorded.",
	}, nil
}

// find returns the newest answer shown of the agent that id names, as agent2 or,
// as agent2.1, with its revision or an older one. A newer one was not shown.
func (r *Rules) find(id string) (Answer, bool) {
	id = strings.ToLower(strings.TrimSpace(id))
	agent, _, versioned := strings.Cut(id, ".")
	for _, a := range r.known.answers {
		if a.agent() != agent {
			continue
		}
		named := revision(a.Number, id)
		return a, !versioned || 0 < named && named <= revision(a.Number, a.Label)
	}
	return Answer{}, false
}

// readStop reads the arguments of a stop call.
func readStop(arguments string) (action, *rejection) {
	var args struct{ Summary, Status *string }
	err := json.Unmarshal([]byte(arguments), &args)
	if err != nil || blank(args.Summary) || args.Status == nil || (*args.Status != Complete && *args.Status != Blocked) {
		return action{}, &rejection{InvalidArguments, `stop takes {"summary": "…", "status": "complete" or "blocked"}, a JSON object; the summary is not empty.`}
	}
	return action{
		kind:    KindStop,
		payload: marshal(Stop{Status: *args.Status, Summary: cut(*args.Summary, MaxReason)}),
		says:    *args.Status,
		told:    "You have stopped; what you submitted stands as " + *args.Status + ".",
	}, nil
}

// readSubmit reads the arguments of a submit call, of which nothing is asked.
func readSubmit(arguments string) (action, *rejection) {
	var args map[string]any
	if err := json.Unmarshal([]byte(arguments), &args); err != nil && strings.TrimSpace(arguments) != "" {
		return action{}, &rejection{InvalidArguments, `submit takes {}, an empty JSON object.`}
	}
	return action{kind: KindSubmit, payload: marshal(Submit{}), told: "The final answer is submitted."}, nil
}

// readRestart reads the arguments of a restart_orchestration call.
func readRestart(arguments string) (action, *rejection) {
	var args struct{ Reason, Instructions *string }
	if err := json.Unmarshal([]byte(arguments), &args); err != nil || blank(args.Reason) || blank(args.Instructions) {
		return action{}, &rejection{InvalidArguments, `restart_orchestration takes {"reason": "…", "instructions": "…"}, a JSON object with two texts that are not empty.`}
	}
	again := Again{Reason: cut(*args.Reason, MaxReason), Instructions: cut(*args.Instructions, MaxReason)}
	return action{
		kind:    KindRestart,
		payload: marshal(again),
		says:    again.Reason + "\x00" + again.Instructions,
		told:    "The work begins again.",
	}, nil
}

func blank(s *string) bool { return s == nil || strings.TrimSpace(*s) == "" }

// marshal is for structs of strings, numbers and slices of them, which always
// have a JSON form.
func marshal(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}
