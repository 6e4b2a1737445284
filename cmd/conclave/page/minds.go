package page

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"conclave/cmd/conclave/record"
)

// change is a changed mind: a vote that moved to another answer, or a vote for another answer by
// an agent that had just answered.
type change struct {
	to   string // agent whose answer got the vote
	told string // sentence about the change
}

// changes returns the changed minds of a session by agent.
func changes(s *record.Session) []change {
	var found []change
	answers := answersByAgent(s)
	for _, a := range s.Agents {
		var before *record.Step
		for _, p := range a.Steps {
			if !p.Accepted {
				continue
			}
			if p.Vote != nil && before != nil && changed(before, p) {
				found = append(found, change{p.Vote.Target, move(answers, a.ID, before, p)})
			}
			if p.Vote != nil || p.Answer != nil && !p.Answer.Final {
				before = p
			}
		}
	}
	return found
}

// sentences returns the sentences about changes.
func sentences(of []change) []string {
	var told []string
	for _, c := range of {
		told = append(told, c.told)
	}
	return told
}

// changed reports whether a vote prefers another answer than the step before it.
func changed(before, vote *record.Step) bool {
	if before.Answer != nil {
		return vote.Vote.Target != vote.Agent
	}
	return before.Vote.Target != vote.Vote.Target
}

func move(answers map[string][]*record.Step, agent string, before, vote *record.Step) string {
	from := ""
	switch {
	case before.Answer != nil:
		from = fmt.Sprintf("%s gave up its own %s and voted for %s", agent, before.Answer.Label, vote.Vote.TargetLabel)
	case vote.Vote.Target == agent:
		from = fmt.Sprintf("%s went back from %s to its own %s", agent, before.Vote.TargetLabel, vote.Vote.TargetLabel)
	default:
		from = fmt.Sprintf("%s moved from %s to %s", agent, before.Vote.TargetLabel, vote.Vote.TargetLabel)
	}
	return from + afterSeeing(news(answers, before, vote), vote.Vote.TargetLabel) + "."
}

// afterSeeing names the newly seen answers. If there are many, it names only the chosen one.
func afterSeeing(seen []string, chosen string) string {
	const most = 3
	switch i := slices.Index(seen, chosen); {
	case len(seen) == 0:
		return ""
	case len(seen) <= most:
		return " after seeing " + join(seen)
	case i >= 0:
		return fmt.Sprintf(" after seeing %s and %d others", chosen, len(seen)-1)
	}
	return fmt.Sprintf(" after seeing %d new answers", len(seen))
}

// news returns the labels that a step has seen and an earlier one has not, only the newest of
// each other agent.
func news(answers map[string][]*record.Step, before, after *record.Step) []string {
	var labels []string
	for agent, upTo := range after.Seen {
		of := answers[agent]
		later := sort.Search(len(of), func(i int) bool { return of[i].Number > upTo })
		if agent == after.Agent || later == 0 || of[later-1].Number <= before.Seen[agent] {
			continue
		}
		labels = append(labels, of[later-1].Answer.Label)
	}
	slices.Sort(labels)
	return labels
}

// answersByAgent returns the answers of each agent, by number.
func answersByAgent(s *record.Session) map[string][]*record.Step {
	all := map[string][]*record.Step{}
	for _, a := range s.Agents {
		for _, p := range a.Steps {
			if p.Answer != nil {
				all[a.ID] = append(all[a.ID], p)
			}
		}
		slices.SortFunc(all[a.ID], func(p, q *record.Step) int { return cmp.Compare(p.Number, q.Number) })
	}
	return all
}
