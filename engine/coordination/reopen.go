// Rules 62 to 65 and 105: a session goes on after its end.

package coordination

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// refuseReopened refuses a session that rule 62 does not let a run reopen.
func (s *State) refuseReopened(e Reopened) error {
	if s.Done() && s.Outcome.Stands() {
		return errors.New("the session has decided, " + s.Outcome.text() + "; a decision stands")
	}
	if e.Agent != "" && e.Text == "" {
		if err := s.refuseRetry(e.Agent); err != nil {
			return err
		}
	}
	again, err := s.clone()
	if err != nil {
		return err
	}
	again.goOn(e)
	if said := (Said{Agent: e.Agent, Text: e.Text}); e.Text != "" {
		if err := again.refuseSaid(said); err != nil {
			return err
		}
		again.addMessage(said)
	}
	again.Drain()
	if d := again.Decision(); again.Done() && !d.Stands() {
		why := d.text()
		if asked := cmp.Or(d.Asked, d.Despite); asked.isForced() {
			why += " (" + string(asked) + ")"
		}
		return errors.New("the session would end again at once, " + why)
	}
	return nil
}

// clone returns a deep copy. The JSON form of a state is the same in every run.
//
//workflowcheck:ignore
func (s *State) clone() (*State, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("copy the state: %w", err)
	}
	other := &State{}
	if err := json.Unmarshal(data, other); err != nil {
		return nil, fmt.Errorf("copy the state: %w", err)
	}
	return other, nil
}

func (s *State) reopen(e Reopened) {
	if err := s.refuseReopened(e); err != nil {
		s.ignore("reopening ignored: " + err.Error())
		return
	}
	s.note(Entry{Kind: EntryReopened, Text: "the session goes on in a new run"})
	s.goOn(e)
	if e.Text != "" {
		s.addMessage(Said{Agent: e.Agent, Text: e.Text})
	}
}

// goOn applies rules 63 to 65 and 105. The doorbell of the new run has not rung yet.
func (s *State) goOn(e Reopened) {
	voteAgain := s.Decision().Status == Undecided && e.Text == "" && !slices.ContainsFunc(s.Agents, func(a *agent) bool { return a.Error != nil })
	s.Outcome, s.Forced, s.Short, s.Paused = nil, "", false, false
	s.Waiting, s.Waits, s.Stranded, s.Majority = false, 0, false, nil
	s.Checkings = nil
	s.Calling, s.Gone = false, false
	s.Bell = Ring{Epoch: s.Bell.Epoch}
	if s.Finale == nil {
		s.Settled = nil
	}
	for _, a := range s.Agents {
		switch {
		case a.Run.awaitsOthers(): // its usage is counted
			a.endWait().Launch.Owed = true
		case a.Run != nil:
			run := a.Run.Launch
			a.Run, a.Rest = nil, &resumableStep{Launch: run, Token: tokenIn(e.Run, run.ID), Uncounted: true}
			if slices.Contains(e.Unclaimed, run.ID) {
				a.Rest.Token = ""
			}
		case a.Rest != nil && a.Rest.Late:
			a.Rest.Late, a.Rest.Token = false, tokenIn(e.Run, a.Rest.Launch.ID)
		}
		if a.Error != nil && (e.Agent == "" || e.Agent == a.ID || e.Text != "") {
			s.reviveAgent(a)
		}
		a.Retried = a.Retried || voteAgain && a.isActive()
	}
}

// RunningSteps returns the launches of the running steps, in configured order.
func (s *State) RunningSteps() []Launch {
	var launches []Launch
	for _, a := range s.Agents {
		if a.Run != nil {
			launches = append(launches, a.Run.Launch.clone())
		}
	}
	return launches
}

// Suspended returns the launches of the steps that are suspended and have not been resumed.
// ResumeFrom is the execution token of the step that has the newest work.
func (s *State) Suspended() []Launch {
	var launches []Launch
	for _, a := range s.Agents {
		if a.Rest == nil || a.Error != nil || a.Rest.Late {
			continue
		}
		l := a.Rest.Launch.clone()
		if l.ResumeFrom = a.filesFrom(); l.ResumeFrom != "" {
			launches = append(launches, l)
		}
	}
	return launches
}

func tokenIn(run string, id LaunchID) string { return run + "-" + string(id) }
