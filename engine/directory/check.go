package directory

import (
	"fmt"

	"conclave/engine/coordination"
)

// Report says where the agents of a directory are and what follows from it, as
// `conclave step --check` prints it. Its words are those of the state JSON of the
// public contract.
type Report struct {
	Agents []AgentReport  `json:"agents"` // in byte order of their IDs
	Votes  map[string]int `json:"votes"`  // fresh votes by target

	// Next are those who have something left to do: to answer first, to judge what
	// there is after an answer, or to vote again because their vote is stale. It is
	// empty when the team has decided, and when asking again would change nothing.
	Next []string `json:"next"`

	Consensus *Consensus `json:"consensus"` // null while there is none

	// Split says that every vote is fresh and no answer has the majority. Nobody is
	// next then: to take the answer with most votes, or to ask somebody again, is
	// for whoever launches the steps.
	Split bool `json:"split"`

	Reason   string    `json:"reason"` // why there is no consensus, for a person; empty with one
	Warnings []Warning `json:"warnings"`
}

// AgentReport is one agent in a Report.
type AgentReport struct {
	ID          string                   `json:"id"`
	Number      int                      `json:"number"` // anonymous number, from 1
	Status      coordination.AgentStatus `json:"status"` // no_action, answered, voted or stopped
	Running     bool                     `json:"running"`
	Step        int                      `json:"step"` // the highest number taken, 0 before the first
	Answers     int                      `json:"answers"`
	LatestLabel string                   `json:"latest_label"` // empty without an answer
	Vote        *coordination.VoteView   `json:"vote"`
	Stop        *coordination.StopView   `json:"stop"`
	Unfinished  []int                    `json:"unfinished"` // steps that were begun and have no action
}

// Consensus is the decision of the team.
type Consensus struct {
	Winner      string `json:"winner"`
	WinnerLabel string `json:"winner_label"`
	WinnerStep  int    `json:"winner_step"` // its answer is agents/<Winner>/<WinnerStep>
	Votes       int    `json:"votes"`       // fresh ones, for the winner
}

// Check says what the actions on record come to by the rules of
// engine/coordination. The team is that of the directory and of rules, which may
// be the zero Config; so may agents that have no step yet be named. A step limit
// of 0 is none. running reports of an unfinished step whether it is at work: while
// one is, nothing is decided, and nobody is next. nil stands for never.
func (d Directory) Check(rules coordination.Config, running func(agent string, step int) bool) Report {
	d = d.With(rules.Agents...)
	s := d.state(rules, running)
	view := s.View()
	r := Report{Agents: make([]AgentReport, 0, len(d.Agents)), Votes: view.Votes, Next: []string{}, Warnings: []Warning{}}
	for i, a := range d.Agents {
		r.Agents = append(r.Agents, a.report(view.Agents[i]))
	}
	var decision coordination.Decision
	for _, command := range s.Drain() {
		switch c := command.(type) {
		case coordination.Launch:
			r.Next = append(r.Next, c.Agent)
		case coordination.Done:
			decision = c.Decision
		default: // records, rings and cancels are for those who drive a session
		}
	}
	r.decided(decision)
	if r.Consensus == nil {
		r.Reason = r.reason(decision.Status)
	}
	return r
}

func (a Agent) report(v coordination.AgentView) AgentReport {
	r := AgentReport{
		ID: v.ID, Number: v.Number, Status: v.Status, Running: v.Running, Step: a.Steps,
		Answers: v.Answers, LatestLabel: v.LatestLabel, Vote: v.Vote, Stop: v.Stop, Unfinished: []int{},
	}
	for _, u := range a.Unfinished {
		r.Unfinished = append(r.Unfinished, u.Step)
	}
	return r
}

func (r *Report) decided(d coordination.Decision) {
	switch {
	case d.Status == coordination.Consensus:
		r.Consensus = &Consensus{
			Winner: d.Winner, WinnerLabel: d.WinnerLabel, WinnerStep: d.WinnerStep, Votes: r.Votes[d.Winner],
		}
	case d.Cause == coordination.CauseSplit:
		r.Split = true
	}
}

// reason says why there is no consensus.
func (r *Report) reason(status coordination.Status) string {
	answered, running, stopped, votes := 0, "", false, 0
	for _, a := range r.Agents {
		if a.Running {
			running = a.ID
		}
		stopped = stopped || a.Stop != nil
		if a.LatestLabel != "" {
			answered++
		}
	}
	for _, n := range r.Votes {
		votes += n
	}
	switch n := len(r.Agents); {
	case n == 0:
		return "no agent has begun"
	case running != "":
		return running + " is at work"
	case r.Split:
		return fmt.Sprintf("every vote is fresh, and no answer has more than half of %d: nobody is asked again", n)
	case len(r.Next) > 0:
		return fmt.Sprintf("of %d agents %d have an answer, and %d a vote that counts", n, answered, votes)
	case status == coordination.Presented && stopped:
		return "every agent has stopped: there is no vote where the work is divided"
	case status == coordination.Presented:
		return "every agent has answered, and nobody votes"
	}
	return "those who have something left to do may do nothing more: a limit is reached"
}
