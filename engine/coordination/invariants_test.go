package coordination

import (
	"slices"

	"github.com/stretchr/testify/require"
)

// invariants hold in every session and do not depend on the rules' implementation. They only
// compare events and commands.
type invariants struct {
	launched  map[LaunchID]bool
	cancelled map[LaunchID]bool
	checks    map[LaunchID]bool
	epoch     int

	// requests from outside that allow steps beyond the limits
	suspended, retried, outages int
}

func newInvariants() *invariants {
	return &invariants{launched: map[LaunchID]bool{}, cancelled: map[LaunchID]bool{}, checks: map[LaunchID]bool{}}
}

// observe counts the next event.
func (l *invariants) observe(s *session, e Event) {
	switch e := e.(type) {
	case Suspended:
		if slices.Contains(s.runningIDs(), e.Launch) {
			l.suspended++
		}
	case Failed:
		if e.Outage != "" && slices.Contains(s.runningIDs(), e.Launch) {
			l.outages++
		}
	case Reopened:
		if s.state.Refuse(e) == nil {
			l.retried += 2 * len(s.oracle.config.Agents)
			l.suspended += len(s.oracle.config.Agents)
		}
	case Said:
		if s.state.Refuse(e) == nil {
			l.retried += len(s.oracle.config.Agents) // a message allows a further vote
		}
	case Retry:
		if s.state.Refuse(e) == nil {
			l.retried += len(s.oracle.config.Agents)
		}
	}
}

// bound returns the maximum number of launches according to rules 9, 24, 25 and 47. Each attempt
// has the agents' steps, a restart for every answer of a peer, and a final answer and its judgement
// by every agent. Steps that people or workers ask to repeat are added.
func (l *invariants) bound(s *session) int {
	k := s.oracle.config
	n := len(k.Agents)
	attempt := n*k.MaxStepsPerAgent + n*(n-1)*k.MaxStepsPerAgent + n + 1
	attempt += n // steps that a quorum or a decision without them has cut
	return (k.MaxRestarts+1)*attempt + l.suspended + l.retried + l.outages
}

// past is the part of the state before a Drain that the invariants need.
type past struct {
	done    bool
	running []string
	fresh   []string
	news    []string
	due     []string // who resume a step
	last    int      // records before
	away    []string // who are in an outage

	secluded bool
	closing  bool // a final answer is being made
}

func (l *invariants) before(s *session) past {
	o := s.oracle
	those := func(which func(string) bool) []string {
		return slices.DeleteFunc(slices.Clone(o.config.Agents), func(a string) bool { return !which(a) })
	}
	return past{
		closing: o.closing != nil, secluded: o.secluded(), done: s.state.Done(), running: o.running(), fresh: those(o.fresh), news: those(o.news), last: len(s.ledger),
		away: o.inOutage(""), due: those(func(a string) bool { m := o.agents[a]; return m.goesOn() || m.absent }),
	}
}

// check compares the commands of one Drain with the invariants.
func (l *invariants) check(t require.TestingT, s *session, before past, commands []Command) {
	if before.done {
		require.Empty(t, commands, "nothing follows a decision")
		return
	}
	for i, record := range only[Record](commands) {
		require.Equal(t, before.last+i+1, record.Entry.Seq, "records in order, without gaps")
		l.checkRecord(t, s, record.Entry)
	}
	for _, ring := range only[Ring](commands) {
		l.epoch++
		require.Equal(t, l.epoch, ring.Epoch)
	}
	for _, c := range only[Check](commands) {
		require.False(t, l.launched[c.ID])
		require.NotEmpty(t, c.Checks)
		l.checks[c.ID] = true
	}
	for _, cancel := range only[Cancel](commands) {
		if l.checks[cancel.ID] {
			continue
		}
		require.True(t, l.launched[cancel.ID])
		require.False(t, l.cancelled[cancel.ID], "cancelled twice")
		l.cancelled[cancel.ID] = true
	}
	for _, launch := range launches(commands) {
		require.False(t, l.launched[launch.ID], "launched twice")
		l.launched[launch.ID] = true
		l.checkLaunch(t, s, before, launch)
	}
	require.LessOrEqual(t, len(l.launched), l.bound(s))
	l.checkAllowances(t, s, launches(commands))
	done := only[Done](commands)
	require.Equal(t, len(done) > 0, s.state.Done())
	if len(done) > 0 {
		require.Empty(t, launches(commands))
		l.checkDecision(t, s, done[0].Decision)
		if !before.closing { // voters can fail afterwards
			l.checkMajority(t, s, done[0].Decision)
		}
		return
	}
	require.True(t, s.state.Held() || s.oracle.waiting || len(s.runningIDs()) > 0 || s.oracle.isChecking(), "not done, not held, and nothing runs (rule 52)")
}

