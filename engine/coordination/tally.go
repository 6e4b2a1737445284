package coordination

import (
	"cmp"
	"slices"
)

// Tally counts the fresh votes by target, in configured order, targets without
// a fresh vote left out. A failed agent casts none, but can be voted for.
func (s *State) Tally() []Count {
	votes := make([]int, len(s.Agents))
	for i := range s.Agents {
		if a := &s.Agents[i]; a.Ballot != nil && s.fresh(a) {
			votes[s.index(a.Ballot.Target)]++
		}
	}
	counts := []Count{}
	for i, n := range votes {
		if n > 0 {
			counts = append(counts, Count{Target: s.Agents[i].ID, Votes: n})
		}
	}
	return counts
}

// majority is the target with more than half of the active agents' votes; nil
// if there is none. Two cannot have it, so there is no tie to break.
func (s *State) majority() *Agent {
	n := s.active()
	for _, c := range s.Tally() {
		if 2*c.Votes > n {
			return s.agent(c.Target)
		}
	}
	return nil
}

// plurality is the answer with most fresh votes; ties go to the one with more
// votes from other agents, then to the agent configured first. Nil if nobody
// answered.
func (s *State) plurality() *Agent {
	return s.best(func(a, b standing) int {
		return cmp.Or(cmp.Compare(a.fresh, b.fresh), cmp.Compare(a.others, b.others))
	})
}

// forced is the answer with most fresh votes; ties go to the one whose latest
// revision was named by more votes, stale ones included, then to the newest,
// then to the agent configured first. Nil if nobody answered.
func (s *State) forced() *Agent {
	return s.best(func(a, b standing) int {
		return cmp.Or(cmp.Compare(a.fresh, b.fresh), cmp.Compare(a.exact, b.exact), cmp.Compare(a.newest, b.newest))
	})
}

// standing is what speaks for one agent's latest answer.
type standing struct {
	agent  *Agent
	fresh  int // fresh votes for the agent
	others int // of those, cast by other agents
	exact  int // votes, fresh or stale, that named exactly this revision
	newest int // ledger entry of the answer
}

// best is the agent whose answer compares highest, the first one configured of
// equals; nil if nobody answered.
func (s *State) best(compare func(a, b standing) int) *Agent {
	var all []standing
	for i := range s.Agents {
		if a := &s.Agents[i]; a.answered() {
			all = append(all, s.standing(a))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MaxFunc(all, compare).agent
}

func (s *State) standing(target *Agent) standing {
	st := standing{agent: target, newest: target.Newest}
	label := target.latestLabel()
	for i := range s.Agents {
		voter := &s.Agents[i]
		if voter.Ballot == nil || voter.Ballot.Target != target.ID {
			continue
		}
		if voter.Ballot.TargetLabel == label {
			st.exact++
		}
		if !s.fresh(voter) {
			continue
		}
		st.fresh++
		if voter.ID != target.ID {
			st.others++
		}
	}
	return st
}

func (s *State) index(id string) int {
	return slices.IndexFunc(s.Agents, func(a Agent) bool { return a.ID == id })
}
