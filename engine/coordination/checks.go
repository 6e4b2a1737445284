// Rules 92 to 97: checks.

package coordination

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// checks are the checks of the session and those in progress.
type checks struct {
	Checks    []check    `json:"checks,omitempty"`
	Checkings []checking `json:"checkings,omitempty"` // checks that have not ended
	Checkups  int        `json:"checkups,omitempty"`  // IDs of checkings minted
}

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

// addChecks keeps the checks that came with the agent's answer. A check that the same author has
// handed in before is not added again, and keeps the answers that its author had seen then.
func (c *checks) addChecks(a *agent, ids []string, seen []Seen) {
	others := slices.DeleteFunc(slices.Clone(seen), func(n Seen) bool { return n.Agent == a.ID })
	for _, id := range ids[:min(len(ids), MaxChecks)] {
		known := slices.ContainsFunc(c.Checks, func(k check) bool { return k.ID == id && k.Author == a.ID })
		if !known && len(c.Checks) < MaxSessionChecks {
			c.Checks = append(c.Checks, check{ID: id, Author: a.ID, Seen: others})
		}
	}
}

func (a *agent) verdictOn(i int) verdict {
	if i < len(a.Verdicts) {
		return verdict(a.Verdicts[i])
	}
	return notRun
}

// uncheckedOn returns the checks that have neither run on the agent's newest answer nor been started.
func (c *checks) uncheckedOn(a *agent) []int {
	var missing []int
	for i := range c.Checks {
		if a.verdictOn(i) == notRun {
			missing = append(missing, i)
		}
	}
	return missing
}

func (c *checks) hasChecksRunning(r *roster) bool {
	return slices.ContainsFunc(r.Agents, c.isBeingChecked)
}

func (c *checks) isBeingChecked(a *agent) bool {
	return a.hasAnswer() && slices.ContainsFunc(c.Checkings, func(k checking) bool { return k.Agent == a.ID && k.Step == a.latestStep() })
}

// startChecks starts the checks of new answers. If all is set, it also starts, on the other answers,
// the checks that have been handed in since.
func (c *checks) startChecks(r *roster, all bool) []Check {
	var commands []Check
	for _, a := range r.byNumber() {
		missing := c.uncheckedOn(a)
		if !a.hasAnswer() || c.isBeingChecked(a) || len(missing) == 0 || a.Verdicts != "" && !all {
			continue
		}
		c.Checkups++
		id := LaunchID("c" + strconv.Itoa(c.Checkups))
		c.Checkings = append(c.Checkings, checking{ID: id, Agent: a.ID, Step: a.latestStep(), Checks: missing})
		command := Check{ID: id, Answer: a.shownAnswer()}
		for _, i := range missing {
			command.Checks = append(command.Checks, c.Checks[i].ID)
		}
		commands = append(commands, command)
	}
	return commands
}

// cancelChecks ends the checks that still run, except those that were not handed out.
func (c *checks) cancelChecks(unstarted []Check) []Command {
	var commands []Command
	for _, k := range c.Checkings {
		if !slices.ContainsFunc(unstarted, func(u Check) bool { return u.ID == k.ID }) {
			commands = append(commands, Cancel{ID: k.ID})
		}
	}
	c.Checkings = nil
	return commands
}

// endChecks applies the outcomes in e and returns their entry for the timeline. Checks without an
// outcome are unknown.
func (c *checks) endChecks(r *roster, e Checked) Entry {
	at := slices.IndexFunc(c.Checkings, func(k checking) bool { return k.ID == e.ID })
	if at < 0 {
		return ignoredEntry("checks " + quoteText(string(e.ID)) + " ignored: they do not run")
	}
	ended := c.Checkings[at]
	c.Checkings = slices.Delete(c.Checkings, at, at+1)
	a := r.agentOf(ended.Agent)
	if a.latestStep() != ended.Step {
		return ignoredEntry("checks of an answer of " + a.ID + " ignored: it was replaced")
	}
	verdicts := []byte(a.Verdicts + strings.Repeat(string(notRun), len(c.Checks)-len(a.Verdicts)))
	counts := map[verdict]int{}
	for n, i := range ended.Checks {
		v := unknown
		if n < len(e.Verdicts) && (e.Verdicts[n] == byte(passes) || e.Verdicts[n] == byte(fails)) {
			v = verdict(e.Verdicts[n])
		}
		verdicts[i] = byte(v)
		counts[v]++
	}
	a.Verdicts = string(verdicts)
	text := a.latestLabel() + " passes " + strconv.Itoa(counts[passes]) + " of " + strconv.Itoa(len(ended.Checks)) + " check"
	if len(ended.Checks) != 1 {
		text += "s"
	}
	if n := counts[unknown]; n > 0 {
		text += ", " + strconv.Itoa(n) + " could not be run"
	}
	return Entry{Kind: EntryChecked, Agent: a.ID, Step: ended.Step, Label: a.latestLabel(), Text: text}
}