// checkRecord requires that a ledger entry was possible and within the limits.
func (l *invariants) checkRecord(t require.TestingT, s *session, entry Accepted) {
	k := s.oracle.config
	earlier := s.ledger[:entry.Seq-1]
	answers := func(of string) []Accepted {
		return slices.DeleteFunc(slices.Clone(earlier), func(e Accepted) bool {
			return e.Action != NewAnswer || of != "" && e.Agent != of
		})
	}
	inAttempt := func(some []Accepted) int {
		n := 0
		for _, e := range some {
			if e.Attempt == entry.Attempt {
				n++
			}
		}
		return n
	}
	if entry.Action == NewAnswer && entry.Label == label(s.oracle.number(entry.Agent), len(answers(entry.Agent))+1) {
		require.True(t, k.AnswersGlobal == 0 || inAttempt(answers("")) < k.AnswersGlobal, "over the global limit: %v", entry)
		require.True(t, k.AnswersPerAgent == 0 || k.Mode == Decomposition || inAttempt(answers(entry.Agent)) < k.AnswersPerAgent,
			"over the agent's limit: %v", entry)
	}
	if entry.Action == Vote {
		named := slices.ContainsFunc(answers(entry.Target), func(e Accepted) bool { return e.Label == entry.TargetLabel })
		require.True(t, named, "no such revision: %v", entry)
		require.True(t, s.oracle.voting())
	}
	require.True(t, slices.IsSortedFunc(entry.Seen, bySeen))
	for _, seen := range entry.Seen {
		shown := slices.ContainsFunc(answers(seen.Agent), func(e Accepted) bool { return e.Step >= seen.Step })
		require.True(t, shown && seen.Step > 0, "saw more than was accepted: %v", entry)
	}
}

func (l *invariants) checkLaunch(t require.TestingT, s *session, before past, launch Launch) {
	o, k := s.oracle, s.oracle.config
	require.NotEmpty(t, launch.Offered)
	require.NotContains(t, before.running, launch.Agent, "one step at a time")
	if launch.Purpose != Coordinate {
		require.Empty(t, before.running)
		require.Len(t, o.running(), 1, "the final answer is made alone")
		return
	}
	if revealed := before.secluded && !o.secluded(); !launch.Revote && !revealed {
		require.NotContains(t, before.fresh, launch.Agent, "launched with nothing to look at")
	}
	due := slices.Contains(before.due, launch.Agent)
	busy := slices.DeleteFunc(slices.Clone(before.running), func(a string) bool { return o.agents[a].gone })
	alone := k.Solo || k.Secluded
	if k.Pacing == "continuous" && !alone && !launch.Revote && !due && !slices.Contains(before.news, launch.Agent) {
		require.Empty(t, busy, "launched without news while others work")
	}
	if k.Pacing == "rounds" && !due {
		require.Empty(t, busy, "a wave waits for the one before")
	}
	if !slices.Contains(launch.Offered, NewAnswer) {
		return
	}
	for _, peer := range o.running() {
		if slices.Contains(before.away, peer) || s.oracle.agents[peer].gone {
			continue // rules 54 and 108
		}
		lead := o.given(launch.Agent) + 1 - o.given(peer)
		require.True(t, k.LeadCap == nil || o.given(launch.Agent) == 0 || peer == launch.Agent || lead <= *k.LeadCap,
			"%s may lead %s by %d", launch.Agent, peer, lead)
	}
	may := 0
	for _, a := range o.running() {
		if run := o.agents[a].runs; slices.Contains(run.Offered, NewAnswer) {
			may++
		}
	}
	require.True(t, k.AnswersGlobal == 0 || o.total()+may <= k.AnswersGlobal, "more may answer than there are answers left")
}

