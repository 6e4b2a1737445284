package coordination

import "slices"

// Basis is the reason for a decision that does not follow from votes alone.
type Basis string

// The values of Decision.By, and those that Decision.DecidedBy adds.
const (
	ByVotes     Basis = "votes"
	ByChecks    Basis = "checks"
	ByAgreement Basis = "agreement" // equal first answers of a majority
	ByQuorum    Basis = "quorum"    // a majority, while other steps ran
	ByPresenter Basis = "presenter" // nobody votes
	ByForce     Basis = "force"     // a person, the clock or a limit
)

// DecidedBy returns the reason for the decision, or "" if there is no winner.
func (d Decision) DecidedBy() Basis {
	status := d.Status
	if d.Despite != "" {
		status = d.Despite
	}
	switch {
	case d.Winner == "":
		return ""
	case status.forced():
		return ByForce
	case d.By != "":
		return d.By
	case status == Presented:
		return ByPresenter
	}
	return ByVotes
}

// Support is the support of a winning answer. Unknown parts are nil.
type Support struct {
	Share      float64  `json:"share"`      // share of the active agents with a fresh vote for the winner; by agreement, with an equal answer
	Confidence *float64 `json:"confidence"` // mean of those voters
	Agreement  *float64 `json:"agreement"`  // share of the independent first answers that equal it
	Checks     *float64 `json:"checks"`     // share of the checks that it passed
}

// weigh sets the support of a decision. If it is below the minimum, the session is undecided.
func (s *State) weigh(d *Decision, winner *agent) {
	if !s.Config.votes() && d.By != ByAgreement {
		return
	}
	d.Support = s.support(winner, d.By)
	asked := d.Status == Finished || d.Status == Timeout
	if d.Support.Share < s.Config.MinSupport && !asked {
		d.Despite, d.Status = d.Status, Undecided
	}
}

// lacksSupport reports whether a number of agents is too small a share of the active ones.
func (s *State) lacksSupport(behind int) bool {
	n := s.present()
	return n > 0 && float64(behind)/float64(n) < s.Config.MinSupport
}

// present returns the number of agents that have joined and not failed, those that are away too.
func (s *State) present() int {
	return len(s.agents(func(a *agent) bool { return a.Error == nil && !a.Absent }))
}

// awaitsSupport reports whether an answer has too few votes that are final, and votes that are out
// could still make them enough.
func (s *State) awaitsSupport(winner *agent) bool {
	votes, out := 0, 0
	for _, a := range s.agents((*agent).active) {
		switch {
		case a.Run != nil || a.goesOn() || s.able(a) && s.wants(a):
			out++
		case slices.Contains(s.voters(winner), a):
			votes++
		}
	}
	return s.lacksSupport(votes) && !s.lacksSupport(votes+out)
}

func (s *State) support(winner *agent, by Basis) *Support {
	voters := s.voters(winner)
	support := Support{Agreement: s.firstAgreement(winner), Checks: s.passed(winner)}
	behind := len(voters)
	if by == ByAgreement {
		behind = s.givers(winner)
	}
	if n := s.present(); n > 0 {
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

// firstAgreement returns the share of the independent first answers that equal winner's
// newest answer, or nil if there are fewer than two of them.
func (s *State) firstAgreement(winner *agent) *float64 {
	firsts := s.agents(func(a *agent) bool { return a.First != Digest{} })
	if len(firsts) < 2 {
		return nil
	}
	equal := 0
	for _, a := range firsts {
		if a.First.Equal(winner.Digest, s.Config.Agree, true) {
			equal++
		}
	}
	share := float64(equal) / float64(len(firsts))
	return &share
}

// probability returns a copy of a number from 0 to 1, or nil.
func probability(p *float64) *float64 {
	if p == nil || !(*p >= 0 && *p <= 1) {
		return nil
	}
	return shallow(p)
}
