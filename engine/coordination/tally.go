// Rules 31, 40 to 42, 73, 74, 81, 82, 84, 85 and 110: the majority, equal answers, the election
// and its support.

package coordination

import (
	"cmp"
	"slices"
)

// majority reports whether a number of votes is more than half of the agents that may vote.
func majority(votes, voters int) bool { return 2*votes > voters }

// Tally counts the fresh votes by target, in configured order, without targets that have
// none. Failed agents do not vote, but can be voted for.
func (t *tally) Tally() []count {
	counts := []count{}
	for _, target := range t.Agents {
		if n := len(t.votersFor(target)); n > 0 {
			counts = append(counts, count{Target: target.ID, Votes: n})
		}
	}
	return counts
}

func (t *tally) voterIDs() []string {
	return idsOf(t.agentsWhere(func(a *agent) bool { return a.Ballot != nil && t.isFresh(a) }))
}

func (t *tally) votersFor(target *agent) []*agent {
	return t.agentsWhere(func(a *agent) bool { return a.Ballot != nil && a.Ballot.Target == target.ID && t.isFresh(a) })
}

// majorityTarget returns the target with the fresh votes of more than half of the active agents, or
// nil.
func (t *tally) majorityTarget() *agent {
	n := t.countActive()
	for _, c := range t.Tally() {
		if majority(c.Votes, n) {
			return t.agentOf(c.Target)
		}
	}
	return nil
}

// comparePlurality compares two answers by rule 40, after their fresh votes.
func comparePlurality(a, b standing) int {
	return cmp.Or(
		cmp.Compare(a.pooled.others, b.pooled.others), cmp.Compare(a.givers, b.givers),
		cmp.Compare(a.own.fresh, b.own.fresh), cmp.Compare(a.own.others, b.own.others),
		compareUnvoted(a, b))
}

// compareForced compares two answers by rule 41, after their fresh votes.
func compareForced(a, b standing) int {
	return cmp.Or(
		cmp.Compare(a.pooled.exact, b.pooled.exact), cmp.Compare(a.points, b.points), cmp.Compare(a.givers, b.givers),
		cmp.Compare(a.own.fresh, b.own.fresh), cmp.Compare(a.own.exact, b.own.exact), compareUnvoted(a, b),
		cmp.Compare(a.newest, b.newest))
}

// compareUnvoted compares two answers by rule 38, after their checks.
func compareUnvoted(a, b standing) int {
	return slices.Compare(a.skills[:], b.skills[:])
}

// standing has the numbers by which one agent's latest answer is ranked.
type standing struct {
	agent  *agent
	own    votes
	pooled votes      // including votes for equal answers
	givers int        // agents that gave an equal answer, including this one
	newest int        // ledger entry of the answer
	score  [2]int     // rank by checks
	points float64    // total score of its agent's last evaluation; -1 without one
	skills [2]float64 // the greatest of the agents with equal answers, and its own; -1 without one
}

// votes are counts of votes for an answer.
type votes struct {
	fresh    int
	others   int // fresh votes of other agents
	exact    int // fresh or stale votes that named the latest revision
	converts int // fresh votes of agents without an equal answer, if pooled
}

func (t *tally) votesFor(target *agent) votes {
	voters, label := t.votersFor(target), target.latestLabel()
	exact := t.agentsWhere(func(a *agent) bool { return a.Ballot != nil && a.Ballot.TargetLabel == label })
	v := votes{fresh: len(voters), others: len(voters), exact: len(exact)}
	if slices.Contains(voters, target) {
		v.others--
	}
	return v
}

func (t *tally) skillOf(a *agent) float64 {
	if skill, known := t.Config.Skill[a.ID]; known {
		return skill
	}
	return -1
}

func (t *tally) standingOf(target *agent) standing {
	equal := t.equalAnswers(target)
	ranked := standing{agent: target, own: t.votesFor(target), givers: len(equal), newest: target.Newest, pooled: t.pooledVotes(equal), score: t.scoreOf(target), points: -1, skills: [2]float64{-1, t.skillOf(target)}}
	if target.Judged != nil {
		ranked.points = target.Judged.totalScore()
	}
	for _, a := range equal {
		ranked.skills[0] = max(ranked.skills[0], t.skillOf(a))
	}
	return ranked
}

// pooledVotes returns the votes for equal answers.
func (t *tally) pooledVotes(equal []*agent) votes {
	var pooled votes
	for _, a := range equal {
		v := t.votesFor(a)
		pooled.fresh += v.fresh
		pooled.others += v.others
		pooled.exact += v.exact
		pooled.converts += len(slices.DeleteFunc(t.votersFor(a), func(voter *agent) bool { return slices.Contains(equal, voter) }))
	}
	return pooled
}

