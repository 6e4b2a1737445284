package record

import (
	"slices"
	"strings"
	"time"

	"conclave/engine/coordination"
	"conclave/engine/session/directory"
	"conclave/workflows"
)

func (s *Session) linkSteps() {
	s.markAccepted()
	s.labelAnswers()
	answers := s.Answers()
	for _, p := range s.Steps {
		if p.Vote != nil && p.Accepted && p.Vote.TargetLabel == "" {
			p.Vote.TargetLabel = seenLabel(answers, p)
		}
	}
	s.judgeVotes(answers)
}

// markAccepted marks the steps whose action the session counted. In a directory without events
// every action counts.
func (s *Session) markAccepted() {
	about := s.eventsByStep()
	for _, p := range s.Steps {
		events := about[p.Agent][p.Number]
		p.Accepted = p.Action != "" && (len(s.Events) == 0 ||
			firstEvent(events, coordination.EntryAnswer, coordination.EntryVote, coordination.EntryStopped, coordination.EntryPresented, coordination.EntryJudged) != nil)
		if e := firstEvent(events, coordination.EntryInjected); e != nil {
			p.Received = strings.Fields(e.Label)
		}
		if e := firstEvent(events, coordination.EntryFailed); e != nil && p.Action == "" {
			p.Over = true
			if p.Ended.IsZero() {
				p.Ended = e.Time
			}
		}
		if e := firstEvent(events, coordination.EntryRefused, coordination.EntrySuspended, coordination.EntryRestarted); e != nil && p.Ended.IsZero() {
			p.Ended = e.Time
		}
		if p.Started.IsZero() {
			p.Started = p.Ended
		}
	}
}

// labelAnswers assigns labels to the answers of other programs. It numbers their agents in byte order.
func (s *Session) labelAnswers() {
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

func seenLabel(answers []*Step, vote *Step) string {
	label := ""
	for _, p := range answers {
		if p.Agent == vote.Vote.Target && p.Number <= vote.Seen[p.Agent] {
			label = p.Answer.Label
		}
	}
	return label
}

// judgeVotes takes from the session's state which votes stand, and which of these are stale. Other votes
// were replaced: an agent votes again if its vote is stale, or if all agents do.
func (s *Session) judgeVotes(answers []*Step) {
	for _, p := range s.Steps {
		if p.Vote == nil || !p.Accepted {
			continue
		}
		stale := s.isRepeated(p)
		if a := s.Agent(p.Agent); a != nil && a.Vote != nil && a.Vote.Step == p.Number {
			p.Vote.Stands, stale = true, a.Vote.Stale
		}
		if stale {
			p.Vote.Stale = s.firstMissed(answers, p)
		}
	}
}

// isRepeated reports whether the agent of a vote acted again before all agents began anew.
func (s *Session) isRepeated(vote *Step) bool {
	var next time.Time
	for _, p := range s.Steps {
		if p.Agent == vote.Agent && p.Number > vote.Number && p.Accepted && (p.Answer == nil || !p.Answer.Final) {
			if next.IsZero() || p.Ended.Before(next) {
				next = p.Ended
			}
		}
	}
	return !next.IsZero() && !slices.ContainsFunc(s.Events, func(e coordination.Entry) bool {
		anew := e.Kind == coordination.EntryRevote || e.Kind == coordination.EntryJudged && e.Reason != ""
		return anew && !e.Time.Before(vote.Ended) && e.Time.Before(next)
	})
}

// firstMissed returns the first answer or message that a stale vote has not seen. The answers are ordered
// by their ends.
func (s *Session) firstMissed(answers []*Step, vote *Step) *Stale {
	stale, at := &Stale{}, time.Time{}
	for _, p := range answers {
		if !p.Answer.Final && p.Accepted && p.Agent != vote.Agent && p.Number > vote.Seen[p.Agent] {
			stale.Label, at = p.Answer.Label, p.Ended
			break // the others came later
		}
	}
	for _, m := range s.Messages {
		if vote.heardKnown && m.Number > vote.Heard && (m.Agent == "" || m.Agent == vote.Agent) && (at.IsZero() || m.SaidAt.Before(at)) {
			return &Stale{Message: m.Number}
		}
	}
	return stale
}

// deriveState computes the state of a directory without status.json by the rules of step mode.
func (r *Reader) deriveState(s *Session) {
	s.State.Status, s.State.Phase = workflows.Running, coordination.PhaseCoordinating
	if r.root == nil {
		return
	}
	d, warnings, err := directory.Read(r.root)
	if err != nil {
		r.problems = append(r.problems, err.Error())
		return
	}
	for _, w := range warnings {
		r.problems = append(r.problems, w.String())
	}
	report := d.Check(coordination.Config{}, nil)
	s.State.Votes = report.Votes
	for _, a := range report.Agents {
		s.State.Agents = append(s.State.Agents, coordination.AgentView{
			ID: a.ID, Number: a.Number, Status: a.Status, Running: a.Running, Step: a.Step, Answers: a.Answers,
			LatestLabel: a.LatestLabel, Vote: a.Vote, Stop: a.Stop,
		})
	}
	for i, a := range s.State.Agents {
		for _, p := range s.Steps {
			if p.Agent == a.ID {
				s.State.Agents[i].Cost = s.State.Agents[i].Cost.Add(p.Usage)
			}
		}
		s.State.Cost = s.State.Cost.Add(s.State.Agents[i].Cost)
	}
	if c := report.Consensus; c != nil {
		s.State.Status, s.State.Phase = string(coordination.Consensus), coordination.PhaseDone
		s.State.Winner = c.Winner
	}
}
