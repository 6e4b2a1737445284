package coordination

import (
	"cmp"
	"slices"
	"strconv"

	"conclave/engine/llm"
)

// oracle is a second implementation of the rules in the package comment. It records every accepted
// action as a line in a book, and derives all facts by reading the book from its first line. It
// shares only the exported types with the package. This file derives facts, oracle_step_test.go
// adds lines, and oracle_drain_test.go predicts the next Drain.
type oracle struct {
	config Config // as New reads it

	book   []line
	begun  int // lines of earlier attempts
	agents map[string]*agentFacts
	said   []Message

	paused, short bool
	open          bool // secluded agents are shown all answers
	waiting       bool
	stranded      bool
	waits         int // in a row
	places        int // of a staged team
	quorum        *quorumFacts
	checks        []checkFacts
	out           []checksOut // that have not ended
	starting      []Check     // by the next Drain
	checkups      int
	blind         bool // answers rank without checks
	even          bool // answers rank without skill
	before        int  // rounds of earlier attempts
	forced        Status
	launched      int // launch IDs
	longest       float64
	revotes       int
	round         int
	closing       *closing
	past          []RejectedAnswer
	fallback      *Decision // of the last rejected attempt
	bell          Ring
	over          *Decision
}

// quorumFacts is a majority that waits for first answers.
type quorumFacts struct {
	label string
	asked bool // the wait was asked for
	over  bool
}

// line is one accepted action, or a stop by the session, which is not in the ledger.
type line struct {
	Accepted
	heard  int
	reason string // as it is kept
	final  bool   // a presented answer
	digest Digest // of an answer
	copied bool   // its author was shown an equal one
	alone  bool   // its author was shown no answer of another agent
	sure   *float64
	silent bool // not on the ledger
}

// agentFacts has the facts about an agent that are not in the book.
type agentFacts struct {
	runs      *Launch
	out, gone bool // its model is in an outage; the others go on without it
	cancelled bool
	step      int // number of the last finished step
	ended     int // steps of this attempt that count
	failed    *Failure
	away      Outage
	void      int // lines of the book when it failed last
	ran       bool
	known     map[string]int // the answers shown to its last finished step
	heard     int
	row       int // answers in a row without anything new to it
	rounds    int
	before    int // rounds of earlier attempts
	absent    bool
	again     bool
	retried   bool
	rest      *Launch
	left      string // token of a step that is not resumed but passes on its files
	token     string
	uncounted bool // no event has counted the usage of rest
	late      bool // rest came to an action after the decision
	used      llm.Usage
	verdicts  map[int]byte // of the checks on its newest answer
}

// closing is a decision whose final answer is in progress.
type closing struct {
	decision Decision
	stage    string // present, judge, over
	by       string
	said     int // messages before it
}

func newOracle(s *State) *oracle {
	o := &oracle{config: s.Config, agents: map[string]*agentFacts{}}
	for _, id := range s.Config.Agents {
		o.agents[id] = &agentFacts{}
	}
	if k := o.config; k.Start > 0 && k.Mode == voting { // rule 79
		o.places = min(len(k.Agents), max(k.Start, k.MinActive))
		for _, id := range k.Agents[o.places:] {
			o.agents[id].absent = true
		}
	}
	for _, id := range o.config.Checks {
		o.checks = append(o.checks, checkFacts{id: id})
	}
	return o
}

// number implements rule 1.
func (o *oracle) number(agent string) int {
	n := 1
	for _, other := range o.config.Agents {
		if other < agent {
			n++
		}
	}
	return n
}

func (o *oracle) byNumber() []string { return slices.Sorted(slices.Values(o.config.Agents)) }

// ledger returns the book without stops by the session.
func (o *oracle) ledger() []Accepted {
	var ledger []Accepted
	for _, l := range o.book {
		if !l.silent {
			ledger = append(ledger, l.Accepted)
		}
	}
	return ledger
}

// answers returns the agent's answers in the book, starting with line from.
func (o *oracle) answers(agent string, from int) []line {
	var answers []line
	for _, l := range o.book[from:] {
		if l.Agent == agent && l.Action == NewAnswer && !l.final {
			answers = append(answers, l)
		}
	}
	return answers
}

func (o *oracle) given(agent string) int { return len(o.answers(agent, o.begun)) }