// isBroken reports whether a check fails on every answer on which it has run. Such a check is ignored.
func (c *checks) isBroken(r *roster, i int) bool {
	answers := r.agentsWhere(func(a *agent) bool { return a.hasAnswer() && (a.verdictOn(i) == passes || a.verdictOn(i) == fails) })
	return !slices.ContainsFunc(answers, func(a *agent) bool { return a.verdictOn(i) == passes })
}

func (c *checks) countsFor(i int, a *agent) bool {
	k := c.Checks[i]
	return k.Author == "" || k.Author != a.ID && seenStep(k.Seen, a.ID) == 0
}

// scoreOf ranks an answer by checks: by the share, in millionths, of the user's checks that it passes, then
// by -1 if another answer with the same share beats it, and otherwise 0.
func (t *tally) scoreOf(a *agent) [2]int {
	user, _ := t.voiceOf(&t.roster, "", a)
	beaten := slices.ContainsFunc(t.agentsWhere((*agent).hasAnswer), func(other *agent) bool {
		share, _ := t.voiceOf(&t.roster, "", other)
		return share == user && t.isBeaten(a, other)
	})
	if beaten {
		return [2]int{user, -1}
	}
	return [2]int{user}
}

// isBeaten reports whether other's answer has the higher voices and, where only checks of the two authors
// say so, a's is not ahead by as many votes.
func (t *tally) isBeaten(a, other *agent) bool {
	independent, voices := 0, 0
	ofA, ofOther := t.countAlike(&t.roster, a), t.countAlike(&t.roster, other)
	for _, author := range t.Agents {
		x, counts := t.voiceOf(&t.roster, author.ID, a)
		y, both := t.voiceOf(&t.roster, author.ID, other)
		if !counts || !both {
			continue
		}
		ahead := y*ofOther - x*ofA
		if voices += ahead; author != a && author != other {
			independent += ahead
		}
	}
	if voices <= 0 || independent > 0 {
		return voices > 0
	}
	mine, theirs := t.pooledVotes(t.equalAnswers(a)), t.pooledVotes(t.equalAnswers(other))
	return cmp.Or(voices-(mine.fresh-theirs.fresh)*1_000_000, theirs.converts-mine.converts, 1) > 0
}

// countAlike returns the number of agents, a among them, that came by themselves to answers with the same
// outcome of every check of agents.
func (c *checks) countAlike(r *roster, a *agent) int {
	return len(r.agentsWhere(func(b *agent) bool {
		if b == a || !b.hasAnswer() || b.Copied || a.Copied {
			return b == a
		}
		for i, k := range c.Checks {
			if k.Author != "" && a.verdictOn(i) != b.verdictOn(i) {
				return false
			}
		}
		return true
	}))
}

// voiceOf returns the share of an author's counting checks that the agent's answer passes, in millionths.
// Its own checks count.
func (c *checks) voiceOf(r *roster, author string, a *agent) (share int, known bool) {
	passed, run := c.countPassed(r, a, func(i int, k check) bool { return k.Author == author && (author == a.ID || c.countsFor(i, a)) })
	return passed * 1_000_000 / max(run, 1), run > 0
}

// passedShare returns nil if no check counts for the agent's answer.
func (c *checks) passedShare(r *roster, a *agent) *float64 {
	passed, run := c.countPassed(r, a, func(i int, _ check) bool { return c.countsFor(i, a) })
	if run == 0 {
		return nil
	}
	return new(float64(passed) / float64(run))
}

func (c *checks) countPassed(r *roster, a *agent, match func(i int, k check) bool) (passed, run int) {
	for i, k := range c.Checks {
		v := a.verdictOn(i)
		if v != passes && v != fails || !match(i, k) || c.isBroken(r, i) {
			continue
		}
		if run++; v == passes {
			passed++
		}
	}
	return passed, run
}

// isOutdone reports whether checks decide and rank another answer above the agent's.
func (t *tally) isOutdone(a *agent) bool {
	own := t.scoreOf(a)
	return t.Config.Ballot == checksDecide && slices.ContainsFunc(t.agentsWhere((*agent).hasAnswer), func(other *agent) bool {
		score := t.scoreOf(other)
		return slices.Compare(score[:], own[:]) > 0
	})
}

// tableFor applies rule 97. Equal checks of several authors share a column.
func (c *checks) tableFor(r *roster, answers []Shown) *CheckTable {
	table := &CheckTable{}
	columns := map[string]int{}
	for i, k := range c.Checks {
		if (k.Author != "" || r.Config.ShowChecks) && !c.isBroken(r, i) && !slices.Contains(table.Checks, k.ID) {
			columns[k.ID] = i
			table.Checks = append(table.Checks, k.ID)
		}
	}
	if len(columns) == 0 {
		return nil
	}
	slices.Sort(table.Checks)
	for _, shown := range answers {
		row := CheckRow{Label: shown.Label}
		for _, id := range table.Checks {
			row.Verdicts += string(r.agentOf(shown.Agent).verdictOn(columns[id]))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}
