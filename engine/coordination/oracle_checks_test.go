package coordination

import (
	"slices"
	"strconv"
)

// This file is the part of the oracle that predicts checks.

// checkFacts is a check and the agents whose answers its author had been shown.
type checkFacts struct {
	id, author string
	shown      []string
}

// checksOut are checks that are running on an answer.
type checksOut struct {
	id     LaunchID
	agent  string
	step   int
	checks []int
}

// keepChecks implements rule 93.
func (o *oracle) keepChecks(agent string, ids []string, seen []Seen) {
	o.agents[agent].verdicts = nil
	if o.config.Ballot == "" {
		return
	}
	var shown []string
	for _, s := range seen {
		if s.Agent != agent {
			shown = append(shown, s.Agent)
		}
	}
	for i, id := range ids {
		again := slices.ContainsFunc(o.checks, func(c checkFacts) bool { return c.id == id && c.author == agent })
		if i < 10 && !again && len(o.checks) < 100 {
			o.checks = append(o.checks, checkFacts{id: id, author: agent, shown: shown})
		}
	}
}

// isChecking reports whether checks are running on a newest answer.
func (o *oracle) isChecking() bool {
	return slices.ContainsFunc(o.out, func(c checksOut) bool {
		answer, found := o.latest(c.agent)
		return found && answer.Step == c.step
	})
}

func (o *oracle) quiet() bool { return len(o.busy()) == 0 && !o.isChecking() }

// startChecks implements rule 92.
func (o *oracle) startChecks(quorum bool) {
	held := o.paused || o.parked() || o.forced != "" || o.closing != nil
	if o.config.Ballot == "" || held {
		return
	}
	for _, a := range o.byNumber() {
		answer, found := o.latest(a)
		m := o.agents[a]
		checked := slices.ContainsFunc(o.out, func(c checksOut) bool { return c.agent == a && c.step == answer.Step })
		if !found || checked || len(m.verdicts) > 0 && !quorum && len(o.busy()) > 0 {
			continue
		}
		c := checksOut{agent: a, step: answer.Step}
		command := Check{Answer: Shown{Agent: a, Number: o.number(a), Label: answer.Label, Step: answer.Step, Seq: answer.Seq}}
		for i, known := range o.checks {
			if m.verdicts[i] == 0 {
				c.checks, command.Checks = append(c.checks, i), append(command.Checks, known.id)
			}
		}
		if len(c.checks) == 0 {
			continue
		}
		o.checkups++
		c.id = LaunchID("c" + strconv.Itoa(o.checkups))
		command.ID = c.id
		o.out, o.starting = append(o.out, c), append(o.starting, command)
	}
}

func (o *oracle) takeChecked(e Checked) {
	i := slices.IndexFunc(o.out, func(c checksOut) bool { return c.id == e.ID })
	if i < 0 {
		return
	}
	c := o.out[i]
	o.out = slices.Delete(o.out, i, i+1)
	if answer, found := o.latest(c.agent); !found || answer.Step != c.step {
		return
	}
	m := o.agents[c.agent]
	if m.verdicts == nil {
		m.verdicts = map[int]byte{}
	}
	for n, i := range c.checks {
		m.verdicts[i] = '?'
		if n < len(e.Verdicts) && (e.Verdicts[n] == '0' || e.Verdicts[n] == '1') {
			m.verdicts[i] = e.Verdicts[n]
		}
	}
}

// cancelChecks cancels all running checks.
func (o *oracle) cancelChecks() []Command {
	var commands []Command
	for _, c := range o.out {
		if !slices.ContainsFunc(o.starting, func(s Check) bool { return s.ID == c.id }) {
			commands = append(commands, Cancel{ID: c.id})
		}
	}
	o.out, o.starting = nil, nil
	return commands
}

// useful implements rule 94: a check is useful if it has passed on some answer.
func (o *oracle) useful(i int) bool {
	return slices.ContainsFunc(o.config.Agents, func(a string) bool { return o.given(a) > 0 && o.agents[a].verdicts[i] == '1' })
}

// checked counts the checks of an author that count for the agent's answer: those that passed, and
// all that ran.
func (o *oracle) checked(author, agent string) (passed, run int) {
	if author == agent {
		return 0, 0
	}
	return o.heard(author, agent)
}

// heard counts the same with the author's checks of its own answer.
func (o *oracle) heard(author, agent string) (passed, run int) {
	for i, c := range o.checks {
		counts := c.author == "" || !slices.Contains(c.shown, agent)
		v := o.agents[agent].verdicts[i]
		if c.author != author || !counts || !o.useful(i) || v != '0' && v != '1' {
			continue
		}
		if run++; v == '1' {
			passed++
		}
	}
	return passed, run
}

