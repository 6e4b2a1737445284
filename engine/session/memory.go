package session

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session/quality"
)

// memory is the fold of a step's journal. A ruling depends only on the memory and the task,
// and only newMemory and Learn change the memory.
type memory struct {
	people   string       // mark of human messages
	live     []string     // all marks in the conversation
	answers  []answer     // the newest shown of each agent
	texts    []answer     // all that were ever shown
	messages map[int]bool // messages shown, by number

	injected int // answers shown by updates
	bytes    int // bytes of their texts

	effort

	confirmed bool     // an action was withdrawn
	replaced  []string // labels of replaced revisions for which a vote was rejected
	strayed   bool     // a call of a closed tool was rejected
	silent    bool     // the last reply had no tool call
	repeated  bool     // an answer equal to another's newest one was rejected, and no news has arrived since

	scored   []scored             // inputs of the step's checklist
	proposed []quality.PlanTask   // the newest plan of the checklist; nil without one
	planned  []quality.PlanUpdate // updates of the newest plan
	faulty   bool                 // an evaluation with faulty tasks was rejected
}

// effort is the spending of the step, and the warnings that the agent got about it.
type effort struct {
	worked   time.Duration
	usage    llm.Usage
	guided   bool          // whether the agent was asked to finish
	guidedAt time.Duration // time worked until then
	warned   bool          // warned that the budget is nearly used
	denied   int
}

func (e effort) softDue(l limits) bool {
	return l.Soft > 0 && e.worked >= l.Soft
}

// timeOver reports whether only calls that end the step remain open, because the grace after
// the request to finish is over.
func (e effort) timeOver(l limits) bool {
	return l.hasLimit() && e.guided && e.worked >= e.guidedAt+l.Grace
}

// usedShare returns the used share of the allowance, or 0 if there is no allowance. Calls of
// unknown cost count as free.
func (e effort) usedShare(limit coordination.Allowance) float64 {
	used, share := e.usage, 0.0
	if limit.Tokens > 0 {
		share = (float64(used.InputTokens) + float64(used.OutputTokens)) / float64(limit.Tokens)
	}
	if limit.USD > 0 {
		share = max(share, used.AtLeastUSD()/limit.USD)
	}
	return share
}

func (e effort) allowanceError(limit coordination.Allowance) error {
	if e.usedShare(limit) < 1 {
		return nil
	}
	return &loop.EndedError{Why: loop.EndAllowance}
}

// mustWarn reports whether to warn the agent about its budget, which happens once.
func (e effort) mustWarn(limit coordination.Allowance) bool {
	return !e.warned && e.usedShare(limit) >= warnShare
}

func (e effort) denialsError() error {
	if e.denied < maxDenials {
		return nil
	}
	return &loop.TimeOverError{Denials: e.denied}
}

// note is the record of the rules in a journal entry.
type note struct {
	Answers   []answerNote         `json:"answers,omitempty"`
	Mark      string               `json:"mark,omitempty"` // mark between the answers' texts
	Messages  []int                `json:"messages,omitempty"`
	WrapUp    bool                 `json:"wrap_up,omitempty"`
	Spending  bool                 `json:"spending,omitempty"`
	Confirmed bool                 `json:"confirmed,omitempty"`
	Repeated  bool                 `json:"repeated,omitempty"`
	Denied    int                  `json:"denied,omitempty"`
	Replaced  string               `json:"replaced,omitempty"` // label of the revision that a rejected vote named
	Checklist []quality.Result     `json:"checklist,omitempty"`
	Proposed  []quality.PlanTask   `json:"proposed,omitempty"`
	Plan      []quality.PlanUpdate `json:"plan,omitempty"` // plan of Proposed, if there is one
}

// answerNote refers to an answer that an update showed.
type answerNote struct {
	arrival
	Bytes int `json:"bytes,omitempty"` // bytes of its text, as far as shown
}

// answersOf reads from the note of an update's journal entry which answer steps the update
// showed, by agent number.
func answersOf(recorded json.RawMessage) map[int]int {
	var n note
	if json.Unmarshal(recorded, &n) != nil {
		return nil
	}
	steps := make(map[int]int, len(n.Answers))
	for _, a := range n.Answers {
		steps[a.Number] = max(steps[a.Number], a.Step)
	}
	return steps
}

// newMemory returns the memory after the opening of t.
func newMemory(t task) memory {
	m := memory{people: t.People, messages: make(map[int]bool)}
	if t.Purpose != coordination.Evaluate {
		m.answers = slices.Clone(t.Answers)
	}
	m.texts = slices.Clone(m.answers)
	for _, message := range t.Messages {
		m.messages[message.Number] = true
	}
	return m
}

