package coordination

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Limits of checks.
const (
	MaxChecks        = 10  // most checks of an answer; further ones are not run
	MaxSessionChecks = 100 // most checks of a session, those of the user included
)

// check is a check of the session.
type check struct {
	ID     string `json:"id"`               // hash of its command and files
	Author string `json:"author,omitempty"` // empty for the user
	Seen   []Seen `json:"seen,omitempty"`   // the answers of others that were shown to its author
}

// CheckTable has the outcomes of checks on the answers shown to a voter. The order of the
// checks does not reveal their authors.
type CheckTable struct {
	Checks []string   `json:"checks"` // IDs of the columns
	Rows   []CheckRow `json:"rows"`
}

// CheckRow is an answer's row of a CheckTable.
type CheckRow struct {
	Label    string `json:"label"`
	Verdicts string `json:"verdicts"` // verdicts as in Checked, '.' for a check that has not run
}

func (t *CheckTable) clone() *CheckTable {
	if t == nil {
		return nil
	}
	return &CheckTable{Checks: slices.Clone(t.Checks), Rows: slices.Clone(t.Rows)}
}

// verdict is the outcome of a check on an answer.
type verdict byte

// The verdicts. A check that has not run on an answer has none.
const (
	notRun  verdict = '.'
	passes  verdict = '1'
	fails   verdict = '0'
	unknown verdict = '?' // the machine failed, not the answer
)

// checking is a Check in progress.
type checking struct {
	ID     LaunchID `json:"id"`
	Agent  string   `json:"agent"`
	Step   int      `json:"step"`
	Checks []int    `json:"checks"` // indices in State.Checks
}

// keepChecks adds the checks that came with the agent's answer. A check that the same author has
// handed in before is not added again, and keeps the answers that its author had seen then.
func (s *State) keepChecks(a *agent, ids []string, seen []Seen) {
	a.Verdicts = ""
	if s.Config.Ballot == ballotText {
		return
	}
	others := slices.DeleteFunc(slices.Clone(seen), func(n Seen) bool { return n.Agent == a.ID })
	for _, id := range ids[:min(len(ids), MaxChecks)] {
		known := slices.ContainsFunc(s.Checks, func(c check) bool { return c.ID == id && c.Author == a.ID })
		if !known && len(s.Checks) < MaxSessionChecks {
			s.Checks = append(s.Checks, check{ID: id, Author: a.ID, Seen: others})
		}
	}
}

// verdict returns the outcome of the i-th check on the agent's newest answer.
func (a *agent) verdict(i int) verdict {
	if i < len(a.Verdicts) {
		return verdict(a.Verdicts[i])
	}
	return notRun
}

// unchecked returns the indices of the checks that have neither run on the agent's newest answer
// nor been started.
func (s *State) unchecked(a *agent) []int {
	var missing []int
	for i := range s.Checks {
		if a.verdict(i) == notRun {
			missing = append(missing, i)
		}
	}
	return missing
}

// checking reports whether checks on any newest answer are in progress.
func (s *State) checking() bool { return slices.ContainsFunc(s.Agents, s.isChecked) }

// isChecked reports whether checks on the agent's newest answer are in progress.
func (s *State) isChecked(a *agent) bool {
	return a.answered() && slices.ContainsFunc(s.Checkings, func(c checking) bool { return c.Agent == a.ID && c.Step == a.latest() })
}

// startChecks starts the checks of new answers. If all is set or no step runs, it also
// starts, on the other answers, the checks that have been handed in since.
func (s *State) startChecks(all bool) []Check {
	if s.Config.Ballot == ballotText || s.Done() || s.Finale != nil || s.Held() || s.Forced != "" {
		return nil
	}
	all = all || !s.busy()
	var commands []Check
	for _, a := range s.byNumber() {
		missing := s.unchecked(a)
		if !a.answered() || s.isChecked(a) || len(missing) == 0 || a.Verdicts != "" && !all {
			continue
		}
		s.Checkups++
		c := checking{ID: LaunchID("c" + strconv.Itoa(s.Checkups)), Agent: a.ID, Step: a.latest(), Checks: missing}
		s.Checkings = append(s.Checkings, c)
		command := Check{ID: c.ID, Answer: Shown{Agent: a.ID, Number: a.Number, Label: a.latestLabel(), Step: c.Step, Seq: a.Newest}}
		for _, i := range missing {
			command.Checks = append(command.Checks, s.Checks[i].ID)
		}
		commands = append(commands, command)
	}
	return commands
}

// cancelChecks ends the checks that still run, except those that were not handed out.
func (s *State) cancelChecks(unstarted []Check) []Command {
	var commands []Command
	for _, c := range s.Checkings {
		if !slices.ContainsFunc(unstarted, func(u Check) bool { return u.ID == c.ID }) {
			commands = append(commands, Cancel{ID: c.ID})
		}
	}
	s.Checkings = nil
	return commands
}

