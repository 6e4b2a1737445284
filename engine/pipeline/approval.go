package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Question is the question of an approval step to a person.
type Question struct {
	ID      string    `json:"id"`
	Step    string    `json:"step"`
	Branch  string    `json:"branch,omitempty"` // path of the step's branch; empty outside
	Text    string    `json:"text"`
	Options []string  `json:"options,omitempty"`
	Path    string    `json:"path,omitempty"` // of the document with the whole question, if it is long
	Since   time.Time `json:"since"`
}

// Place names the step that asks with its branch, for people.
func (q Question) Place() string { return TraceEntry{Step: q.Step, Branch: path(q.Branch)}.Place() }

// Reply is a person's answer to a Question: questions/<id>.answer.json.
type Reply struct {
	Question string `json:"question"`
	Allow    bool   `json:"allow"`            // false only for a refusal
	Option   int    `json:"option,omitempty"` // the number of the chosen option, from 1; 0 without options
	Text     string `json:"text,omitempty"`   // the chosen option, or the note
	By       string `json:"by"`
}

// Answer returns the reply as the text of its step.
func (r Reply) Answer() string {
	switch {
	case r.Option > 0:
		return r.Text
	case r.Text == "":
		return r.decision()
	}
	return r.decision() + ": " + r.Text
}

func (r Reply) decision() string {
	if r.Allow {
		return "approved"
	}
	return "denied"
}

// asking is the question for which a lane waits, and the launch that goes on with the reply.
type asking struct {
	Launch   Launch   `json:"launch"`
	Question Question `json:"question"`
}

// closed is a question that is no longer open, and how it was closed.
type closed struct {
	Question string `json:"question"`
	How      string `json:"how"`
}

const keptClosed = 50 // closed questions that the state keeps

// Asks reports whether the launch asks a person, rather than going on with the reply.
func (l Launch) Asks() bool { return l.Kind == Approval && l.Reply == nil }

// OpenQuestions returns the questions that wait for a reply, in the order of the lanes.
func (s *State) OpenQuestions() (open []Question) {
	if s.Done() {
		return nil
	}
	for _, b := range s.lanes() {
		if b.Asking != nil {
			open = append(open, b.Asking.Question)
		}
	}
	return open
}

// AwaitsPerson reports whether the run waits for replies alone: nothing runs, and nothing is about to.
func (s *State) AwaitsPerson() bool {
	busy := func(b *lane) bool { return b.Running != nil || b.Pending != nil && b.Parked == nil }
	return len(s.OpenQuestions()) > 0 && !slices.ContainsFunc(s.lanes(), busy)
}

// TakeReplies returns the replies that are not taken yet, for the driver to put on record.
func (s *State) TakeReplies() []Reply {
	taken := s.Replies
	s.Replies = nil
	return taken
}

// askPerson makes the lane of an approval step wait for the reply to its question (rule 32).
func (b *lane) askPerson(s *State, e Asked) {
	l := b.Running.Launch
	l.ResumeFrom, l.Uncounted = "", false
	e.Question.Step, e.Question.Branch = l.Step, b.Path
	b.Running, b.Asking = nil, &asking{Launch: l, Question: e.Question}
	s.addEntry(Entry{Kind: EntryAsked, Step: l.Step, Branch: b.Path, Text: l.Step + " asks a person: " + shortenText(e.Question.Text)})
}

// withdrawQuestion closes the question of a lane that no longer waits for it, and returns the launch that would ask
// anew (rule 33); nil if none is open.
func (b *lane) withdrawQuestion(s *State) *Launch {
	if b.Asking == nil {
		return nil
	}
	l := b.Asking.Launch
	s.closeQuestion(b.Asking.Question, EntryWithdrawn, "withdrawn by the end of the run or of its branch")
	b.Asking = nil
	return &l
}

// withdrawQuestions withdraws the questions of all lanes of a fork that ends with its lane.
func (f *fork) withdrawQuestions(s *State) {
	for _, b := range f.Lanes {
		if l := b.withdrawQuestion(s); l != nil {
			b.Rest = l
		}
		if b.Fork != nil {
			b.Fork.withdrawQuestions(s)
		}
	}
}

func (s *State) closeQuestion(q Question, kind EntryKind, how string) {
	s.Closed = append(s.Closed, closed{q.ID, how})
	s.Closed = slices.Clone(s.Closed[max(0, len(s.Closed)-keptClosed):])
	s.addEntry(Entry{Kind: kind, Step: q.Step, Branch: q.Branch, Text: "the question of " + q.Step + ": " + how})
}

func (s *State) findAsking(question string) *lane {
	for _, b := range s.lanes() {
		if b.Asking != nil && b.Asking.Question.ID == question {
			return b
		}
	}
	return nil
}

// refuseReplied applies rule 33.
func (s *State) refuseReplied(e Replied) error {
	b := s.findAsking(e.Question)
	if b == nil {
		return s.refuseClosed(e.Question)
	}
	q := b.Asking.Question
	switch {
	case e.Allow != nil && (e.Text != "" || e.Option != 0), e.Text != "" && e.Option != 0:
		return errors.New("give one of a text, an option, or allow")
	case e.Text != "" && len(q.Options) > 0:
		return fmt.Errorf("%s takes one of its %d options, or a denial", q.ID, len(q.Options))
	case e.Text != "", len(q.Options) == 0 && e.Option != 0:
		return fmt.Errorf("%s asks for an approval: approve or deny it", q.ID)
	case len(q.Options) > 0 && e.Allow != nil && *e.Allow:
		return fmt.Errorf("%s has %d options: reply with one of them, or deny it", q.ID, len(q.Options))
	case e.Option < 0, e.Option > len(q.Options):
		return fmt.Errorf("%s has %d options, and this is option %d", q.ID, len(q.Options), e.Option)
	case e.Allow == nil && e.Option == 0:
		return errors.New("allow is missing: true or false")
	case len(e.Note) > maxText:
		return fmt.Errorf("the note has %d bytes, at most %d are accepted", len(e.Note), maxText)
	}
	return nil
}

// refuseClosed returns how a question was closed, or which are open.
func (s *State) refuseClosed(id string) error {
	if at := slices.IndexFunc(s.Closed, func(c closed) bool { return c.Question == id }); at >= 0 {
		return fmt.Errorf("the question %s is closed: %s", id, s.Closed[at].How)
	}
	var open []string
	for _, q := range s.OpenQuestions() {
		open = append(open, q.ID)
	}
	if len(open) == 0 {
		return fmt.Errorf("the run has no question %s, and none is open", strconv.Quote(shortenText(id)))
	}
	return fmt.Errorf("the run has no open question %s; it has: %s", strconv.Quote(shortenText(id)), strings.Join(open, ", "))
}

// takeReplied makes the step pending that goes on with the reply. The reply is not refused.
func (s *State) takeReplied(e Replied) {
	b := s.findAsking(e.Question)
	q, l := b.Asking.Question, b.Asking.Launch
	b.Asking = nil
	r := Reply{Question: q.ID, Allow: e.Option > 0 || *e.Allow, Option: e.Option, Text: strings.ToValidUTF8(e.Note, "\uFFFD"), By: e.By}
	kind := map[bool]EntryKind{true: EntryApproved, false: EntryDenied}[r.Allow]
	if e.Option > 0 {
		r.Text, kind = q.Options[e.Option-1], EntryReplied
	}
	if r.By == "" {
		r.By = "a person"
	}
	s.Replies = append(s.Replies, r)
	s.closeQuestion(q, kind, shortenText(r.Answer())+", by "+shortenText(r.By))
	l.Reply = &r
	b.Pending = &l
}