// checkAllowances verifies rule 34: shares are equal and not granted twice.
func (l *invariants) checkAllowances(t require.TestingT, s *session, together []Launch) {
	if len(together) == 0 {
		return
	}
	budget, left := s.oracle.config.Budget, s.oracle.left()
	for _, launch := range together {
		given := launch.Allowance
		require.Equal(t, together[0].Allowance, given, "unequal shares")
		require.Equal(t, budget.Tokens > 0, given.Tokens > 0)
		require.Equal(t, budget.USD > 0, given.USD > 0)
	}
	require.True(t, budget.Tokens == 0 || left.Tokens > -int64(len(together)), "promised more tokens than there are: %v", left)
	require.True(t, budget.USD == 0 || left.USD > -1e-9, "promised more than there is: %v", left)
	if len(s.runningIDs()) == len(together) { // nobody else was promised anything
		require.True(t, budget.Tokens == 0 || left.Tokens < int64(len(together)), "kept back: %v", left)
		require.True(t, budget.USD == 0 || left.USD < 1e-9, "kept back: %v", left)
	}
}

// checkDecision requires a winner with an answer, if there is an answer.
func (l *invariants) checkDecision(t require.TestingT, s *session, d Decision) {
	require.Equal(t, d.Status == FailedAll || d.Status == Cancelled, d.Winner == "", "only failed and cancelled sessions have no winner")
	if d.Winner == "" && d.Final != nil {
		require.Empty(t, s.oracle.active(), "nobody is left to decide")
	}
	require.Equal(t, d.Status == FailedAll, d.Cause != "")
	onLedger := func(agent, label string, step int) bool {
		return slices.ContainsFunc(s.ledger, func(e Accepted) bool {
			return e.Action == NewAnswer && e.Agent == agent && e.Label == label && e.Step == step
		})
	}
	if d.Winner != "" {
		require.True(t, onLedger(d.Winner, d.WinnerLabel, d.WinnerStep))
	}
	if d.Final != nil {
		require.True(t, onLedger(d.Final.Agent, d.Final.Label, d.Final.Step))
	}
	require.True(t, d.Asked == "" || d.Cause == "NoAnswer", "asked for, and an answer taken")
	if len(s.oracle.past) > 0 && d.Status != Cancelled {
		require.NotEmpty(t, d.Winner, "the answer of an earlier attempt is lost")
	}
	for _, id := range s.runningIDs() {
		require.True(t, l.cancelled[id], "runs on after the decision")
	}
}

// checkMajority requires that the votes of the ledger do not contradict a consensus.
func (l *invariants) checkMajority(t require.TestingT, s *session, d Decision) {
	require.Equal(t, d.Status == Undecided, d.Despite != "")
	if (d.Status != Consensus && d.Despite != Consensus) || len(s.oracle.past) > 0 {
		return
	}
	votes := map[string]Accepted{}
	for _, e := range s.ledger {
		switch e.Action {
		case Vote:
			votes[e.Agent] = e
		case NewAnswer:
			delete(votes, e.Agent)
		}
	}
	active, behind := s.oracle.active(), 0
	for _, a := range active {
		if votes[a].Target == d.Winner && !slices.Contains(d.Cut, a) { // a step that is cut could change its agent's vote
			behind++
		}
	}
	if d.By == ByAgreement {
		require.Empty(t, votes, "a vote was cast, and equal answers decided")
		return
	}
	require.Greater(t, 2*behind, len(active), "no majority of the votes that were cast and cannot change")
}
