package coordination

import "slices"

// This file predicts quorums, staged teams, early agreement, elections and the support of decisions.

// present counts the agents that have joined and not failed.
func (o *oracle) present() (n int) {
	for _, a := range o.config.Agents {
		if m := o.agents[a]; m.failed == nil && !m.absent {
			n++
		}
	}
	return n
}

// part implements rule 107.
func (o *oracle) part() {
	k := o.config
	if k.Mode == Decomposition || o.paused || o.parked() || o.forced != "" || o.closing != nil || o.isChecking() {
		return
	}
	answered, out, members := 0, 0, 0
	for _, a := range k.Agents {
		m := o.agents[a]
		resumes := m.goesOn() && o.able(a) && (m.rest == nil || m.rest.Purpose == Coordinate)
		switch {
		case m.out:
			out++
		case m.runs != nil, resumes:
			return
		case m.failed == nil && o.given(a) > 0:
			answered++
		}
		if !m.absent {
			members++
		}
	}
	enough := answered*2 > members && answered >= k.MinActive && o.affords()
	for _, a := range k.Agents {
		m := o.agents[a]
		if m.out && enough && !m.gone {
			m.void = len(o.book)
		}
		m.gone = m.out && enough
	}
}

// fill implements rule 80.
func (o *oracle) fill() {
	held := o.paused || o.parked()
	if o.closing != nil || held || o.forced != "" || o.spent() || o.config.OnAgentFailure == "fail" {
		return
	}
	for _, a := range o.absent() {
		if len(o.active()) < o.places {
			o.agents[a].again = true
			o.join(a, o.round-1)
		}
	}
}

// grow implements rule 81.
func (o *oracle) grow() []Launch {
	if !o.voting() && o.agreed() != "" {
		return nil
	}
	var joining []string
	for _, a := range o.absent() {
		if len(joining) < o.config.Grow && len(o.offered(a, nil)) > 0 {
			joining = append(joining, a)
		}
	}
	if len(joining) == 0 {
		return nil
	}
	for _, a := range joining {
		o.join(a, o.round)
		o.places++
	}
	return o.withOutages(o.wave())
}

// join makes an agent join. Rounds up to the given one no longer count (rule 75).
func (o *oracle) join(agent string, before int) {
	o.agents[agent].absent = false
	o.before = max(o.before, before)
	for _, m := range o.agents {
		m.before = m.rounds
	}
}

// agreement implements rule 82.
func (o *oracle) agreement() string {
	if !o.unvoted() || o.few() {
		return ""
	}
	for _, a := range o.active() {
		if o.given(a) == 0 || o.agents[a].retried || o.hasUnread(a, o.agents[a].heard) {
			return ""
		}
	}
	a := o.agreed()
	asked := func(a string) bool { return o.able(a) && o.due(a) }
	if a == "" || o.outdone(a) || !o.enough(o.givers(a)) && slices.ContainsFunc(o.active(), asked) {
		return ""
	}
	return a
}

// enough reports whether a number of agents is the share of rule 85.
func (o *oracle) enough(behind int) bool {
	return float64(behind)/float64(o.present()) >= o.config.MinSupport
}

// agreed returns the first agent with whose answer more than half of the active agents agree.
func (o *oracle) agreed() string {
	for _, a := range o.active() {
		if o.given(a) > 0 && 2*o.givers(a) > len(o.active()) {
			return a
		}
	}
	return ""
}

func (o *oracle) givers(agent string) int {
	n := 0
	for _, a := range o.pool(agent) {
		if slices.Contains(o.active(), a) {
			n++
		}
	}
	return n
}

// quorate implements rule 76. It ends the wait if the majority no longer exists.
func (o *oracle) quorate() string {
	found := ""
	held := o.paused || o.parked() || o.forced != "" || o.closing != nil
	if o.config.Quorum && !held && o.voting() && !o.secluded() && !o.few() {
		for _, target := range o.config.Agents {
			final := o.count(target, func(voter string, _ *line) bool {
				m := o.agents[voter]
				return o.fresh(voter) && m.runs == nil && !m.goesOn()
			})
			if 2*final > len(o.active()) && !o.awaits(target) {
				found = target
			}
		}
	}
	answer, _ := o.latest(found)
	if o.quorum != nil && o.quorum.label != answer.Label {
		o.quorum, o.waiting = nil, false
	}
	return found
}

