package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/text"
)

// admission is the part of the news that reaches the step at this safe point.
type admission struct {
	Answers  []arrival // answers by agent number
	Messages []int     // numbers, ascending
	Restart  bool      // the step ends, to begin again with the new answers
}

// admitNews selects the news that reaches the step. The rest is left for the next safe point or
// for the agent's next launch. A step that cannot answer restarts, so that it does not vote
// for an answer that it has barely read.
func (r *rules) admitNews(n news) admission {
	a := admission{Messages: r.memory.unreadMessages(n)}
	arrived := r.memory.unseenArrivals(n)
	t, m := r.task, r.memory
	switch {
	case len(arrived) == 0 || t.Updates.Mode == "":
	case t.Updates.UntilChecklist && r.hasChecked():
	case m.guided || r.memory.softDue(r.task.limits) || n.WrapUp || t.Soft > 0 && t.Soft-m.worked < t.Grace: // too late to use it
	case t.Updates.Mode == coordination.Restart || !t.offersAction(coordination.NewAnswer):
		a.Restart = true
	default:
		a.Answers = newestArrivals(arrived, t.Updates.Most, m.injected)
	}
	return a
}

func (r *rules) hasChecked() bool {
	state := r.checklistState()
	return state != nil && state.Submitted()
}

// unseenArrivals returns, in the order of n, each agent's newest arrival if it has not been
// shown.
func (m *memory) unseenArrivals(n news) []arrival {
	shown := make(map[int]string, len(m.answers))
	for _, a := range m.answers {
		shown[a.Number] = a.Label
	}
	var arrived []arrival
	for _, a := range n.Arrivals {
		if parseRevision(a.Number, a.Label) <= parseRevision(a.Number, shown[a.Number]) {
			continue
		}
		i := slices.IndexFunc(arrived, func(b arrival) bool { return b.Number == a.Number })
		switch {
		case i < 0:
			arrived = append(arrived, a)
		case parseRevision(a.Number, a.Label) > parseRevision(a.Number, arrived[i].Label):
			arrived[i] = a
		}
	}
	return arrived
}

// newestArrivals returns the arrivals accepted last, at most the difference of most and injected.
// If the order is unknown, it prefers the most revised, and among equals the last.
func newestArrivals(arrived []arrival, most, injected int) []arrival {
	slices.Reverse(arrived)
	slices.SortStableFunc(arrived, func(a, b arrival) int {
		return cmp.Or(cmp.Compare(b.Seq, a.Seq), cmp.Compare(parseRevision(b.Number, b.Label), parseRevision(a.Number, a.Label)))
	})
	if most > 0 {
		arrived = arrived[:min(len(arrived), max(0, most-injected))]
	}
	slices.SortFunc(arrived, func(a, b arrival) int { return cmp.Compare(a.Number, b.Number) })
	return arrived
}

