package scenario

import (
	"strconv"

	"conclave/engine/llm"
)

// Step takes an event.
func (s *State) Step(event Event) {
	if s.Refuse(event) != nil {
		return
	}
	switch e := event.(type) {
	case Reported:
		if l := s.ended(e.Launch, e.Usage); l != nil {
			s.settle(Result{
				ID: l.Step.ID, Title: l.Step.Title, Status: e.Status, DurationMS: e.DurationMS, EvidencePaths: e.Evidence,
				Error: e.Error, Summary: e.Summary, Warnings: e.Warnings, Cost: e.Usage,
			})
		}
	case Broke:
		if l := s.ended(e.Launch, e.Usage); l != nil {
			s.settle(Result{
				ID: l.Step.ID, Title: l.Step.Title, Status: Errored, DurationMS: e.DurationMS, EvidencePaths: e.Evidence,
				Error: &e.Reason, Cost: e.Usage,
			})
		}
	case Suspended:
		if l := s.ended(e.Launch, e.Usage); l != nil {
			s.Rest = e.Token
			s.Carried = s.Carried.Add(e.Usage)
		}
	case Pause:
		s.Paused = true
	case Resume:
		s.Paused = false
	case Cancel:
		s.cancel(e)
	}
}

// ended takes note of the end of a step, and returns its launch if the run goes on.
func (s *State) ended(id LaunchID, usage llm.Usage) *Launch {
	l := s.Launched
	if l == nil || l.ID != id {
		return nil
	}
	s.Launched, s.Stopped = nil, false
	s.Usage = s.Usage.Add(usage)
	if s.Over {
		// It is the one that was cancelled: what it spent is its own.
		for i := range s.Results {
			if r := &s.Results[i]; r.ID == l.Step.ID {
				r.Cost = r.Cost.Add(usage)
				s.Unsaid = true
			}
		}
		return nil
	}
	return l
}

// settle takes the result of a step. One that did not pass ends the run.
func (s *State) settle(r Result) {
	if r.EvidencePaths == nil {
		r.EvidencePaths = []string{}
	}
	r.Cost = s.Carried.Add(r.Cost)
	s.Rest, s.Carried = "", llm.Usage{}
	s.Results = append(s.Results, r)
	s.Unsaid = true
	if r.Status != Pass {
		s.skip()
	}
	s.Over = len(s.Results) == len(s.Plan.Steps)
}

// skip gives the steps that are left their status.
func (s *State) skip() {
	for _, left := range s.Plan.Steps[len(s.Results):] {
		s.Results = append(s.Results, Result{ID: left.ID, Title: left.Title, Status: Skipped, EvidencePaths: []string{}})
	}
}

func (s *State) cancel(e Cancel) {
	why := "the run was cancelled"
	next := s.Plan.Steps[len(s.Results)]
	s.settle(Result{ID: next.ID, Title: next.Title, Status: Cancelled, Error: &why, DurationMS: e.DurationMS})
	s.Paused = false
}

// Drain returns what is to be done now.
func (s *State) Drain() []Command {
	var commands []Command
	if s.Launched != nil && !s.Stopped && (s.Paused || s.Over) {
		s.Stopped = true
		commands = append(commands, Stop{s.Launched.ID})
	}
	if s.Unsaid {
		s.Unsaid = false
		commands = append(commands, Record{})
	}
	switch {
	case s.Launched != nil || s.Paused:
	case !s.Over:
		commands = append(commands, s.launch())
	case !s.Told:
		s.Told = true
		commands = append(commands, Done{s.Status()})
	}
	return commands
}

func (s *State) launch() Launch {
	s.Launches++
	l := Launch{ID: LaunchID("l" + strconv.Itoa(s.Launches)), Step: s.Plan.Steps[len(s.Results)], ResumeFrom: s.Rest}
	if n := len(s.Results); n > 0 {
		l.Previous = &Previous{ID: s.Results[n-1].ID, Status: s.Results[n-1].Status}
	}
	s.Launched, s.Rest = &l, ""
	return l
}