// awaits reports whether votes that are out can give a majority the support that it lacks (rule 76).
func (o *oracle) awaits(target string) bool {
	winner := target
	if o.outdone(target) {
		winner = o.plurality()
	}
	behind, most := 0, 0
	for _, a := range o.active() {
		m, l := o.agents[a], o.standing(a)
		switch {
		case m.runs != nil, m.goesOn(), o.able(a) && o.due(a):
			most++
		case l != nil && l.Target == winner && o.fresh(a):
			behind, most = behind+1, most+1
		}
	}
	return !o.enough(behind) && o.enough(most)
}

// closeVote implements rules 77 and 78.
func (o *oracle) closeVote(target string) (*Decision, []Launch) {
	answer, _ := o.latest(target)
	if !o.quiet() && len(o.out) > 0 && o.isChecking() {
		if !o.affords() {
			return nil, nil
		}
		return nil, o.resumed()
	}
	firsts := slices.ContainsFunc(o.active(), func(a string) bool {
		m := o.agents[a]
		return o.given(a) == 0 && (m.goesOn() || m.runs != nil && slices.Contains(m.runs.Offered, NewAnswer))
	})
	if firsts && o.config.QuorumGrace > 0 && (o.quorum == nil || !o.quorum.over) {
		if o.quorum == nil {
			o.quorum = &quorumFacts{label: answer.Label}
		}
		if !o.affords() {
			return nil, nil
		}
		return nil, o.resumed()
	}
	o.quorum, o.waiting = nil, false
	d := o.confirm(ByQuorum, target)
	d.Cut = append(d.Cut, o.running()...)
	return o.conclude(d)
}

// cuts reports whether a step is running whose action would no longer count.
func (o *oracle) cuts() bool {
	return o.closing != nil && slices.ContainsFunc(o.running(), func(a string) bool { return o.agents[a].runs.Purpose == Coordinate })
}

// convinces implements rules 85 and 111.
func (o *oracle) convinces(s *Support) bool {
	if s != nil && s.Share < o.config.MinSupport {
		return false
	}
	promise := o.config.Promise
	if promise == nil {
		return true
	}
	if s == nil {
		return false
	}
	sum := 0.0
	for _, part := range promise.Parts {
		known := map[string]*float64{"share": &s.Share, "agreement": s.Agreement, "spread": s.Spread, "confidence": s.Confidence, "checks": s.Checks}[part]
		if known == nil {
			return false
		}
		sum += max(0, *known)
	}
	return sum >= promise.Least*float64(len(promise.Parts))-1e-7
}

// support implements rule 84.
func (o *oracle) support(winner string, answer line, by Basis) *Support {
	s := &Support{Checks: o.passedShare(winner)}
	n := float64(o.present())
	switch {
	case n == 0:
	case by == ByAgreement:
		s.Share = float64(o.givers(winner)) / n
	default:
		s.Share = float64(o.freshVotes(winner)) / n
	}
	var sure []float64
	var firsts []Digest
	given := map[Digest]float64{}
	equal, others := 0.0, 0.0
	for _, a := range o.config.Agents {
		if l := o.standing(a); l != nil && l.Action == Vote && l.Target == winner && o.fresh(a) && l.sure != nil {
			sure = append(sure, *l.sure)
		}
		if all := o.answers(a, o.begun); len(all) > 0 && all[0].alone && all[0].digest != (Digest{}) {
			firsts = append(firsts, all[0].digest)
			if a != winner {
				others++
				if all[0].digest.Equal(answer.digest, o.config.Agree, true) {
					equal++
				}
			}
		}
	}
	for _, d := range append(firsts, answer.digest) {
		given[d] = 0
		for _, other := range firsts {
			if d.Equal(other, o.config.Agree, true) {
				given[d]++
			}
		}
	}
	if others > 0 {
		equal /= others
		s.Agreement = &equal
	}
	if n := float64(len(firsts)); n > 1 {
		next := 0.0
		for d, count := range given {
			if !d.Equal(answer.digest, o.config.Agree, true) {
				next = max(next, count/n)
			}
		}
		s.Spread = new(given[answer.digest]/n - next)
	}
	if len(sure) > 0 {
		total := 0.0
		for _, p := range sure {
			total += p
		}
		total /= float64(len(sure))
		s.Confidence = &total
	}
	return s
}