func (m *memory) unreadMessages(n news) []int {
	var numbers []int
	for _, number := range slices.Compact(slices.Sorted(slices.Values(n.Messages))) {
		if !m.messages[number] {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// update is the template data of a message to a running agent.
type update struct {
	note note

	Mark        string // mark between the answers
	People      string // mark between the messages of people
	Answers     []newcomer
	Agreements  []agreement // agreements of all answers shown
	Differences string      // as in prompt, of all answers shown
	Said        []message

	WrapUp   bool
	Ending   bool // the session is about to end; else it is the step's time
	Limited  bool // other calls will be denied
	Seconds  int  // seconds of work left until then
	Spending bool

	Again   string // kind of the withdrawn action
	Judging bool   // whether the step evaluates
	Recheck string // the checklist's request to score again
	Ways    string // the calls that end the step
	CanVote bool
	CanStop bool
	Divided bool
}

// newcomer is a new answer in an update.
type newcomer struct {
	framed
	Replaces string // label shown before of its agent; may be empty
}

// readNews asks the inbox.
func (r *rules) readNews(ctx context.Context) (news, error) {
	if r.task.Inbox == nil {
		return news{}, nil
	}
	n, err := r.task.Inbox.news(ctx)
	if err != nil {
		return news{}, fmt.Errorf("read the news: %w", err)
	}
	for _, a := range n.Arrivals {
		if err := checkLabel(a.Number, a.Label); err != nil {
			return news{}, fmt.Errorf("read the news: %w", err)
		}
	}
	return n, nil
}

// gatherUpdate reads the admitted texts. All updates of a step together may show as much as its
// opening. Each answer gets at least leastShown.
func (r *rules) gatherUpdate(ctx context.Context, a admission) (update, error) {
	var u update
	answers, err := r.fetchAnswers(ctx, a.Answers)
	if err != nil {
		return update{}, err
	}
	window := r.task.Window
	room := max(mostShown(window)-r.memory.bytes, len(answers)*leastShown(window))
	if len(answers) > 0 {
		u.note.Mark = r.task.updateMark(a.Answers)
	}
	for i, f := range r.task.frameAnswers(answers, append([]string{u.note.Mark}, r.memory.live...), room) {
		n := newcomer{framed: f}
		if at := slices.IndexFunc(r.memory.answers, func(b answer) bool { return b.Number == answers[i].Number }); at >= 0 {
			n.Replaces = r.memory.answers[at].Label
		}
		u.Answers = append(u.Answers, n)
		u.note.Answers = append(u.note.Answers, answerNote{arrival: answers[i].toArrival(), Bytes: len(f.Text)})
	}
	if len(answers) > 0 {
		later := r.memory.clone()
		later.showAnswers(answers, u.note.Answers)
		u.Agreements = r.task.findAgreements(later.answers)
		u.Differences = r.task.findDifferences(later.answers, append(slices.Clone(r.memory.live), u.note.Mark)...)
	}
	u.Said, err = r.readMessages(ctx, a.Messages)
	u.note.Messages = a.Messages
	return u, err
}

func (r *rules) readMessages(ctx context.Context, numbers []int) ([]message, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	read, err := r.task.Inbox.messages(ctx, numbers)
	if err != nil {
		return nil, fmt.Errorf("read human messages: %w", err)
	}
	messages := make([]message, 0, len(numbers))
	for i, number := range numbers {
		if i >= len(read) || read[i].Number != number {
			return nil, fmt.Errorf("read human messages: message %d is missing or out of order", number)
		}
		messages = append(messages, message{Number: number, Text: text.Within(read[i].Text, r.memory.live...)})
	}
	return messages, nil
}

// writeUpdate returns the message of an update, if it has any content. The message names the
// actions that will be open once the update has been learned.
func (r *rules) writeUpdate(u update) (loop.Update, error) {
	if len(u.Answers) == 0 && len(u.Said) == 0 && !u.note.WrapUp && !u.note.Spending {
		return loop.Update{}, nil
	}
	later := &rules{task: r.task, memory: r.memory.clone()}
	var answers []answer
	for _, n := range u.note.Answers {
		answers = append(answers, answer{Number: n.Number, Label: n.Label, Step: n.Step})
	}
	later.memory.showAnswers(answers, u.note.Answers)
	u.Mark, u.People = u.note.Mark, r.memory.people
	u.Divided, u.Judging = r.task.isDivided(), r.task.Purpose == coordination.Evaluate
	u.WrapUp, u.Spending = u.note.WrapUp, u.note.Spending
	u.Limited, u.Seconds = r.task.hasLimit(), int(r.task.Grace.Seconds())
	open := later.openActions()
	u.Ways = later.endingCalls()
	u.CanVote, u.CanStop = slices.Contains(open, coordination.Vote), slices.Contains(open, coordination.Stop)
	if state := later.checklistState(); state != nil && len(u.Answers) > 0 {
		u.Recheck = state.Recheck()
	}
	text, err := fillTemplate("update.tmpl", u)
	if err != nil {
		return loop.Update{}, err
	}
	return loop.Update{Messages: []llm.Message{{Role: llm.User, Content: text}}, Note: marshal(u.note)}, nil
}