func (o *oracle) latest(agent string) (line, bool) {
	answers := o.answers(agent, o.begun)
	if len(answers) == 0 {
		return line{}, false
	}
	return answers[len(answers)-1], true
}

func (o *oracle) total() int {
	n := 0
	for _, a := range o.config.Agents {
		n += o.given(a)
	}
	return n
}

// shown implements rule 4.
func (o *oracle) shown() []Shown {
	var shown []Shown
	for _, a := range o.byNumber() {
		if answer, found := o.latest(a); found {
			shown = append(shown, Shown{Agent: a, Number: o.number(a), Label: answer.Label, Step: answer.Step, Seq: answer.Seq})
		}
	}
	return shown
}

// secluded implements rule 69.
func (o *oracle) secluded() bool { return o.config.Secluded && o.config.Mode == voting && !o.open }

// shownTo returns the answers that the agent may be shown.
func (o *oracle) shownTo(agent string) []Shown {
	var shown []Shown
	for _, s := range o.shown() {
		if s.Agent == agent || !o.secluded() {
			shown = append(shown, s)
		}
	}
	return shown
}

func (o *oracle) messages(agent string) []Message {
	var messages []Message
	for _, m := range o.said {
		if m.Agent == "" || m.Agent == agent {
			messages = append(messages, m)
		}
	}
	return messages
}

// standing returns the agent's vote or stop: its last action in this attempt, unless the agent has
// failed since.
func (o *oracle) standing(agent string) *line {
	var last *line
	for i := max(o.begun, o.agents[agent].void); i < len(o.book); i++ {
		l := &o.book[i]
		if l.Agent != agent || l.final || l.Action == Say {
			continue
		}
		if last = l; l.Action == NewAnswer {
			last = nil
		}
	}
	return last
}

// stale implements rule 16.
func (o *oracle) stale(agent string, l *line) bool {
	for _, other := range o.config.Agents {
		saw := 0
		for _, s := range l.Seen {
			if s.Agent == other {
				saw = s.Step
			}
		}
		if answer, found := o.latest(other); found && saw < answer.Step && (other == agent || !o.secluded()) {
			return true
		}
	}
	return o.hasUnread(agent, l.heard)
}

// hasUnread reports whether a message to the agent from before the decision is unread.
func (o *oracle) hasUnread(agent string, heard int) bool {
	counted := len(o.said)
	if o.closing != nil {
		counted = o.closing.said
	}
	return slices.ContainsFunc(o.messages(agent), func(m Message) bool { return heard < m.Number && m.Number <= counted })
}

func (o *oracle) fresh(agent string) bool {
	l := o.standing(agent)
	return l != nil && !o.stale(agent, l)
}

func (o *oracle) active() []string {
	return slices.DeleteFunc(slices.Clone(o.config.Agents), func(a string) bool { m := o.agents[a]; return m.failed != nil || m.absent || m.gone })
}

// absent returns the agents that have not joined.
func (o *oracle) absent() []string {
	return slices.DeleteFunc(slices.Clone(o.config.Agents), func(a string) bool { return !o.agents[a].absent })
}

func (o *oracle) running() []string {
	return slices.DeleteFunc(slices.Clone(o.config.Agents), func(a string) bool { return o.agents[a].runs == nil })
}

func (o *oracle) idle() bool { return len(o.running()) == 0 }

// busy returns the agents for whose running steps the others wait.
func (o *oracle) busy() []string {
	return slices.DeleteFunc(o.running(), func(a string) bool { return o.agents[a].gone })
}

// inOutage returns the agents in an outage of the given kind, or of any kind if it is empty.
func (o *oracle) inOutage(kind Outage) []string {
	return slices.DeleteFunc(slices.Clone(o.config.Agents), func(a string) bool {
		away := o.agents[a].away
		return away == "" || kind != "" && away != kind
	})
}

// lost reports whether an agent has failed permanently.
func (o *oracle) lost() bool {
	return slices.ContainsFunc(o.config.Agents, func(a string) bool { m := o.agents[a]; return m.failed != nil && m.away == "" })
}

// parked implements rules 27, 56 and 68.
func (o *oracle) parked() bool {
	if o.config.OnAgentFailure == "park" && o.lost() {
		return true
	}
	if o.stranded { // rule 68
		return true
	}
	everybody := len(o.active()) == 0 && len(o.inOutage("")) > 0
	return everybody && o.closing == nil && len(o.inOutage(Interrupted)) == 0
}

