package record

import (
	"slices"
	"strings"
	"time"

	"conclave/engine/coordination"
)

// link connects the steps with each other and with the events.
func (s *Session) link() {
	s.accept()
	s.label()
	answers := s.Answers()
	for _, p := range s.Steps {
		if p.Vote == nil || !p.Accepted {
			continue
		}
		if p.Vote.TargetLabel == "" {
			p.Vote.TargetLabel = seenLabel(answers, p)
		}
		p.Vote.Replaced = s.replaced(p)
		p.Vote.Stale = s.stale(answers, p)
	}
	s.trustState()
}

// accept marks the steps whose action the session counted. In a directory without events
// every action counts.
func (s *Session) accept() {
	about := s.about()
	for _, p := range s.Steps {
		events := about[p.Agent][p.Number]
		p.Accepted = p.Action != "" && (len(s.Events) == 0 ||
			first(events, coordination.EntryAnswer, coordination.EntryVote, coordination.EntryStopped, coordination.EntryPresented, coordination.EntryJudged) != nil)
		if e := first(events, coordination.EntryInjected); e != nil {
			p.Received = strings.Fields(e.Label)
		}
		if e := first(events, coordination.EntryFailed); e != nil && p.Action == "" {
			p.Over = true
			if p.Ended.IsZero() {
				p.Ended = e.Time
			}
		}
		if e := first(events, coordination.EntryRefused, coordination.EntrySuspended, coordination.EntryRestarted); e != nil && p.Ended.IsZero() {
			p.Ended = e.Time
		}
		if p.Started.IsZero() {
			p.Started = p.Ended
		}
	}
}

// label assigns labels to the answers of other programs. It numbers their agents in byte order.
func (s *Session) label() {
	var ids []string
	for _, p := range s.Steps {
		if !slices.Contains(ids, p.Agent) {
			ids = append(ids, p.Agent)
		}
	}
	slices.Sort(ids)
	count := map[string]int{}
	for _, p := range s.byEnd() {
		if p.Answer == nil || p.Answer.Final {
			continue
		}
		count[p.Agent]++
		if len(s.Events) == 0 {
			p.Answer.Label = coordination.Label(1+slices.Index(ids, p.Agent), count[p.Agent])
		}
	}
	for _, a := range s.Agents {
		if a.Number == 0 {
			a.Number = 1 + slices.Index(ids, a.ID)
		}
	}
}

// seenLabel returns the label of the newest answer by a vote's target that the voting step had
// seen.
func seenLabel(answers []*Step, vote *Step) string {
	label := ""
	for _, p := range answers {
		if p.Agent == vote.Vote.Target && p.Number <= vote.Seen[p.Agent] {
			label = p.Answer.Label
		}
	}
	return label
}

// replaced returns the time at which a vote was replaced, by a later action of its agent
// or by a new vote of all agents, or the zero time.
func (s *Session) replaced(vote *Step) time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if !t.Before(vote.Ended) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, p := range s.Steps {
		if p.Agent == vote.Agent && p.Number > vote.Number && p.Accepted && (p.Answer == nil || !p.Answer.Final) {
			earlier(p.Ended)
		}
	}
	for _, e := range s.Events {
		if e.Kind == coordination.EntryRevote || e.Kind == coordination.EntryJudged && e.Reason != "" {
			earlier(e.Time)
		}
	}
	return at
}

// stale returns the first reason why a vote became stale before it was replaced. The answers are
// ordered by their ends.
func (s *Session) stale(answers []*Step, vote *Step) *Stale {
	var first *Stale
	consider := func(c Stale) {
		if c.At.Before(vote.Ended) {
			c.At = vote.Ended
		}
		replaced := vote.Vote.Replaced
		if !replaced.IsZero() && !c.At.Before(replaced) {
			return
		}
		if first == nil || c.At.Before(first.At) {
			first = &c
		}
	}
	for _, e := range s.Events {
		if e.Kind == coordination.EntryRevealed && !e.Time.Before(vote.Ended) {
			consider(Stale{At: e.Time})
		}
	}
	for _, p := range answers {
		if s.Team.Orchestrator.Visibility == "none" { // no answer of a peer reached it
			break
		}
		if !p.Answer.Final && p.Accepted && p.Agent != vote.Agent && p.Number > vote.Seen[p.Agent] {
			consider(Stale{At: p.Ended, Label: p.Answer.Label})
			break // the others came later
		}
	}
	for _, m := range s.Messages {
		if vote.heardKnown && m.Number > vote.Heard && (m.Agent == "" || m.Agent == vote.Agent) {
			consider(Stale{At: m.SaidAt, Message: m.Number})
		}
	}
	return first
}

// trustState corrects the current votes by the session's state, which takes into account
// rules that the documents do not show.
func (s *Session) trustState() {
	for _, a := range s.State.Agents {
		if a.Vote == nil {
			continue
		}
		p := s.Step(a.ID, a.Vote.Step)
		if p == nil || p.Vote == nil {
			continue
		}
		p.Vote.Replaced = time.Time{}
		switch {
		case !a.Vote.Stale:
			p.Vote.Stale = nil
		case p.Vote.Stale == nil:
			p.Vote.Stale = &Stale{At: p.Ended}
		}
	}
}
