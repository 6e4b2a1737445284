package directory

import (
	"conclave/engine/config"
	"conclave/engine/coordination"
)

// Rules are what of a team's configuration holds over steps that are launched
// one at a time: the limits of answers, and who may vote, and when. When a step
// runs is for whoever launches it: there is no pacing, and nobody is held back
// for peers that are behind, as no record tells who works. Nothing is presented,
// and nothing reaches a running step. Of the budget is spent what the actions on
// record have cost.
func Rules(t config.Team) coordination.Config {
	o := t.Orchestrator
	c := coordination.Config{
		Mode:             coordination.Mode(o.CoordinationMode),
		MaxStepsPerAgent: o.MaxStepsPerAgent,
		AnswersPerAgent:  value(o.MaxNewAnswersPerAgent),
		AnswersGlobal:    value(o.MaxNewAnswersGlobal),
		DeferVoting:      o.DeferVotingUntilAllAnswered,
		SkipVoting:       o.SkipVoting,
		Budget:           coordination.Budget{USD: value(o.Budget.MaxCostUSD), Tokens: int64(value(o.Budget.MaxTotalTokens))},
	}
	for _, a := range t.Agents {
		c.Agents = append(c.Agents, a.ID)
	}
	return c
}

// value is what p points at, else 0.
func value[T int | float64](p *T) T {
	if p == nil {
		return 0
	}
	return *p
}

// state is the coordination of the agents in the directory. A split is nobody's
// to break: whoever launches the steps is told.
func (d Directory) state(rules coordination.Config, running func(agent string, step int) bool) *coordination.State {
	rules.Agents = d.IDs()
	rules.OnSplit, rules.SkipPresentation = coordination.SplitFail, true
	if rules.MaxStepsPerAgent <= 0 {
		rules.MaxStepsPerAgent = maxStep
	}
	if rules.Mode != coordination.Decomposition && d.divided() {
		rules.Mode = coordination.Decomposition
	}
	record := make([]coordination.OnRecord, 0, len(d.Agents))
	for _, a := range d.Agents {
		record = append(record, a.record(running))
	}
	return coordination.Recall(rules, record, d.Messages)
}

// divided reports whether the agents own parts of the work: they stop, and
// nobody votes.
func (d Directory) divided() bool {
	stops := false
	for _, a := range d.Agents {
		if a.Vote != nil {
			return false
		}
		stops = stops || a.Stop != nil
	}
	return stops
}

func (a Agent) record(running func(agent string, step int) bool) coordination.OnRecord {
	r := coordination.OnRecord{Agent: a.ID, Step: a.Steps, Steps: a.Finished, Base: a.Earlier, Usage: a.Usage}
	for _, answer := range a.Answers {
		r.Answers = append(r.Answers, answer.Step)
	}
	if v := a.Vote; v != nil {
		r.Vote = &coordination.Voted{
			Step: v.Step, Target: v.Target, TargetLabel: v.TargetLabel, Reason: v.Reason, Seen: v.Seen, Heard: v.Heard,
		}
	}
	if s := a.Stop; s != nil {
		r.Stop = &coordination.Stopped{Step: s.Step, Status: s.Status, Summary: s.Summary, Seen: s.Seen, Heard: s.Heard}
	}
	for _, u := range a.Unfinished {
		r.Running = r.Running || running != nil && running(a.ID, u.Step)
	}
	return r
}
