package pipeline

import (
	"cmp"
	"errors"
	"time"

	"conclave/engine/llm"
)

// Stands reports whether the run has ended with a result that reopening cannot replace.
func (s *State) Stands() bool {
	return s.Done() && s.Result.Status != Failed && s.Result.Status != Cancelled
}

// refuseReopened returns the reason why a run cannot be reopened.
func (s *State) refuseReopened() error {
	switch {
	case !s.Done():
		return nil
	case s.Stands():
		return errors.New("the run has ended, " + string(s.Result.Status) + "; its result stands")
	case s.Result.Limit != "":
		return errors.New(s.Result.Reason + "; start it again with a higher limit")
	case s.Rest == nil && s.Running == nil:
		return errors.New("no step failed that could be run again: " + s.Result.Reason)
	}
	return nil
}

// reopen makes the step that failed or was cut off pending (rule 15).
func (s *State) reopen(e Reopened) {
	if err := s.refuseReopened(); err != nil {
		s.note("", "ignored: "+err.Error())
		return
	}
	cutOff := s.Running
	s.Result, s.Finished, s.Paused, s.Parked, s.Running = nil, false, false, nil, nil
	switch {
	case cutOff != nil && e.Unclaimed:
		s.Pending = s.again(cutOff.Launch, "", false)
	case cutOff != nil:
		s.Pending = s.again(cutOff.Launch, e.Run+"-"+cutOff.Launch.ID, true)
	case s.Rest != nil && s.Late:
		s.Pending = s.again(*s.Rest, e.Run+"-"+s.Rest.ID, false)
	case s.Rest != nil:
		s.Pending = s.Rest
	}
	s.Rest, s.Late = nil, false
	if s.Pending != nil {
		s.Pending.AwaySince = time.Time{} // a person says that it is mended
	}
	s.note(s.Current(), "the run goes on with "+s.Current())
	s.tryAgain()
}

// keep remembers a step that ends after its run, to resume it if the run is reopened. If the
// step did not report its end, the token of its journal is read from the store later.
func (s *State) keep(launch string, reported bool, token string, spent llm.Usage) {
	if r := s.Running; s.Done() && r != nil && r.Launch.ID == launch {
		s.Rest, s.Late = s.after(r.Launch, token, spent), !reported
	}
}

// after returns the launch that continues an ended step. If spent counts no model call, the
// usage of the step is zero or unknown.
func (s *State) after(l Launch, token string, spent llm.Usage) *Launch {
	next := s.again(l, token, spent.ModelCalls == 0)
	switch {
	case l.Kind == Session:
		next.Counted = next.Counted.Add(spent)
	case token != "":
		next.Made += int(spent.ModelCalls)
	}
	return next
}

// again returns the launch that continues a step: with the journal of token or, for a session
// step, with the session of its team.
func (s *State) again(l Launch, token string, uncounted bool) *Launch {
	switch {
	case l.Kind == Session:
		l.TeamOf, l.Told = cmp.Or(l.TeamOf, l.ID), s.Announced
	case token != "":
		l.ResumeFrom, l.Uncounted = token, uncounted
	}
	return &l
}
