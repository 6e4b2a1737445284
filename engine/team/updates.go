package team

import (
	"context"
	"fmt"
	"slices"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// update is one message to an agent at work, as the template sees it.
type update struct {
	note note // what the rules remember of it

	Frame   string
	Answers []newcomer
	Said    []Message

	WrapUp   bool
	Ending   bool // the session is about to end; else it is the step's time
	Limited  bool // other calls will be denied
	Seconds  int  // of work until then
	Spending bool

	Again   string // the kind of an action that was turned down
	Judging bool   // an evaluating step's
	Recheck string // what the checklist asks for
	Ways    string // the calls that end the step
	CanVote bool
	CanStop bool
	Divided bool
}

// newcomer is a new answer in an update.
type newcomer struct {
	shown
	Replaces string // the label that was shown of its agent, if any
}

// terms are what the launch says about updates.
func (r *Rules) terms() terms {
	return terms{Updates: r.task.Updates, Closing: !r.task.offers(KindNewAnswer), Soft: r.task.Soft, Grace: r.task.Grace}
}

func (r *Rules) standing() standing {
	s := standing{
		Shown:    make(map[int]string, len(r.known.answers)),
		Heard:    r.known.heard,
		Injected: r.known.injected,
		Worked:   r.known.worked,
		Guided:   r.known.guided || r.softDue(),
		Checked:  r.checked(),
	}
	for _, a := range r.known.answers {
		s.Shown[a.Number] = a.Label
	}
	return s
}

// look asks what there is now.
func (r *Rules) look(ctx context.Context) (News, error) {
	if r.task.Look == nil {
		return News{}, nil
	}
	news, err := r.task.Look(ctx)
	if err != nil {
		return News{}, fmt.Errorf("looking for news: %w", err)
	}
	for _, a := range news.Arrivals {
		if err := checkLabel(a.Number, a.Label); err != nil {
			return News{}, fmt.Errorf("looking for news: %w", err)
		}
	}
	return news, nil
}

// gather gets the texts of what was admitted.
func (r *Rules) gather(ctx context.Context, a admission) (update, error) {
	var u update
	answers, err := r.fetch(ctx, a.Answers)
	if err != nil {
		return update{}, err
	}
	for i, s := range frameAnswers(answers, r.known.frame, r.task.Files, r.room(len(answers))) {
		n := newcomer{shown: s}
		if at := slices.IndexFunc(r.known.answers, func(b Answer) bool { return b.Number == answers[i].Number }); at >= 0 {
			n.Replaces = r.known.answers[at].Label
		}
		u.Answers = append(u.Answers, n)
		u.note.Answers = append(u.note.Answers, answerNote{
			Number: answers[i].Number, Label: answers[i].Label, Step: answers[i].Step, Bytes: len(s.Text),
		})
	}
	u.Said, err = r.hear(ctx, a.Messages)
	u.note.Messages = a.Messages
	return u, err
}

// hear gets what people said, one message for each number, in their order.
func (r *Rules) hear(ctx context.Context, numbers []int) ([]Message, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	said, err := r.task.Hear(ctx, numbers)
	if err != nil {
		return nil, fmt.Errorf("hearing what people said: %w", err)
	}
	messages := make([]Message, 0, len(numbers))
	for i, number := range numbers {
		if i >= len(said) || said[i].Number != number {
			return nil, fmt.Errorf("hearing what people said: message %d did not come, or not in its place", number)
		}
		messages = append(messages, Message{Number: number, Text: plain(said[i].Text, r.known.frame)})
	}
	return messages, nil
}

// room is how many bytes an update of so many answers may still show. What one
// step's updates show together is bounded like what its opening shows; a late
// answer gets a little room in any case.
func (r *Rules) room(answers int) int {
	return max(mostShown(r.task.Window)-r.known.bytes, answers*leastShown(r.task.Window))
}

// tell makes the one message of an update, if there is anything to say.
func (r *Rules) tell(u update) (loop.Update, error) {
	if len(u.Answers) == 0 && len(u.Said) == 0 && !u.note.WrapUp && !u.note.Spending {
		return loop.Update{}, nil
	}
	later := r.after(u)
	u.Frame, u.Divided, u.Judging = r.known.frame, r.task.divided(), r.task.Purpose == Evaluate
	u.WrapUp, u.Spending = u.note.WrapUp, u.note.Spending
	u.Limited, u.Seconds = r.task.limited(), int(r.task.Grace.Seconds())
	open := later.open()
	u.Ways = later.ways()
	u.CanVote, u.CanStop = slices.Contains(open, KindVote), slices.Contains(open, KindStop)
	if checklist := later.checklist(); checklist != nil && len(u.Answers) > 0 {
		u.Recheck = checklist.Recheck()
	}
	text, err := fill("update.tmpl", u)
	if err != nil {
		return loop.Update{}, err
	}
	return loop.Update{Messages: []llm.Message{{Role: llm.User, Content: text}}, Note: marshal(u.note)}, nil
}

// after are the rules as they will be when the update is known, for what it says
// of what the agent can do then.
func (r *Rules) after(u update) *Rules {
	later := *r
	later.known.answers = slices.Clone(r.known.answers)
	later.known.texts = slices.Clone(r.known.texts)
	answers := make([]Answer, 0, len(u.note.Answers))
	for _, n := range u.note.Answers {
		answers = append(answers, Answer{Number: n.Number, Label: n.Label, Step: n.Step})
	}
	later.known.scored = slices.Clone(r.known.scored)
	later.known.show(answers, u.note.Answers)
	return &later
}
