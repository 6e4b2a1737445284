package checklist

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/text"
)

// Defaults of the policy's numbers.
const (
	defaultAnswerLimit = 5
	defaultCalls       = 1
)

// Policy configures the checklist of one step, that is, of one round of the agent.
type Policy struct {
	Criteria      config.Criteria     // numbered E1 to En; empty means the default ones
	Terminal      coordination.Action // ending verdict, vote or stop; empty means stop in decomposition, else vote
	Answers       int                 // accepted answers of the agent
	AnswerLimit   int                 // limit of the agent's answers; 0 stands for 5
	CallsPerRound int                 // checklists accepted in the step, rechecks aside; 0 stands for 1
	FirstAnswer   bool                // allows a checklist to an agent without an answer
	Decomposition bool                // scores the agent's own part instead of all answers
	Subtask       string              // the agent's part in decomposition, for the default criteria
	Labels        []string            // labels of the newest answers shown, one of each agent, its own included, in the order shown
	Own           string              // label of the agent's own newest answer, never shown to the model; empty without one

	// Past are the agent's last accepted checklists from earlier steps, at most PastNeeded,
	// the oldest first.
	Past []Scores

	// Packet is the path of an evaluation of the answer, and PacketText its text, which
	// serves as the report of every checklist. Both are empty without an evaluation.
	Packet, PacketText string

	// Read returns the content of a file of the agent's workspace. It is nil for an agent
	// without files.
	Read func(path string) ([]byte, error)
}

// Scores are the scores of the answer that decided a checklist, by criterion.
type Scores map[string]float64

// PastNeeded is the number of earlier checklists needed to detect a plateau.
const PastNeeded = 2

// Judged returns the criteria that the policy judges by.
func (p Policy) Judged() config.Criteria { return p.normal().Criteria }

// Open reports whether the step has a checklist: the agent has an answer, or FirstAnswer is
// set.
func (p Policy) Open() bool { return p.Own != "" || p.FirstAnswer }

// normal returns p with defaults. The copy shares no memory that changes later.
func (p Policy) normal() Policy {
	ending := coordination.Vote
	if p.Decomposition {
		ending = coordination.Stop
	}
	p.Terminal = cmp.Or(p.Terminal, ending)
	p.AnswerLimit = cmp.Or(p.AnswerLimit, defaultAnswerLimit)
	p.CallsPerRound = cmp.Or(p.CallsPerRound, defaultCalls)
	if len(p.Criteria) == 0 {
		p.Criteria = p.defaults()
	}
	p.Labels = slices.Clone(p.Labels)
	if p.Own != "" && !slices.Contains(p.Labels, p.Own) {
		p.Labels = append(p.Labels, p.Own)
	}
	return p
}

// id names the criterion at index.
func id(index int) string { return fmt.Sprintf("E%d", index+1) }

// ids returns the names of all criteria in order.
func (p Policy) ids() []string {
	names := make([]string, len(p.Criteria))
	for i := range names {
		names[i] = id(i)
	}
	return names
}

// agent returns the agent in a label: agent2 for agent2.1.
func agent(label string) string {
	name, _, _ := strings.Cut(label, ".")
	return name
}

// maxScope truncates the subtask inside a default criterion, in bytes.
const maxScope = 140

// Defaults returns the criteria of a team that has configured none and does not divide its
// work.
func Defaults() config.Criteria { return Policy{}.defaults() }

// defaults returns the criteria of a team that has configured none.
func (p Policy) defaults() config.Criteria {
	texts := []string{
		"It does all that the task asks for, stated or plainly meant, and nothing that the task rules out.",
		"What it says is true and what it delivers works: facts, sums, code and sources were checked, not assumed.",
		"It is thorough where the task is hard: edge cases, trade-offs and likely questions are dealt with, not passed over.",
		"Whoever asked can use it as it is: it is clear, in good order, and complete without further explanation.",
		"It shows care: the choices fit this task, and nothing is generic, padded or left half done.",
	}
	if p.Decomposition {
		scope := text.Truncate(text.OneLine(p.Subtask), maxScope)
		if scope == "" {
			scope = "as assigned"
		}
		texts = []string{
			"The owned part is carried forward to where it should be. The part: " + scope,
			"What the other parts have produced is taken in where this part touches it, and fits together with it.",
			"It keeps to the owned part: work that belongs to others is left to them.",
			"Nothing that worked before is broken, and a check was run that shows it.",
			"It is a real step beyond the last version, not other words or small polish.",
		}
	}
	criteria := make(config.Criteria, len(texts))
	for i, t := range texts {
		criteria[i] = config.Criterion{Text: t, Category: "standard"}
	}
	return criteria
}

// threshold is the voting threshold before it is adjusted to the number of answers left.
const threshold = 5

// passing returns the lowest score that passes, which is lower if fewer answers are left.
func (p Policy) passing() int {
	effective, left := threshold, max(0, p.AnswerLimit-p.Answers)
	ratio := float64(left) / float64(p.AnswerLimit)
	switch {
	case left <= 2:
		effective += 2
	case ratio <= 0.4:
		effective++
	}
	if ratio >= 0.7 {
		effective--
	}
	return (20 - effective) / 2
}

// form returns an example of the required scores, as JSON.
func (p Policy) form() string {
	scores := `{"E1": 7, "E2": 5}`
	if len(p.Criteria) == 1 {
		scores = `{"E1": 7}`
	}
	if p.Decomposition || p.Own == "" || len(p.Labels) < 2 {
		return fmt.Sprintf(`{"scores": %s}`, scores)
	}
	return fmt.Sprintf(`{"scores": {%q: %s, %q: %s}}`, p.Labels[0], scores, p.Labels[1], scores)
}