// voting implements rule 15.
func (o *oracle) voting() bool {
	k := o.config
	if k.Mode == Decomposition || k.SkipVoting {
		return false
	}
	return k.Strategy != synthesize || k.AnswersPerAgent != 1 || k.DeferVoting || len(k.Agents) <= 1
}

// owes implements rules 14 and 15.
func (o *oracle) owes(agent string) bool {
	if o.config.Mode == Decomposition || o.voting() {
		return !o.fresh(agent)
	}
	return o.given(agent) == 0
}

// due implements rule 18: it reports whether the agent owes an action or, if nobody votes, has an
// unread message and may answer again.
func (o *oracle) due(agent string) bool {
	k := o.config
	if o.secluded() && o.given(agent) > 0 { // rule 70
		own := k.AnswersPerAgent > 0 && o.given(agent) >= k.AnswersPerAgent
		if own || k.AnswersGlobal > 0 && o.total() >= k.AnswersGlobal {
			return false
		}
	}
	if o.owes(agent) || o.voting() || k.Mode == Decomposition {
		return o.owes(agent)
	}
	own := k.AnswersPerAgent == 0 || o.given(agent) < k.AnswersPerAgent
	all := k.AnswersGlobal == 0 || o.total() < k.AnswersGlobal
	return o.hasUnread(agent, o.agents[agent].heard) && own && all
}

func (o *oracle) able(agent string) bool {
	m := o.agents[agent]
	if m.failed != nil || m.absent || m.runs != nil {
		return false
	}
	return m.goesOn() || !o.exhausted(agent) || o.votesOrStops() && o.owes(agent) && o.hasUnread(agent, m.heard)
}

// exhausted reports whether the agent has used all its steps or rounds.
func (o *oracle) exhausted(agent string) bool {
	return o.agents[agent].ended >= o.config.MaxStepsPerAgent || o.roundsUp(agent, 0)
}

func (o *oracle) votesOrStops() bool { return o.voting() || o.config.Mode == Decomposition }

// goesOn reports whether the agent resumes its step or starts it again in the same round.
func (m *agentFacts) goesOn() bool { return m.rest != nil || m.again || m.retried }

// roundsUp reports whether the agent will have used all its rounds after the given number of
// further ones (rule 75).
func (o *oracle) roundsUp(agent string, more int) bool {
	used := o.round - o.before
	if o.config.Pacing == "continuous" {
		used = o.agents[agent].rounds - o.agents[agent].before
	}
	return o.config.MaxRounds > 0 && !o.agents[agent].absent && used+more >= o.config.MaxRounds
}

// deferring implements the condition of rule 13.
func (o *oracle) deferring() bool {
	k := o.config
	if !k.DeferVoting && !o.unvoted() || k.AnswersGlobal > 0 && o.total() >= k.AnswersGlobal {
		return false
	}
	return slices.ContainsFunc(o.active(), func(a string) bool {
		m := o.agents[a]
		if m.runs != nil {
			return o.given(a) == 0 && slices.Contains(m.runs.Offered, NewAnswer)
		}
		return o.given(a) == 0 && (m.goesOn() || !o.exhausted(a))
	})
}

// leads implements rule 12: it reports whether one more answer would put the agent above the cap
// relative to one of the peers.
func (o *oracle) leads(agent string, peers []string) bool {
	if o.config.LeadCap == nil || o.given(agent) == 0 {
		return false
	}
	return slices.ContainsFunc(peers, func(p string) bool {
		return p != agent && o.given(agent)+1-o.given(p) > *o.config.LeadCap
	})
}

// working returns the agents that are running or can be launched (rules 18 and 21).
func (o *oracle) working() []string {
	return slices.DeleteFunc(slices.Clone(o.config.Agents), func(a string) bool {
		m := o.agents[a]
		goesOn := m.rest != nil && m.rest.Purpose == Coordinate || m.again || m.retried
		return (m.runs == nil || m.gone) && !(o.able(a) && (o.due(a) || goesOn))
	})
}

