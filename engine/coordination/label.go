package coordination

import (
	"slices"
	"strconv"
)

// label names the agent's m-th answer, from 1.
func (a *Agent) label(m int) string {
	return "agent" + strconv.Itoa(a.Number) + "." + strconv.Itoa(m)
}

// latestLabel names the agent's latest accepted answer; empty without one.
func (a *Agent) latestLabel() string {
	if !a.answered() {
		return ""
	}
	return a.label(len(a.Answers))
}

// finalLabel names the final answer that the agent presented.
func (a *Agent) finalLabel() string { return "agent" + strconv.Itoa(a.Number) + ".final" }

// revision settles which of target's answers a vote named: named itself if it
// is the label of one, else the one that the vote saw, else the latest.
func revision(target *Agent, named string, seen []Seen) string {
	for m := range target.Answers {
		if target.label(m+1) == named {
			return named
		}
	}
	if m := slices.Index(target.Answers, seenStep(seen, target.ID)); m >= 0 {
		return target.label(m + 1)
	}
	return target.latestLabel()
}