// Learn folds a journal entry into the memory. Unknown answers of a restored entry
// are fetched, which also mounts their files.
func (r *rules) Learn(ctx context.Context, e loop.Entry) error {
	m := &r.memory
	m.worked += time.Duration(math.Round(max(0, e.Seconds) * float64(time.Second)))
	if e.Usage != nil {
		m.usage = m.usage.Add(*e.Usage)
	}
	switch e.Kind {
	case loop.Opening:
		m.readMarks(e.Messages)
	case loop.Rejection:
		m.strayed = m.strayed || e.Reason == toolNotOffered
		m.silent = e.Reason == noToolCalls || m.silent && e.Reason == loop.ReplyTooLong
		m.faulty = m.faulty || e.Reason == invalidTasks
	case loop.Results:
		m.silent = false
	case loop.Resumed:
		m.beginLaunch()
	}
	if len(e.Note) == 0 {
		return nil
	}
	var n note
	if err := json.Unmarshal(e.Note, &n); err != nil {
		return fmt.Errorf("read the rules' note of the %s: %w", e.Kind, err)
	}
	answers, err := r.recallAnswers(ctx, n.Answers)
	if err != nil {
		return fmt.Errorf("recall the answers of the %s: %w", e.Kind, err)
	}
	m.showAnswers(answers, n.Answers)
	m.foldNote(n)
	return nil
}

func (m *memory) foldNote(n note) {
	m.addMark(n.Mark)
	for _, number := range n.Messages {
		m.messages[number] = true
	}
	if n.WrapUp && !m.guided {
		m.guided, m.guidedAt = true, m.worked
	}
	m.warned = m.warned || n.Spending
	m.confirmed = m.confirmed || n.Confirmed
	m.repeated = n.Repeated || m.repeated && len(n.Answers)+len(n.Messages) == 0
	m.denied += n.Denied
	if n.Replaced != "" {
		m.replaced = append(m.replaced, n.Replaced)
	}
	if n.Proposed != nil {
		m.proposed, m.planned = n.Proposed, nil
	}
	m.planned = append(m.planned, n.Plan...)
	for _, result := range n.Checklist {
		m.scored = append(m.scored, scored{result: &result})
	}
}

// beginLaunch prepares the memory for a later launch of the step, which has its own allowance. The
// launch gets new time only if the step failed for lack of time.
func (m *memory) beginLaunch() {
	m.usage, m.warned = llm.Usage{}, false
	if m.denied >= maxDenials {
		m.worked, m.guided, m.guidedAt, m.denied = 0, false, 0, 0
	}
}

func (m *memory) showAnswers(answers []answer, notes []answerNote) {
	labels := make([]string, 0, len(answers))
	for i, a := range answers {
		labels = append(labels, a.Label)
		m.injected++
		m.bytes += notes[i].Bytes
		m.texts = append(m.texts, a)
		if at := slices.IndexFunc(m.answers, func(b answer) bool { return b.Number == a.Number }); at >= 0 {
			m.answers[at] = a
		} else {
			m.answers = append(m.answers, a)
		}
	}
	slices.SortStableFunc(m.answers, func(a, b answer) int { return a.Number - b.Number })
	if len(labels) > 0 {
		m.scored = append(m.scored, scored{labels: labels})
	}
}

func (m memory) clone() memory {
	m.answers, m.texts, m.scored = slices.Clone(m.answers), slices.Clone(m.texts), slices.Clone(m.scored)
	return m
}

// recallAnswers resolves the answers of a note: from the task, from those fetched before, or else
// from the inbox.
func (r *rules) recallAnswers(ctx context.Context, notes []answerNote) ([]answer, error) {
	answers := make([]answer, 0, len(notes))
	var missing []arrival
	for _, n := range notes {
		a := answer{Number: n.Number, Label: n.Label, Step: n.Step}
		if at := slices.IndexFunc(r.texts, func(b answer) bool { return b.toArrival() == n.arrival }); at >= 0 {
			a = r.texts[at]
		} else {
			missing = append(missing, n.arrival)
		}
		answers = append(answers, a)
	}
	fetched, err := r.fetchAnswers(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, a := range fetched {
		at := slices.IndexFunc(answers, func(b answer) bool { return a.toArrival() == b.toArrival() })
		answers[at] = a
	}
	return answers, nil
}

func (r *rules) fetchAnswers(ctx context.Context, arrivals []arrival) ([]answer, error) {
	if len(arrivals) == 0 {
		return nil, nil
	}
	if r.task.Inbox == nil {
		return nil, fmt.Errorf("there is no inbox to fetch %s from", arrivals[0].Label)
	}
	answers, err := r.task.Inbox.fetch(ctx, arrivals)
	if err != nil {
		return nil, fmt.Errorf("fetch %d new answers: %w", len(arrivals), err)
	}
	for i, a := range arrivals {
		a.Seq = 0 // answers do not know it
		if i >= len(answers) || answers[i].toArrival() != a {
			return nil, fmt.Errorf("fetch %d new answers: %s is missing or out of order", len(arrivals), a.Label)
		}
	}
	r.texts = append(r.texts, answers...)
	return answers, nil
}