// offered implements rules 11 to 14 for an agent that is launched together with others.
func (o *oracle) offered(agent string, beside []string) []Action {
	k := o.config
	reserved := 0
	for _, a := range o.running() {
		if run := o.agents[a].runs; run.Purpose == Coordinate && slices.Contains(run.Offered, NewAnswer) {
			reserved++
		}
	}
	var offered []Action
	switch {
	case k.AnswersGlobal > 0 && o.total()+reserved >= k.AnswersGlobal:
	case k.AnswersPerAgent > 0 && k.Mode == voting && o.given(agent) >= k.AnswersPerAgent:
	case o.given(agent) > 0 && o.deferring():
	case o.agents[agent].ended >= k.MaxStepsPerAgent || !o.agents[agent].goesOn() && o.roundsUp(agent, 0): // rule 103
	case o.given(agent) > 0 && o.inLastRound(agent) && (k.Mode == Decomposition || o.voting()):
	case o.leads(agent, append(o.working(), beside...)):
	default:
		offered = append(offered, NewAnswer)
	}
	if k.Mode == Decomposition {
		return append(offered, Stop)
	}
	if o.voting() && len(o.shownTo(agent)) > 0 && !o.deferring() {
		offered = append(offered, Vote)
	}
	return offered
}

// inLastRound reports whether the agent's next step belongs to its last round.
func (o *oracle) inLastRound(agent string) bool {
	if o.agents[agent].goesOn() {
		return o.roundsUp(agent, 0)
	}
	return o.roundsUp(agent, 1)
}

// unvoted implements the condition of rule 82: first answers can decide.
func (o *oracle) unvoted() bool {
	k := o.config
	voted := func(a string) bool { l := o.standing(a); return l != nil && l.Action == Vote }
	return k.Early && k.Mode == voting && !k.Secluded && !slices.ContainsFunc(k.Agents, voted)
}

// peersNew reports whether peers have answers that the agent's last step was not shown.
func (o *oracle) peersNew(agent string) bool {
	return slices.ContainsFunc(o.shownTo(agent), func(s Shown) bool {
		return s.Agent != agent && s.Step > o.agents[agent].known[s.Agent]
	})
}

// news implements the condition of rule 20.
func (o *oracle) news(agent string) bool {
	m := o.agents[agent]
	return !m.ran || o.peersNew(agent) || o.hasUnread(agent, m.heard)
}

// repeats reports whether an answer equals an answer of a peer that its author was shown (rule 73).
func (o *oracle) repeats(agent string, d Digest, seen []Seen) bool {
	for _, s := range seen {
		theirs, found := o.latest(s.Agent)
		if s.Agent == agent || !found || s.Step != theirs.Step {
			continue
		}
		whole, last, whole2, last2 := d.Normalized, d.NormalizedLine, theirs.digest.Normalized, theirs.digest.NormalizedLine
		if o.config.Agree == agreeExact {
			whole, last, whole2, last2 = d.Exact, d.ExactLine, theirs.digest.Exact, theirs.digest.ExactLine
		}
		both := last != "" && last2 != ""
		if both && last == last2 || !both && whole != "" && whole == whole2 {
			return true
		}
	}
	return false
}

// elect returns the agent with the highest score. Ties are decided for the agent configured first.
func (o *oracle) elect(score func(agent string, answer line) []int) string {
	best, top := "", []int(nil)
	for _, agent := range o.config.Agents {
		answer, found := o.latest(agent)
		if !found {
			continue
		}
		if points := o.withChecks(agent, score(agent, answer)); best == "" || slices.Compare(points, top) > 0 {
			best, top = agent, points
		}
	}
	return best
}

// cost implements rule 10.
func (o *oracle) cost() llm.Usage {
	var sum llm.Usage
	for _, a := range o.config.Agents {
		sum = sum.Add(o.agents[a].used)
	}
	return sum
}

// left returns the part of the budget that is neither spent nor granted.
func (o *oracle) left() Allowance {
	cost, budget := o.cost(), o.config.Budget
	left := Allowance{}
	if budget.Tokens > 0 {
		left.Tokens = budget.Tokens - cost.InputTokens - cost.OutputTokens
	}
	if budget.USD > 0 {
		left.USD = budget.USD - known(cost)
	}
	for _, a := range o.running() {
		promised := o.agents[a].runs.Allowance
		left.Tokens -= promised.Tokens
		left.USD -= promised.USD
	}
	return left
}

// known returns the known part of a cost.
func known(u llm.Usage) float64 {
	if u.TotalUSD != nil {
		return *u.TotalUSD
	}
	return u.KnownUSD
}

func label(number, m int) string { return "agent" + strconv.Itoa(number) + "." + strconv.Itoa(m) }

func bySeen(a, b Seen) int { return cmp.Compare(a.Agent, b.Agent) }