// bestAnswer returns the agent whose answer ranks highest, or nil if there is no answer. If answers
// tie in all that rest compares, the agent configured first wins.
func (t *tally) bestAnswer(ballot string, rest func(a, b standing) int) *agent {
	var all []standing
	for _, a := range t.agentsWhere((*agent).hasAnswer) {
		all = append(all, t.standingOf(a))
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MaxFunc(all, func(a, b standing) int { return compareBy(ballot, rest, a, b) }).agent
}

// compareBy compares two answers by their votes and checks, and then by rest.
func compareBy(ballot string, rest func(a, b standing) int, a, b standing) int {
	votes, checks := cmp.Compare(a.pooled.fresh, b.pooled.fresh), slices.Compare(a.score[:], b.score[:])
	switch ballot {
	case checksDecide:
		return cmp.Or(checks, votes, rest(a, b))
	case checksBreakTies:
		return cmp.Or(votes, checks, rest(a, b))
	}
	return cmp.Or(votes, rest(a, b))
}

// isBySkill reports whether only skill puts the winner before another answer that is not equal to it.
func (t *tally) isBySkill(winner *agent, rest func(a, b standing) int) bool {
	best, equal := t.standingOf(winner), t.equalAnswers(winner)
	return slices.ContainsFunc(t.agentsWhere((*agent).hasAnswer), func(a *agent) bool {
		other := t.standingOf(a)
		if other.skills == best.skills || slices.Contains(equal, a) {
			return false
		}
		other.skills = best.skills
		return compareBy(t.Config.Ballot, rest, best, other) <= 0
	})
}

func (t *tally) tiedWith(winner *agent) []string {
	most := t.standingOf(winner).pooled.fresh
	equal := t.equalAnswers(winner)
	var tied []string
	for _, a := range t.agentsWhere((*agent).hasAnswer) {
		if a != winner && (slices.Contains(equal, a) || t.standingOf(a).pooled.fresh != most) {
			continue
		}
		if a != winner {
			equal = append(equal, t.equalAnswers(a)...)
		}
		tied = append(tied, a.ID)
	}
	if most == 0 || len(tied) < 2 {
		return nil
	}
	return tied
}

// electBest decides for the answer that ranks highest by votes and checks; rest breaks ties.
func (t *tally) electBest(status Status, rest func(a, b standing) int) Decision {
	winner, by := t.bestAnswer(t.Config.Ballot, rest), Basis("")
	switch {
	case winner != t.bestAnswer(ballotText, rest):
		by = ByChecks
	case winner != nil && t.isBySkill(winner, rest):
		by = BySkill
	}
	return t.decisionFor(by, status, winner)
}

// decisionFor returns the decision for winner's latest answer; by is empty if it follows from votes
// alone. Without a winner it returns the decision of an earlier attempt of the team, or else a
// failure.
func (t *tally) decisionFor(by Basis, status Status, winner *agent) Decision {
	if winner == nil {
		d := t.failureFor(causeNoAnswer)
		switch {
		case !status.isForced():
		case d.Winner != "":
			d.Status = status
		default:
			d.Asked = status
		}
		return d
	}
	if t.countActive() == 0 && status != Finished && status != Timeout {
		return t.failureFor(causeAllFailed)
	}
	d := Decision{
		Status:      status,
		Winner:      winner.ID,
		WinnerLabel: winner.latestLabel(),
		WinnerStep:  winner.latestStep(),
		Votes:       t.Tally(),
		Voters:      t.voterIDs(),
		Tied:        t.tiedWith(winner),
		By:          by,
	}
	t.weighSupport(&d, winner)
	return d
}

// failureFor returns the decision of a session without a winner: that of an earlier attempt, if
// any, else a failure because of why. If every agent has failed, it has the best answer.
func (t *tally) failureFor(why cause) Decision {
	if t.Fallback != nil {
		d := t.Fallback.clone()
		d.Earlier = true
		return d
	}
	d := Decision{Status: FailedAll, Cause: why, Votes: t.Tally(), Voters: t.voterIDs()}
	if best := t.bestAnswer(t.Config.Ballot, compareForced); best != nil && t.countActive() == 0 {
		final := best.shownAnswer()
		final.Seq = 0
		d.Final = &final
	}
	return d
}

// preferredWinner returns the target of a majority, unless checks decide for another answer.
func (t *tally) preferredWinner(target *agent) *agent {
	if t.isOutdone(target) {
		return t.bestAnswer(checksDecide, comparePlurality)
	}
	return target
}

func (t *tally) confirmMajority(by Basis, target *agent) Decision {
	if winner := t.preferredWinner(target); winner != target {
		return t.decisionFor(ByChecks, Plurality, winner)
	}
	return t.decisionFor(by, Consensus, target)
}

func (t *tally) countSuperseded() int {
	return t.Cast - len(t.agentsWhere(func(a *agent) bool { return a.Ballot != nil }))
}

func (t *tally) weighSupport(d *Decision, winner *agent) {
	if t.Config.decidesByVote() || d.By == ByAgreement {
		d.Support = t.supportFor(winner, d.By)
	}
	asked := d.Status == Finished || d.Status == Timeout
	lacking := d.Support != nil && d.Support.Share < t.Config.MinSupport
	if (lacking || !t.Config.Promise.Admits(d.Support)) && !asked {
		d.Despite, d.Status = d.Status, Undecided
	}
}

func (r *roster) lacksSupport(behind int) bool {
	n := r.countPresent()
	return n > 0 && float64(behind)/float64(n) < r.Config.MinSupport
}

func (t *tally) supportFor(winner *agent, by Basis) *Support {
	voters := t.votersFor(winner)
	support := Support{Checks: t.passedShare(&t.roster, winner)}
	support.Agreement, support.Spread = t.firstAgreement(winner)
	behind := len(voters)
	if by == ByAgreement {
		behind = t.countAgreeing(winner)
	}
	if n := t.countPresent(); n > 0 {
		support.Share = float64(behind) / float64(n)
	}
	sum, n := 0.0, 0
	for _, a := range voters {
		if a.Ballot.Confidence != nil {
			sum, n = sum+*a.Ballot.Confidence, n+1
		}
	}
	if n > 0 {
		mean := sum / float64(n)
		support.Confidence = &mean
	}
	return &support
}

// firstAgreement returns the share of the other agents' independent first answers that equal the
// winner's, nil without any; and, from two independent first answers on, by how much more of
// them equal the winner's than equal the most frequent other one.
func (r *roster) firstAgreement(winner *agent) (agreement, spread *float64) {
	firsts := r.agentsWhere(func(a *agent) bool { return a.First != Digest{} })
	others := slices.DeleteFunc(slices.Clone(firsts), func(a *agent) bool { return a == winner })
	if len(others) > 0 {
		agreement = new(float64(r.countEqual(others, winner.Digest)) / float64(len(others)))
	}
	if len(firsts) > 1 {
		next := 0
		for _, a := range firsts {
			if !a.First.Equal(winner.Digest, r.Config.Agree, true) {
				next = max(next, r.countEqual(firsts, a.First))
			}
		}
		n := float64(len(firsts))
		spread = new(float64(r.countEqual(firsts, winner.Digest))/n - float64(next)/n)
	}
	return agreement, spread
}

func (r *roster) countEqual(agents []*agent, d Digest) (n int) {
	for _, a := range agents {
		if a.First.Equal(d, r.Config.Agree, true) {
			n++
		}
	}
	return n
}

func validProbability(p *float64) *float64 {
	if p == nil || !(*p >= 0 && *p <= 1) {
		return nil
	}
	return shallowCopy(p)
}

func (r *roster) keepDigest(a *agent, d Digest, seen []Seen) {
	a.Digest = d
	if a.answerCount() == 1 && !slices.ContainsFunc(seen, func(n Seen) bool { return n.Agent != a.ID }) {
		a.First = d
	}
	a.Copied = slices.ContainsFunc(r.Agents, func(peer *agent) bool {
		return peer != a && peer.hasAnswer() && seenStep(seen, peer.ID) == peer.latestStep() && d.Equal(peer.Digest, r.Config.Agree, true)
	})
}

func (r *roster) equalAnswers(target *agent) []*agent {
	lines := !slices.ContainsFunc(r.Agents, func(a *agent) bool { return a.hasAnswer() && a.Digest.Line(r.Config.Agree) == "" })
	return r.agentsWhere(func(a *agent) bool {
		return a == target || a.hasAnswer() && !a.Copied && !target.Copied && a.Digest.Equal(target.Digest, r.Config.Agree, lines)
	})
}

// mayAgree reports whether equal first answers can decide: early agreement is configured, and
// no vote of this attempt is in force.
func (r *roster) mayAgree() bool {
	c := r.Config
	return c.Early && c.Mode == voting && !c.Secluded && !slices.ContainsFunc(r.Agents, func(a *agent) bool { return a.Ballot != nil })
}

// majorityAnswer returns the first configured agent with an answer that a majority gave, or nil.
func (r *roster) majorityAnswer() *agent {
	for _, a := range r.agentsWhere(func(a *agent) bool { return a.isActive() && a.hasAnswer() }) {
		if majority(r.countAgreeing(a), r.countActive()) {
			return a
		}
	}
	return nil
}

func (r *roster) countAgreeing(a *agent) int {
	return len(slices.DeleteFunc(r.equalAnswers(a), func(b *agent) bool { return !b.isActive() }))
}
