package pipeline

import (
	"errors"

	"conclave/engine/llm"
)

// refuseReopened returns why a run cannot go on in a new one.
func (s *State) refuseReopened() error {
	switch {
	case !s.Done():
		return nil
	case s.Result.Status != Failed && s.Result.Status != Cancelled:
		return errors.New("the run has ended, " + string(s.Result.Status) + "; its result stands")
	case s.Rest == nil && s.Running == nil:
		return errors.New("no step failed that could be run again: " + s.Result.Reason)
	}
	return nil
}

// reopen makes the step pending that failed or was cut off (rule 15).
func (s *State) reopen(e Reopened) {
	if err := s.refuseReopened(); err != nil {
		s.note("", "ignored: "+err.Error())
		return
	}
	cutOff := s.Running
	s.Result, s.Finished, s.Paused, s.Parked, s.Running = nil, false, false, nil, nil
	switch {
	case cutOff != nil:
		s.Pending = s.resumed(cutOff.Launch, e.Run+"-"+cutOff.Launch.ID, true)
	case s.Rest != nil && s.Late:
		s.Pending = s.resumed(*s.Rest, e.Run+"-"+s.Rest.ID, false)
	case s.Rest != nil:
		s.Pending = s.Rest
	}
	s.Rest, s.Late = nil, false
	s.note(s.Current(), "the run goes on with "+s.Current())
}

// keep keeps the step that ends after its run has, to be resumed if the run is reopened.
// Without a report it came to an end of its own, and its token is known once it is.
func (s *State) keep(launch string, reported bool, token string, spent llm.Usage) {
	if r := s.Running; s.Done() && r != nil && r.Launch.ID == launch {
		s.Rest, s.Late = s.resumed(r.Launch, token, spent.ModelCalls == 0), !reported
	}
}

// resumed returns the launch that resumes a step; a team decides anew.
func (s *State) resumed(l Launch, token string, uncounted bool) *Launch {
	if token != "" && l.Kind != Session {
		l.ResumeFrom, l.Uncounted = token, uncounted
	}
	return &l
}
