package team

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Bounds of what an agent may submit, in bytes.
const (
	// MaxAnswer keeps an answer far below what an object or a prompt can hold;
	// anything larger belongs into a file.
	MaxAnswer = 256 << 10

	// MaxReason is where the reason of a vote is cut.
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

// action is an acceptable call, read.
type action struct {
	kind    string
	payload json.RawMessage
	says    string // equal for calls that ask for the same
	told    string
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
	says := strings.TrimSpace(content)
	for _, shown := range r.task.Answers {
		if says == strings.TrimSpace(shown.Text) {
			return action{}, &rejection{AnswerDuplicate, "Your answer is the same as " + shown.Label + ", which is there already. Change something that matters" + r.orVote() + "."}
		}
	}
	return action{
		kind:    KindNewAnswer,
		payload: marshal(NewAnswer{Content: content}),
		says:    says,
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

func (r *Rules) orVote() string {
	if r.task.canVote() {
		return ", or vote"
	}
	return ""
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
		return action{}, &rejection{InvalidVoteID, "The agent_id names nobody with an answer. It can be " + strings.Join(r.electable(), ", ") + "."}
	}
	return action{
		kind:    KindVote,
		payload: marshal(Vote{Number: shown.Number, Label: shown.Label, Reason: cut(*args.Reason, MaxReason)}),
		says:    shown.Label,
		told:    "Your vote for " + shown.Label + " is recorded.",
	}, nil
}

// find returns the answer shown of the agent that id names, as agent2 or with
// any revision, as agent2.1.
func (r *Rules) find(id string) (Answer, bool) {
	agent, revision, versioned := strings.Cut(strings.ToLower(strings.TrimSpace(id)), ".")
	if versioned && !revisionForm.MatchString(revision) {
		return Answer{}, false
	}
	for _, a := range r.task.Answers {
		if a.agent() == agent {
			return a, true
		}
	}
	return Answer{}, false
}

func blank(s *string) bool { return s == nil || strings.TrimSpace(*s) == "" }

// marshal is for structs of strings, numbers and slices of them, which always
// have a JSON form.
func marshal(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}
