package coordination

import (
	"slices"
	"strconv"
	"strings"
)

// finalSuffix is the second part of the label of an answer that an agent presents.
const finalSuffix = ".final"

// Label returns the label of an agent's n-th answer, such as agent1.2. number is the agent's
// anonymous number.
func Label(number, n int) string { return "agent" + strconv.Itoa(number) + "." + strconv.Itoa(n) }

// FinalLabel returns the label of the answer that an agent presents, such as agent1.final.
func FinalLabel(number int) string { return "agent" + strconv.Itoa(number) + finalSuffix }

// FinalLabelOf returns the label under which the agent of a labelled answer presents.
func FinalLabelOf(label string) string {
	agent, _, _ := strings.Cut(label, ".")
	return agent + finalSuffix
}

// IsFinal reports whether the answer with the label is a presented one.
func IsFinal(label string) bool { return strings.HasSuffix(label, finalSuffix) }

// label returns the label of the agent's m-th answer, from 1.
func (a *agent) label(m int) string { return Label(a.Number, m) }

// latestLabel returns the label of the agent's latest accepted answer, or "".
func (a *agent) latestLabel() string {
	if !a.answered() {
		return ""
	}
	return a.label(len(a.Answers))
}

// revision returns the label of the answer that a vote for target names: named, if that is
// one of target's labels; else the answer that the voter saw; else the latest.
func revision(target *agent, named string, seen []Seen) string {
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
