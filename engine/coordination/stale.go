package coordination

import (
	"cmp"
	"slices"
	"strings"
)

// stale reports whether an agent, active or failed, has an answer that the
// vote did not see. Only answers make votes stale; other votes never do.
func (s *State) stale(b *Ballot) bool {
	for i := range s.Agents {
		a := &s.Agents[i]
		if a.answered() && seenStep(b.Seen, a.ID) < a.latest() {
			return true
		}
	}
	return false
}

// fresh reports whether a has a vote that counts. A failed agent has none: its
// failure withdrew it.
func (s *State) fresh(a *Agent) bool {
	return a.Ballot != nil && !s.stale(a.Ballot)
}

// freshVoters are the agents whose votes count, in configured order. None of
// them can have seen an answer that is yet to come.
func (s *State) freshVoters() []string {
	var voters []string
	for i := range s.Agents {
		if s.fresh(&s.Agents[i]) {
			voters = append(voters, s.Agents[i].ID)
		}
	}
	return voters
}

// outdated says for a person whose votes an answer has made stale.
func outdated(voters []string) string {
	switch len(voters) {
	case 0:
		return ""
	case 1:
		return "; the vote of " + voters[0] + " is stale now"
	default:
		last := len(voters) - 1
		return "; the votes of " + strings.Join(voters[:last], ", ") + " and " + voters[last] + " are stale now"
	}
}

// witnessed is seen in the form in which it is kept: one entry per agent with
// an answer, in byte order of the IDs. Nobody can have seen more than was
// accepted: a higher step would keep a vote fresh against answers to come.
func (s *State) witnessed(seen []Seen) []Seen {
	var kept []Seen
	for _, n := range seen {
		a := s.agent(n.Agent)
		if a == nil || n.Step <= 0 || !a.answered() {
			continue
		}
		n.Step = min(n.Step, a.latest())
		at, found := slices.BinarySearchFunc(kept, n.Agent, byAgent)
		if found {
			kept[at].Step = max(kept[at].Step, n.Step)
			continue
		}
		kept = slices.Insert(kept, at, n)
	}
	return kept
}

// seenStep looks agent up in seen, which is sorted; absent counts as 0.
func seenStep(seen []Seen, agent string) int {
	at, found := slices.BinarySearchFunc(seen, agent, byAgent)
	if !found {
		return 0
	}
	return seen[at].Step
}

func byAgent(n Seen, agent string) int { return cmp.Compare(n.Agent, agent) }
