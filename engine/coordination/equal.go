package coordination

import (
	"cmp"
	"slices"
)

// Digest holds the hashes by which answers are compared; they are empty if unknown.
type Digest struct {
	Exact      string `json:"exact,omitempty"`      // hash of the text and the files
	Normalized string `json:"normalized,omitempty"` // hash of the normalized text and the files

	// Hashes of the last line if it is "ANSWER: …"; empty otherwise.
	ExactLine      string `json:"exact_line,omitempty"`
	NormalizedLine string `json:"normalized_line,omitempty"`
}

// Whole returns the hash of the whole answer for a value of Config.Agree.
func (d Digest) Whole(agree string) string {
	if agree == agreeExact {
		return d.Exact
	}
	return d.Normalized
}

// Line returns the hash of the last line "ANSWER: …" for a value of Config.Agree.
func (d Digest) Line(agree string) string {
	if agree == agreeExact {
		return d.ExactLine
	}
	return d.NormalizedLine
}

// Equal reports whether two answers are equal. If lines is set and both have a last line
// "ANSWER: …", only those lines are compared.
func (d Digest) Equal(other Digest, agree string, lines bool) bool {
	if a, b := d.Line(agree), other.Line(agree); lines && a != "" && b != "" {
		return a == b
	}
	return d.Whole(agree) != "" && d.Whole(agree) == other.Whole(agree)
}

// keepDigest records the digest of the agent's new answer, and whether the answer copies one of the
// answers in seen.
func (s *State) keepDigest(a *agent, d Digest, seen []Seen) {
	a.Digest = d
	if a.answerCount() == 1 && !slices.ContainsFunc(seen, func(n Seen) bool { return n.Agent != a.ID }) {
		a.First = d
	}
	a.Copied = slices.ContainsFunc(s.Agents, func(peer *agent) bool {
		return peer != a && peer.answered() && seenStep(seen, peer.ID) == peer.latest() && d.Equal(peer.Digest, s.Config.Agree, true)
	})
}

// pool returns target and every agent that independently gave an equal answer.
func (s *State) pool(target *agent) []*agent {
	lines := !slices.ContainsFunc(s.Agents, func(a *agent) bool { return a.answered() && a.Digest.Line(s.Config.Agree) == "" })
	return s.agents(func(a *agent) bool {
		return a == target || a.answered() && !a.Copied && !target.Copied && a.Digest.Equal(target.Digest, s.Config.Agree, lines)
	})
}

// plurality compares two answers by rule 40, after their fresh votes.
func plurality(a, b standing) int {
	return cmp.Or(
		cmp.Compare(a.pooled.others, b.pooled.others), cmp.Compare(a.givers, b.givers),
		cmp.Compare(a.own.fresh, b.own.fresh), cmp.Compare(a.own.others, b.own.others))
}

// forced compares two answers by rule 41, after their fresh votes.
func forced(a, b standing) int {
	return cmp.Or(
		cmp.Compare(a.pooled.exact, b.pooled.exact), cmp.Compare(a.points, b.points), cmp.Compare(a.givers, b.givers),
		cmp.Compare(a.own.fresh, b.own.fresh), cmp.Compare(a.own.exact, b.own.exact), cmp.Compare(a.newest, b.newest))
}

// elect decides for the answer that ranks highest by votes and checks; rest breaks ties.
func (s *State) elect(status Status, rest func(a, b standing) int) Decision {
	winner, by := s.best(s.Config.Ballot, rest), Basis("")
	if winner != s.best(ballotText, rest) {
		by = ByChecks
	}
	return s.decideBy(by, status, winner)
}

// standing has the numbers by which one agent's latest answer is ranked.
type standing struct {
	agent  *agent
	own    votes
	pooled votes   // including votes for equal answers
	givers int     // agents that gave an equal answer, including this one
	newest int     // ledger entry of the answer
	score  score   // rank by checks
	points float64 // total score of its agent's last evaluation; -1 without one
}

// votes are counts of votes for an answer.
type votes struct {
	fresh  int
	others int // fresh votes of other agents
	exact  int // fresh or stale votes that named the latest revision
}

// best returns the agent whose answer ranks highest, or nil if there is no answer. If answers
// tie, the agent configured first wins.
func (s *State) best(ballot string, rest func(a, b standing) int) *agent {
	var all []standing
	for _, a := range s.agents((*agent).answered) {
		all = append(all, s.standing(a))
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MaxFunc(all, func(a, b standing) int {
		votes, checks := cmp.Compare(a.pooled.fresh, b.pooled.fresh), a.score.compare(b.score)
		switch ballot {
		case checksDecide:
			return cmp.Or(checks, votes, rest(a, b))
		case checksBreakTies:
			return cmp.Or(votes, checks, rest(a, b))
		}
		return cmp.Or(votes, rest(a, b))
	}).agent
}

func (s *State) standing(target *agent) standing {
	equal := s.pool(target)
	ranked := standing{agent: target, own: s.votesFor(target), givers: len(equal), newest: target.Newest, score: s.scoreOf(target), points: -1}
	if target.Judged != nil {
		ranked.points = target.Judged.total()
	}
	for _, a := range equal {
		v := s.votesFor(a)
		ranked.pooled.fresh += v.fresh
		ranked.pooled.others += v.others
		ranked.pooled.exact += v.exact
	}
	return ranked
}

// tied returns the value of Decision.Tied for the given winner.
func (s *State) tied(winner *agent) []string {
	most := s.standing(winner).pooled.fresh
	equal := s.pool(winner)
	var tied []string
	for _, a := range s.agents((*agent).answered) {
		if a != winner && (slices.Contains(equal, a) || s.standing(a).pooled.fresh != most) {
			continue
		}
		if a != winner {
			equal = append(equal, s.pool(a)...)
		}
		tied = append(tied, a.ID)
	}
	if most == 0 || len(tied) < 2 {
		return nil
	}
	return tied
}

func (s *State) votesFor(target *agent) votes {
	voters, label := s.voters(target), target.latestLabel()
	exact := s.agents(func(a *agent) bool { return a.Ballot != nil && a.Ballot.TargetLabel == label })
	v := votes{fresh: len(voters), others: len(voters), exact: len(exact)}
	if slices.Contains(voters, target) {
		v.others--
	}
	return v
}
