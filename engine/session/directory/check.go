package directory

import (
	"fmt"

	"conclave/engine/config"
	"conclave/engine/coordination"
)

// report is the output of `conclave step --check`: the agents of a directory and the state of
// the team, with the keys of the contract's state JSON.
type report struct {
	Agents []agentReport  `json:"agents"` // agents in byte order of their IDs
	Votes  map[string]int `json:"votes"`  // fresh votes by target

	// Next are the agents that owe an action: a first answer, a vote, or a new vote that replaces a stale
	// one. It is empty when the team has decided or another step would change nothing.
	Next []string `json:"next"`

	Consensus *consensus `json:"consensus"` // null before a decision

	// Split is set if every vote is fresh and no answer has the majority. The caller then
	// takes the plurality or launches another step.
	Split bool `json:"split"`

	Reason   string    `json:"reason"` // tells people why there is no consensus; empty with one
	Warnings []warning `json:"warnings"`
}

// agentReport is one agent in a report.
type agentReport struct {
	ID          string                 `json:"id"`
	Number      int                    `json:"number"` // anonymous number, from 1
	Status      string                 `json:"status"` // no_action, answered, voted or stopped
	Running     bool                   `json:"running"`
	Step        int                    `json:"step"` // the highest number taken, 0 before the first
	Answers     int                    `json:"answers"`
	LatestLabel string                 `json:"latest_label"` // empty without an answer
	Vote        *coordination.VoteView `json:"vote"`
	Stop        *coordination.StopView `json:"stop"`
	Unfinished  []int                  `json:"unfinished"` // claimed steps without an action
}

// consensus is the decision of the team.
type consensus struct {
	Winner      string `json:"winner"`
	WinnerLabel string `json:"winner_label"`
	WinnerStep  int    `json:"winner_step"` // its answer is agents/<Winner>/<WinnerStep>
	Votes       int    `json:"votes"`       // fresh ones, for the winner
}

// Check derives the state of the team from the actions on record by the rules of
// engine/coordination. The team consists of the agents of the directory and of rules, which
// may be the zero Config; a step limit of 0 means no limit. An unfinished step for which
// running is true blocks decisions; a nil running means that no step runs.
func (d Directory) Check(rules coordination.Config, running func(agent string, step int) bool) report {
	d = d.With(rules.Agents...)
	s := d.recallState(rules, running)
	view := s.View()
	r := report{Agents: make([]agentReport, 0, len(d.Agents)), Votes: view.Votes, Next: []string{}, Warnings: []warning{}}
	for i, a := range d.Agents {
		r.Agents = append(r.Agents, a.reportAgent(view.Agents[i]))
	}
	var decision coordination.Decision
	for _, command := range s.Drain() {
		switch c := command.(type) {
		case coordination.Launch:
			r.Next = append(r.Next, c.Agent)
		case coordination.Done:
			decision = c.Decision
		default: // only workflows carry out the other commands
		}
	}
	r.setDecision(decision)
	if r.Consensus == nil {
		r.Reason = r.explainReason(decision.Status)
	}
	return r
}

func (a agent) reportAgent(v coordination.AgentView) agentReport {
	r := agentReport{
		ID: v.ID, Number: v.Number, Status: v.Status, Running: v.Running, Step: a.Steps,
		Answers: v.Answers, LatestLabel: v.LatestLabel, Vote: v.Vote, Stop: v.Stop, Unfinished: []int{},
	}
	for _, u := range a.Unfinished {
		r.Unfinished = append(r.Unfinished, u.Step)
	}
	return r
}

func (r *report) setDecision(d coordination.Decision) {
	switch {
	case d.Status == coordination.Consensus:
		r.Consensus = &consensus{
			Winner: d.Winner, WinnerLabel: d.WinnerLabel, WinnerStep: d.WinnerStep, Votes: r.Votes[d.Winner],
		}
	case d.Split():
		r.Split = true
	}
}

func (r *report) explainReason(status coordination.Status) string {
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
	return "the agents that owe an action have reached a limit"
}

// Rules returns the part of a team's configuration that applies to steps launched one at a
// time: the limits of steps and answers, the rules of voting, and the budget, which the usage
// on record reduces. Pacing and fairness do not apply, because the caller decides when a step
// runs. Nothing is presented, and nothing reaches a running step.
func Rules(t config.Team) coordination.Config {
	c := t.Coordination()
	return coordination.Config{
		Agents: c.Agents, Mode: c.Mode, MaxStepsPerAgent: c.MaxStepsPerAgent,
		AnswersPerAgent: c.AnswersPerAgent, AnswersGlobal: c.AnswersGlobal,
		DeferVoting: c.DeferVoting, SkipVoting: c.SkipVoting, Budget: c.Budget,
	}
}

// recallState returns the coordination state of the agents in the directory. It reports a split
// vote instead of resolving it.
func (d Directory) recallState(rules coordination.Config, running func(agent string, step int) bool) *coordination.State {
	rules.Agents = d.IDs()
	rules.OnSplit, rules.SkipPresentation = coordination.SplitFail, true
	if rules.MaxStepsPerAgent <= 0 {
		rules.MaxStepsPerAgent = maxStep
	}
	if rules.Mode != coordination.Decomposition && d.isDecomposition() {
		rules.Mode = coordination.Decomposition
	}
	record := make([]coordination.OnRecord, 0, len(d.Agents))
	for _, a := range d.Agents {
		record = append(record, a.recordSteps(running))
	}
	return coordination.Recall(rules, record, d.Messages)
}

// isDecomposition reports whether there are stops but no votes, that is, each agent owns a part of the work.
func (d Directory) isDecomposition() bool {
	stops := false
	for _, a := range d.Agents {
		if a.Vote != nil {
			return false
		}
		stops = stops || a.Stop != nil
	}
	return stops
}

func (a agent) recordSteps(running func(agent string, step int) bool) coordination.OnRecord {
	r := coordination.OnRecord{
		Agent: a.ID, Step: a.Steps, Steps: a.Finished, Base: a.Earlier, Usage: a.Usage, Vote: a.Vote, Stop: a.Stop,
	}
	for _, answer := range a.Answers {
		r.Answers = append(r.Answers, answer.Step)
	}
	for _, u := range a.Unfinished {
		r.Running = r.Running || running != nil && running(a.ID, u.Step)
	}
	return r
}