// count returns the number of votes for target that satisfy a condition.
func (o *oracle) count(target string, satisfy func(voter string, vote *line) bool) int {
	n := 0
	for _, voter := range o.config.Agents {
		if vote := o.standing(voter); vote != nil && vote.Action == Vote && vote.Target == target && satisfy(voter, vote) {
			n++
		}
	}
	return n
}

func (o *oracle) freshVotes(target string) int {
	return o.count(target, func(voter string, _ *line) bool { return o.fresh(voter) })
}

func (o *oracle) tally() []count {
	counts := []count{}
	for _, target := range o.config.Agents {
		if n := o.freshVotes(target); n > 0 {
			counts = append(counts, count{Target: target, Votes: n})
		}
	}
	return counts
}

// majority returns the target with the votes of more than half of N.
func (o *oracle) majority() string {
	for _, target := range o.config.Agents {
		if o.freshVotes(target)*2 > len(o.active()) {
			return target
		}
	}
	return ""
}

// plurality implements rule 40.
func (o *oracle) plurality() string { return o.elect(o.votePoints) }

func (o *oracle) votePoints(agent string, _ line) []int {
	fromOthers := func(agent string) int {
		return o.count(agent, func(voter string, _ *line) bool { return o.fresh(voter) && voter != agent })
	}
	pool := o.pool(agent)
	return []int{sum(pool, o.freshVotes), sum(pool, fromOthers), len(pool), o.freshVotes(agent), fromOthers(agent), o.skill(agent)}
}

// skill implements rule 110.
func (o *oracle) skill(agent string) int {
	of := func(a string) int {
		if skill, known := o.config.Skill[a]; known && !o.even {
			return int(skill * 1e6)
		}
		return -1
	}
	greatest := -1
	for _, a := range o.pool(agent) {
		greatest = max(greatest, of(a))
	}
	return 10_000_000*greatest + of(agent)
}

// toldApart reports whether an answer ranks above another one for the skill of its agent alone.
func (o *oracle) toldApart(winner string, points func(string, line) []int) bool {
	if winner == "" {
		return false
	}
	ranked := func(agent string) []int {
		answer, _ := o.latest(agent)
		return o.withChecks(agent, points(agent, answer))
	}
	for _, other := range o.config.Agents {
		if o.given(other) == 0 || slices.Contains(o.pool(winner), other) || o.skill(other) == o.skill(winner) {
			continue
		}
		o.even = true
		behind := slices.Compare(ranked(winner), ranked(other)) <= 0
		if o.even = false; behind {
			return true
		}
	}
	return false
}

// forcedChoice implements rule 41.
func (o *oracle) forcedChoice() string { return o.elect(o.forcedPoints) }

func (o *oracle) forcedPoints(agent string, answer line) []int {
	named := func(agent string) int {
		answer, _ := o.latest(agent)
		return o.count(agent, func(_ string, vote *line) bool { return vote.TargetLabel == answer.Label })
	}
	pool := o.pool(agent)
	return []int{sum(pool, o.freshVotes), sum(pool, named), len(pool), o.freshVotes(agent), named(agent), o.skill(agent), answer.Seq}
}

func sum(agents []string, of func(string) int) int {
	n := 0
	for _, a := range agents {
		n += of(a)
	}
	return n
}

// pool implements rule 74: it returns the agents that gave an equal answer independently.
func (o *oracle) pool(agent string) []string {
	mine, _ := o.latest(agent)
	exact := o.config.Agree == agreeExact
	parts := func(d Digest) (whole, last string) {
		if exact {
			return d.Exact, d.ExactLine
		}
		return d.Normalized, d.NormalizedLine
	}
	lines := true
	for _, a := range o.config.Agents {
		if answer, found := o.latest(a); found {
			_, last := parts(answer.digest)
			lines = lines && last != ""
		}
	}
	pool := []string{agent}
	for _, a := range o.config.Agents {
		answer, found := o.latest(a)
		if a == agent || !found || mine.copied || answer.copied {
			continue
		}
		whole, last := parts(answer.digest)
		whole2, last2 := parts(mine.digest)
		if lines && last == last2 || !lines && whole != "" && whole == whole2 {
			pool = append(pool, a)
		}
	}
	return pool
}