// rank implements rule 95.
func (o *oracle) rank(agent string) []int {
	share := func(passed, run int) int { return passed * 1_000_000 / max(run, 1) }
	user := share(o.checked("", agent))
	for _, other := range o.config.Agents {
		if o.given(other) == 0 || share(o.checked("", other)) != user {
			continue
		}
		var own, others, between int
		for _, author := range o.config.Agents {
			passed, run := o.heard(author, agent)
			theirs, ran := o.heard(author, other)
			if run == 0 || ran == 0 {
				continue
			}
			mine, against := share(passed, run)*o.likes(agent), share(theirs, ran)*o.likes(other)
			own, others = own+mine, others+against
			if author != agent && author != other {
				between += against - mine
			}
		}
		lead := sum(o.pool(agent), o.freshVotes) - sum(o.pool(other), o.freshVotes)
		held := lead*1_000_000 > others-own || lead*1_000_000 == others-own && o.persuaded(agent) > o.persuaded(other)
		if others > own && (between > 0 || !held) {
			return []int{user, -1}
		}
	}
	return []int{user, 0}
}

// persuaded counts the fresh votes for an answer from agents that did not give it.
func (o *oracle) persuaded(agent string) int {
	pool := o.pool(agent)
	return sum(pool, func(a string) int {
		return o.count(a, func(voter string, _ *line) bool { return o.fresh(voter) && !slices.Contains(pool, voter) })
	})
}

// likes counts the agents with answers that behave alike, by rule 95.
func (o *oracle) likes(agent string) int {
	n := 1
	for _, other := range o.config.Agents {
		mine, _ := o.latest(agent)
		theirs, found := o.latest(other)
		same := found && other != agent && !mine.copied && !theirs.copied
		for i, check := range o.checks {
			same = same && (check.author == "" || o.agents[agent].verdicts[i] == o.agents[other].verdicts[i])
		}
		if same {
			n++
		}
	}
	return n
}

// withChecks implements rule 96: it inserts the rank by checks after the votes in the points of an
// answer.
func (o *oracle) withChecks(agent string, points []int) []int {
	switch {
	case o.blind:
		return points
	case o.config.Ballot == checksDecide:
		return slices.Concat(o.rank(agent), points)
	case o.config.Ballot == checksBreakTies:
		return slices.Concat(points[:1], o.rank(agent), points[1:])
	}
	return points
}

// elects returns the decision for the answer with the most points, which checks and skill may have changed.
func (o *oracle) elects(status Status, points func(string, line) []int) *Decision {
	winner := o.elect(points)
	o.blind = true
	plain := o.elect(points)
	o.blind = false
	switch {
	case winner != plain:
		return o.electedBy(ByChecks, status, winner)
	case o.toldApart(winner, points):
		return o.electedBy(BySkill, status, winner)
	}
	return o.elected(status, winner)
}

// outdone reports whether checks prefer another answer.
func (o *oracle) outdone(agent string) bool {
	return o.config.Ballot == checksDecide && slices.ContainsFunc(o.config.Agents, func(a string) bool {
		return o.given(a) > 0 && slices.Compare(o.rank(a), o.rank(agent)) > 0
	})
}

func (o *oracle) confirm(by Basis, target string) *Decision {
	if o.outdone(target) {
		return o.electedBy(ByChecks, Plurality, o.plurality())
	}
	return o.electedBy(by, Consensus, target)
}

func (o *oracle) passedShare(agent string) *float64 {
	passed, run := o.checked("", agent)
	for _, author := range o.config.Agents {
		p, r := o.checked(author, agent)
		passed, run = passed+p, run+r
	}
	if run == 0 {
		return nil
	}
	share := float64(passed) / float64(run)
	return &share
}

// checkTable implements rule 97.
func (o *oracle) checkTable(l Launch) *CheckTable {
	if o.config.Ballot == "" || !slices.Contains(l.Offered, Vote) {
		return nil
	}
	table, first := &CheckTable{}, map[string]int{}
	for i, c := range o.checks {
		if _, known := first[c.id]; !known && (c.author != "" || o.config.ShowChecks) && o.useful(i) {
			first[c.id] = i
			table.Checks = append(table.Checks, c.id)
		}
	}
	if len(table.Checks) == 0 {
		return nil
	}
	slices.Sort(table.Checks)
	for _, s := range l.Shown {
		row := CheckRow{Label: s.Label}
		for _, id := range table.Checks {
			v := o.agents[s.Agent].verdicts[first[id]]
			if v == 0 {
				v = '.'
			}
			row.Verdicts += string(rune(v))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}