// checked applies the outcomes in e. Checks without an outcome are unknown.
func (s *State) checked(e Checked) {
	at := slices.IndexFunc(s.Checkings, func(c checking) bool { return c.ID == e.ID })
	if at < 0 {
		s.ignore("checks " + quoted(string(e.ID)) + " ignored: they do not run")
		return
	}
	c := s.Checkings[at]
	s.Checkings = slices.Delete(s.Checkings, at, at+1)
	a := s.agent(c.Agent)
	if a.latest() != c.Step {
		s.ignore("checks of an answer of " + a.ID + " ignored: it was replaced")
		return
	}
	verdicts := []byte(a.Verdicts + strings.Repeat(string(notRun), len(s.Checks)-len(a.Verdicts)))
	counts := map[verdict]int{}
	for n, i := range c.Checks {
		v := unknown
		if n < len(e.Verdicts) && (e.Verdicts[n] == byte(passes) || e.Verdicts[n] == byte(fails)) {
			v = verdict(e.Verdicts[n])
		}
		verdicts[i] = byte(v)
		counts[v]++
	}
	a.Verdicts = string(verdicts)
	text := a.latestLabel() + " passes " + strconv.Itoa(counts[passes]) + " of " + strconv.Itoa(len(c.Checks)) + " check"
	if len(c.Checks) != 1 {
		text += "s"
	}
	if n := counts[unknown]; n > 0 {
		text += ", " + strconv.Itoa(n) + " could not be run"
	}
	s.note(Entry{Kind: EntryChecked, Agent: a.ID, Step: c.Step, Label: a.latestLabel(), Text: text})
}

// broken reports whether a check fails on every answer on which it has run. Such a check is
// ignored.
func (s *State) broken(i int) bool {
	answers := s.agents(func(a *agent) bool { return a.answered() && (a.verdict(i) == passes || a.verdict(i) == fails) })
	return !slices.ContainsFunc(answers, func(a *agent) bool { return a.verdict(i) == passes })
}

// counts reports whether the i-th check counts for the agent's answer: it does if its author is the
// user, or another agent that had been shown no answer of this one.
func (s *State) counts(i int, a *agent) bool {
	c := s.Checks[i]
	return c.Author == "" || c.Author != a.ID && seenStep(c.Seen, a.ID) == 0
}

// score ranks an answer by checks. User is the share, in millionths, of the user's checks
// that it passes. Agents is -1 if the checks of agents favour another answer with the same
// share, and otherwise 0.
type score struct{ user, agents int }

func (x score) compare(y score) int {
	return cmp.Or(cmp.Compare(x.user, y.user), cmp.Compare(x.agents, y.agents))
}

func (s *State) scoreOf(a *agent) score {
	user, _ := s.voice("", a)
	beaten := slices.ContainsFunc(s.agents((*agent).answered), func(other *agent) bool {
		share, _ := s.voice("", other)
		return share == user && s.beats(other, a)
	})
	if beaten {
		return score{user: user, agents: -1}
	}
	return score{user: user}
}

// beats reports whether the answer of a has a higher mean voice than that of b among the agents
// whose checks count for both.
func (s *State) beats(a, b *agent) bool {
	ahead := 0
	for _, author := range s.Agents {
		x, counts := s.voice(author.ID, a)
		y, both := s.voice(author.ID, b)
		if counts && both {
			ahead += x - y
		}
	}
	return ahead > 0
}

// voice returns the share of an author's counting checks that the agent's answer passes, in
// millionths.
func (s *State) voice(author string, a *agent) (share int, known bool) {
	passed, run := 0, 0
	for i, c := range s.Checks {
		if c.Author != author || !s.counts(i, a) || s.broken(i) {
			continue
		}
		switch a.verdict(i) {
		case passes:
			passed, run = passed+1, run+1
		case fails:
			run++
		case notRun, unknown:
		}
	}
	return passed * 1_000_000 / max(run, 1), run > 0
}

// isOutdone reports whether checks decide and rank another answer above the agent's.
func (s *State) isOutdone(a *agent) bool {
	own := s.scoreOf(a)
	return s.Config.Ballot == checksDecide && slices.ContainsFunc(s.agents((*agent).answered), func(other *agent) bool {
		return s.scoreOf(other).compare(own) > 0
	})
}

// preferred returns the target of a majority, or the best answer by checks if checks decide and
// rank another answer higher.
func (s *State) preferred(target *agent) *agent {
	if s.isOutdone(target) {
		return s.best(checksDecide, plurality)
	}
	return target
}

// confirm returns the decision that follows from a majority for target.
func (s *State) confirm(by Basis, target *agent) Decision {
	if winner := s.preferred(target); winner != target {
		return s.decideBy(ByChecks, Plurality, winner)
	}
	return s.decideBy(by, Consensus, target)
}

// passed returns the share of the counting checks that the agent's answer passes, or nil if
// no check counts.
func (s *State) passed(a *agent) *float64 {
	passed, run := 0.0, 0.0
	for i := range s.Checks {
		v := a.verdict(i)
		if !s.counts(i, a) || s.broken(i) || v != passes && v != fails {
			continue
		}
		if run++; v == passes {
			passed++
		}
	}
	if run == 0 {
		return nil
	}
	share := passed / run
	return &share
}

// checkTable returns the outcomes that a step is shown if it may vote, and otherwise nil.
// Equal checks of several authors share a column. The user's checks are shown only with
// show_checks.
func (s *State) checkTable(l Launch) *CheckTable {
	if s.Config.Ballot == ballotText || !l.may(Vote) {
		return nil
	}
	table := &CheckTable{}
	columns := map[string]int{}
	for i, c := range s.Checks {
		if (c.Author != "" || s.Config.ShowChecks) && !s.broken(i) && !slices.Contains(table.Checks, c.ID) {
			columns[c.ID] = i
			table.Checks = append(table.Checks, c.ID)
		}
	}
	if len(columns) == 0 {
		return nil
	}
	slices.Sort(table.Checks)
	for _, shown := range l.Shown {
		row := CheckRow{Label: shown.Label}
		for _, id := range table.Checks {
			row.Verdicts += string(s.agent(shown.Agent).verdict(columns[id]))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}
