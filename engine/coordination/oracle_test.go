package coordination_test

import (
	"slices"

	c "conclave/engine/coordination"
)

// oracle judges a session slowly and obviously: from the ledger alone, and from
// who failed, as somebody with a pencil would.
type oracle struct {
	config c.Config
	ledger []c.Accepted
	failed map[string]bool
	ended  map[string]int // steps ended by agent
}

// latest is the agent's newest answer on the ledger.
func (o oracle) latest(agent string) (entry c.Accepted, found bool) {
	for _, e := range o.ledger {
		if e.Agent == agent && e.Action == c.NewAnswer {
			entry, found = e, true
		}
	}
	return entry, found
}

// vote is the agent's standing vote: its last entry, if that is a vote and the
// agent has not failed.
func (o oracle) vote(agent string) (vote c.Accepted, found bool) {
	for _, e := range o.ledger {
		if e.Agent == agent {
			vote, found = e, e.Action == c.Vote
		}
	}
	return vote, found && !o.failed[agent]
}

func (o oracle) stale(vote c.Accepted) bool {
	for _, agent := range o.config.Agents {
		answer, found := o.latest(agent)
		if !found {
			continue
		}
		saw := 0
		for _, s := range vote.Seen {
			if s.Agent == agent {
				saw = s.Step
			}
		}
		if saw < answer.Step {
			return true
		}
	}
	return false
}

func (o oracle) fresh(agent string) bool {
	vote, found := o.vote(agent)
	return found && !o.stale(vote)
}

// count is how many agents' votes for target satisfy.
func (o oracle) count(target string, satisfy func(voter string, vote c.Accepted) bool) int {
	n := 0
	for _, voter := range o.config.Agents {
		if vote, found := o.vote(voter); found && vote.Target == target && satisfy(voter, vote) {
			n++
		}
	}
	return n
}

func (o oracle) freshVotes(target string) int {
	return o.count(target, func(voter string, _ c.Accepted) bool { return o.fresh(voter) })
}

func (o oracle) tally() []c.Count {
	counts := []c.Count{}
	for _, target := range o.config.Agents {
		if n := o.freshVotes(target); n > 0 {
			counts = append(counts, c.Count{Target: target, Votes: n})
		}
	}
	return counts
}

func (o oracle) majority() string {
	active := 0
	for _, agent := range o.config.Agents {
		if !o.failed[agent] {
			active++
		}
	}
	for _, target := range o.config.Agents {
		if o.freshVotes(target)*2 > active {
			return target
		}
	}
	return ""
}

// allDone says that every active agent has a fresh vote or no step left.
func (o oracle) allDone() bool {
	return !slices.ContainsFunc(o.config.Agents, func(a string) bool {
		return !o.failed[a] && !o.fresh(a) && o.ended[a] < o.config.MaxStepsPerAgent
	})
}

// allFresh says that every active agent has a fresh vote.
func (o oracle) allFresh() bool {
	return !slices.ContainsFunc(o.config.Agents, func(a string) bool { return !o.failed[a] && !o.fresh(a) })
}

func (o oracle) plurality() string {
	return o.winner(func(agent string, _ c.Accepted) []int {
		return []int{
			o.freshVotes(agent),
			o.count(agent, func(voter string, _ c.Accepted) bool { return o.fresh(voter) && voter != agent }),
		}
	})
}

func (o oracle) forced() string {
	return o.winner(func(agent string, answer c.Accepted) []int {
		return []int{
			o.freshVotes(agent),
			o.count(agent, func(_ string, vote c.Accepted) bool { return vote.TargetLabel == answer.Label }),
			answer.Seq,
		}
	})
}

// winner is the agent with an answer that scores highest, the first configured
// of equals.
func (o oracle) winner(score func(agent string, answer c.Accepted) []int) string {
	best, top := "", []int(nil)
	for _, agent := range o.config.Agents {
		answer, found := o.latest(agent)
		if !found {
			continue
		}
		if points := score(agent, answer); best == "" || slices.Compare(points, top) > 0 {
			best, top = agent, points
		}
	}
	return best
}
