// Rules 68, 75 and 79: the minimum of agents, the rounds that count, and staged teams.

package coordination

// staging is the growth of a staged team, and the rounds that no longer count.
type staging struct {
	Places int `json:"places,omitempty"` // agents that work at a time in a staged team; 0: all
	Begun  int `json:"begun,omitempty"`  // rounds before this attempt of the team, and before its newest join
}

func (r *roster) isBelowMinimum() bool {
	return r.Config.decidesByVote() && r.Config.MinActive > 1 && r.countActive() < r.Config.MinActive
}

// hasTooFewLeft reports whether too many agents have failed for good: nobody can join in their place.
func (r *roster) hasTooFewLeft() bool {
	return r.isBelowMinimum() && r.countActive()+r.countOutages(Interrupted, Unreached)+len(r.absentAgents()) < r.Config.MinActive
}

// assembleTeam marks all but the first agents as absent.
func (g *staging) assembleTeam(r *roster) {
	if r.Config.Start == 0 || r.Config.Mode == Decomposition {
		return
	}
	g.Places = min(max(r.Config.Start, r.Config.MinActive), len(r.Agents))
	for _, a := range r.Agents[g.Places:] {
		a.Absent = true
	}
}

func (g *staging) admitRecorded(a *agent) {
	if a.Absent {
		a.Absent = false
		g.Places++
	}
}

// joinTeam makes an absent agent a member of the team. Rounds after the given one count for everybody.
func (g *staging) joinTeam(r *roster, a *agent, before int) {
	a.Absent = false
	g.Begun = max(g.Begun, before)
	for _, member := range r.Agents {
		member.Begun = member.Rounds
	}
}

// roundsOf counts the rounds of this attempt since the newest join.
func (g *staging) roundsOf(r *roster, a *agent) int {
	if r.Config.Pacing == pacingRounds {
		return r.Round - g.Begun
	}
	return a.Rounds - a.Begun
}

func (g *staging) outOfRounds(r *roster, a *agent) bool {
	return r.Config.MaxRounds > 0 && !a.Absent && g.roundsOf(r, a) >= r.Config.MaxRounds
}

func (g *staging) inLastRound(r *roster, a *agent) bool {
	rounds := g.roundsOf(r, a)
	if !a.hasOpenStep() {
		rounds++
	}
	return r.Config.MaxRounds > 0 && rounds >= r.Config.MaxRounds
}
