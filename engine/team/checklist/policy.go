package checklist

import (
	"fmt"
	"slices"
	"strings"
)

// The verdicts that end, and the one that goes on: names of workflow tools.
const (
	Vote      = "vote"
	Stop      = "stop"
	NewAnswer = "new_answer"
)

// Defaults of the policy's numbers.
const (
	defaultThreshold   = 5
	defaultAnswerLimit = 5
	defaultCalls       = 1
)

// Policy is what a step's checklist is made from. It holds for one step, which
// is one round of the agent.
type Policy struct {
	// Criteria are numbered E1 to En; none means the default ones.
	Criteria []Criterion

	// Terminal is the verdict that ends, Vote or Stop; empty means Stop in
	// decomposition, else Vote.
	Terminal string

	// Threshold is the voting threshold, 5 when it is not positive. A higher one
	// is easier to meet.
	Threshold int

	// Answers counts the agent's accepted answers towards AnswerLimit, the
	// agent's cap; 5 when it is not positive.
	Answers, AnswerLimit int

	// CallsPerRound is how many checklists are accepted in the step, rechecks
	// aside; 1 when it is not positive.
	CallsPerRound int

	// FirstAnswer allows a checklist to an agent without an answer.
	FirstAnswer bool

	// Decomposition scores the agent's own part instead of all answers.
	Decomposition bool

	// Subtask is the agent's part in decomposition, for the default criteria.
	Subtask string

	// Labels are those of the answers shown, the newest of each agent, in the
	// order shown, the agent's own included.
	Labels []string

	// Own is the label of the agent's own newest answer, empty without one. It
	// is never told to the model.
	Own string

	// History are the agent's accepted results of earlier steps, oldest first. It
	// is only used to see what has plateaued.
	History []Result
}

// Criterion is one thing to score. Only Text is required.
type Criterion struct {
	Text         string
	Category     string
	VerifyBy     string
	AntiPatterns []string
}

// Open reports whether the step has a checklist at all: not before the agent's
// first answer, unless FirstAnswer.
func (p Policy) Open() bool { return p.Own != "" || p.FirstAnswer }

// normal returns p with defaults for what is missing, sharing nothing that is
// changed later.
func (p Policy) normal() Policy {
	if p.Terminal != Vote && p.Terminal != Stop {
		p.Terminal = Vote
		if p.Decomposition {
			p.Terminal = Stop
		}
	}
	if p.Threshold <= 0 {
		p.Threshold = defaultThreshold
	}
	if p.AnswerLimit <= 0 {
		p.AnswerLimit = defaultAnswerLimit
	}
	if p.CallsPerRound <= 0 {
		p.CallsPerRound = defaultCalls
	}
	if len(p.Criteria) == 0 {
		p.Criteria = p.defaults()
	}
	p.Labels = slices.Clone(p.Labels)
	if p.Own != "" && !slices.Contains(p.Labels, p.Own) {
		p.Labels = append(p.Labels, p.Own)
	}
	p.History = slices.Clone(p.History)
	return p
}

// id names the criterion at index.
func id(index int) string { return fmt.Sprintf("E%d", index+1) }

// ids names all criteria in order.
func (p Policy) ids() []string {
	names := make([]string, len(p.Criteria))
	for i := range names {
		names[i] = id(i)
	}
	return names
}

// agent is the agent's part of a label: agent2 of agent2.1.
func agent(label string) string {
	name, _, _ := strings.Cut(label, ".")
	return name
}
