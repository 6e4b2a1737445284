package coordination

import (
	"cmp"
	"slices"
	"strconv"
)

// predict returns the commands of the next Drain and applies them: the ring, then cancels or
// launches, then Done. Records are compared with the ledger, and allowances are verified by the
// invariants.
func (o *oracle) predict() []Command {
	if o.over != nil {
		return nil
	}
	waits := o.waits
	decision, launches := o.decide()
	if o.over = decision; decision != nil {
		o.waiting = false
		commands := append(o.ring(Ending), o.cancels(false)...)
		commands = append(commands, o.cancelChecks()...)
		return append(commands, Done{Decision: *decision})
	}
	commands := o.ring(o.directive())
	if o.paused || o.cuts() {
		commands = append(commands, o.cancels(o.paused && !o.cuts())...)
	}
	place := func(l Launch) int { return slices.Index(o.config.Agents, l.Agent) }
	slices.SortFunc(launches, func(a, b Launch) int { return place(a) - place(b) })
	for _, l := range launches {
		commands = append(commands, l)
		o.waiting = o.waiting && o.quorum != nil
	}
	for _, c := range o.starting {
		commands = append(commands, c)
	}
	o.starting = nil
	if q := o.quorum; q != nil && !q.asked {
		q.asked, o.waiting = true, true
		commands = append(commands, Wait{Seconds: o.config.QuorumGrace, Firsts: true})
	}
	if o.waits > waits {
		commands = append(commands, Wait{Seconds: min(60*o.waits, 600)})
	}
	return commands
}

// wait implements rule 55.
func (o *oracle) wait() (*Decision, []Launch) {
	if !o.waiting {
		o.waiting = true
		o.waits++
	}
	return nil, nil
}

// directive returns the directive for running steps. A cancelled step must be able to read the
// pause until it has ended.
func (o *oracle) directive() Directive {
	ending := slices.ContainsFunc(o.running(), func(a string) bool { return o.agents[a].cancelled })
	switch {
	case o.cuts():
		return Ending
	case o.paused || ending:
		return Pausing
	case o.short || o.spent():
		return WrapUp
	}
	return ""
}

// ring implements rule 22.
func (o *oracle) ring(directive Directive) []Command {
	if o.idle() || directive == o.bell.Directive && !slices.ContainsFunc(o.running(), o.listens) {
		return nil
	}
	o.bell = Ring{Epoch: o.bell.Epoch + 1, Earlier: len(o.past), Answers: o.shown(), Messages: slices.Clone(o.said), Directive: directive}
	return []Command{o.bell}
}

// listens reports whether the agent's running step accepts updates and there is an answer or
// message that it does not know.
func (o *oracle) listens(agent string) bool {
	run := o.agents[agent].runs
	told := func(s Shown) bool {
		rung := &Launch{Shown: o.bell.Answers}
		return s.Agent == agent || shows(run, s) || shows(rung, s)
	}
	answers := run.Updates.Mode != noUpdates && slices.ContainsFunc(o.shown(), func(s Shown) bool { return !told(s) })
	messages := slices.ContainsFunc(o.messages(agent), func(m Message) bool {
		return !slices.Contains(run.Messages, m) && !slices.Contains(o.bell.Messages, m)
	})
	return answers || messages
}

func (o *oracle) cancels(suspend bool) []Command {
	var commands []Command
	for _, a := range o.running() {
		if m := o.agents[a]; !m.cancelled {
			m.cancelled = true
			commands = append(commands, Cancel{ID: m.runs.ID, Suspend: suspend})
		}
	}
	return commands
}

// decide implements rules 30 to 39 in this order.
func (o *oracle) decide() (*Decision, []Launch) {
	k := o.config
	o.part()
	o.fill()
	quorum := o.quorate()
	o.startChecks(quorum != "")
	owing := slices.ContainsFunc(k.Agents, func(a string) bool { return o.able(a) && (o.owes(a) || o.agents[a].retried) })
	switch {
	case o.forced == Cancelled: // rule 66
		return &Decision{Status: Cancelled, Votes: o.tally()}, nil
	case o.closing != nil:
		return o.close()
	case k.OnAgentFailure == "fail" && o.lost():
		return o.nothing("AgentFailed"), nil
	case o.few() && !o.parked() && o.forced == "" && len(o.active())+len(o.inOutage(""))+len(o.absent()) < k.MinActive: // rule 68
		return o.nothing("TooFewAgents"), nil
	case o.quiet() && !o.paused && !o.parked() && o.voting() && !o.secluded() && !o.few() && !owing && o.majority() != "":
		return o.conclude(o.confirm("", o.majority()))
	case o.quiet() && !o.paused && !o.parked() && o.agreement() != "":
		return o.conclude(o.electedBy(ByAgreement, Consensus, o.agreement()))
	case o.forced != "":
		return o.elects(o.forced, o.forcedPoints), nil
	case o.paused:
		return nil, nil
	case quorum != "":
		return o.closeVote(quorum)
	case o.spent() && o.quiet() && !o.parked():
		return o.elects(OverSpent, o.forcedPoints), nil
	case !o.affords():
		return nil, nil
	}
	launches := o.resumed()
	if o.parked() {
		return nil, launches
	}
	if len(o.active()) == 0 && o.quiet() {
		if len(o.inOutage(Interrupted)) > 0 {
			return o.wait()
		}
		return o.conclude(o.elects(Plurality, o.forcedPoints))
	}
	o.stopCapped()
	launches = append(launches, o.withOutages(o.wave())...)
	if len(launches) == 0 && o.quiet() && o.secluded() { // rule 71
		o.open = true
		owing = slices.ContainsFunc(k.Agents, func(a string) bool { return o.able(a) && o.owes(a) })
		if o.voting() && !o.few() && !owing && o.majority() != "" {
			return o.conclude(o.confirm("", o.majority()))
		}
		launches = o.withOutages(o.wave())
	}
	if len(launches) > 0 || !o.quiet() {
		return nil, launches
	}
	return o.settle()
}

// settle implements rules 37 to 39, for when nothing is running and no agent can be launched.
func (o *oracle) settle() (*Decision, []Launch) {
	k := o.config
	switch {
	case o.few() && len(o.inOutage(Interrupted)) == 0:
		o.stranded = true
		return nil, nil
	case o.few():
		return o.wait()
	case slices.ContainsFunc(o.active(), o.owes):
		return o.elects(Limit, o.forcedPoints), nil
	}
	if launches := o.grow(); len(launches) > 0 {
		return nil, launches
	}
	switch {
	case !o.voting():
		return o.conclude(o.presented())
	case k.OnSplit == SplitFail:
		return o.nothing(causeSplit), nil
	case k.OnSplit == splitRevote && o.revotes < k.MaxRevotes && !slices.ContainsFunc(o.active(), func(a string) bool { return o.roundsUp(a, 0) }):
		everybody := slices.DeleteFunc(slices.Clone(k.Agents), func(a string) bool { return !o.able(a) })
		if len(everybody) == 0 {
			return o.elects(Limit, o.forcedPoints), nil
		}
		o.revotes++
		return nil, o.withOutages(o.together(everybody, true))
	}
	return o.conclude(o.elects(Plurality, o.votePoints))
}

// few implements the condition of rule 68.
func (o *oracle) few() bool {
	return o.voting() && o.config.MinActive > 1 && len(o.active()) < o.config.MinActive
}

// withOutages implements rule 54.
func (o *oracle) withOutages(wave []Launch) []Launch {
	if len(wave) == 0 {
		return nil
	}
	o.tryAgain()
	return append(wave, o.resumed()...)
}

// presented implements rule 38.
func (o *oracle) presented() *Decision {
	if a := o.presenter(""); o.given(a) > 0 {
		return o.elected(Presented, a)
	}
	return o.elects(Presented, func(agent string, _ line) []int { return []int{0, o.skill(agent)} })
}

func (o *oracle) elected(status Status, winner string) *Decision {
	return o.electedBy("", status, winner)
}

func (o *oracle) electedBy(by Basis, status Status, winner string) *Decision {
	answer, found := o.latest(winner)
	if !found {
		d := o.nothing("NoAnswer")
		forced := []Status{Finished, Timeout, Limit, OverSpent}
		switch {
		case !slices.Contains(forced, status):
		case d.Winner != "":
			d.Status = status
		default:
			d.Asked = status
		}
		return d
	}
	d := &Decision{Status: status, Winner: winner, WinnerLabel: answer.Label, WinnerStep: answer.Step, Votes: o.tally(), By: by}
	if len(o.active()) == 0 && status != Finished && status != Timeout { // rule 35
		return o.nothing("AllFailed")
	}
	if o.voting() || by == ByAgreement { // rule 84
		d.Support = o.support(winner, answer, by)
	}
	if !o.convinces(d.Support) && status != Finished && status != Timeout { // rule 85
		d.Status, d.Despite = Undecided, status
	}
	return d
}

// nothing returns the decision of a session without a winner, or the decision of an earlier attempt
// (rule 47).
func (o *oracle) nothing(why cause) *Decision {
	if o.fallback != nil {
		d := *o.fallback
		return &d
	}
	d := &Decision{Status: FailedAll, Cause: why, Votes: o.tally()}
	if answer, found := o.latest(o.forcedChoice()); found && len(o.active()) == 0 {
		d.Final = &Shown{Agent: answer.Agent, Number: o.number(answer.Agent), Label: answer.Label, Step: answer.Step}
	}
	return d
}

// presenter implements rule 44.
func (o *oracle) presenter(winner string) string {
	candidates := []string{o.config.Presenter}
	if o.config.Mode == Decomposition {
		backwards := slices.Clone(o.config.Agents)
		slices.Reverse(backwards)
		candidates = append(candidates, backwards...)
	} else {
		candidates = append(candidates, winner)
	}
	for _, a := range candidates {
		if slices.Contains(o.active(), a) {
			return a
		}
	}
	return ""
}

// conclude implements rules 44 to 46. A consensus in the same batch as a forced decision is final.
func (o *oracle) conclude(d *Decision) (*Decision, []Launch) {
	k := o.config
	for _, a := range k.Agents { // rule 108
		if o.agents[a].gone && !slices.Contains(d.Cut, a) {
			d.Cut = append(d.Cut, a)
		}
	}
	by := o.presenter(d.Winner)
	if by == "" || o.total() == 0 || o.spent() || o.forced != "" || d.Status == Undecided {
		return d, nil
	}
	stage := "present"
	asked := k.Mode == Decomposition || k.Strategy != winnerReuse
	if !asked || k.SkipPresentation && (k.Strategy == winnerReuse || k.SkipVoting) {
		stage = o.afterPresenting()
	}
	if stage == "over" {
		return d, nil
	}
	o.closing = &closing{decision: *d, stage: stage, by: by, said: len(o.said)}
	return o.close()
}

// close returns the next move of the finale.
func (o *oracle) close() (*Decision, []Launch) {
	f := o.closing
	by := o.agents[f.by]
	d := f.decision
	switch {
	case o.forced != "": // rule 48
		d.Status = o.forced
		return &d, nil
	case !o.idle() || o.paused || o.parked() && !by.retried:
		return nil, nil
	case f.stage == "over" || by.failed != nil && by.away != Interrupted || o.spent():
		return &d, nil
	case by.failed != nil:
		return o.wait()
	case by.rest != nil && by.rest.Purpose != Coordinate:
		return nil, []Launch{o.resume(f.by)}
	case f.stage == "present":
		return nil, []Launch{o.launch(f.by, Launch{
			Purpose: Present, Round: o.round, Shown: o.shown(), Offered: []Action{NewAnswer}, Brief: o.brief(d),
		})}
	}
	final := o.final(d)
	return nil, []Launch{o.launch(f.by, Launch{
		Purpose: Evaluate, Round: o.round, Final: &final, Offered: []Action{Submit, RestartTeam},
	})}
}

// brief describes a decision to its presenter.
func (o *oracle) brief(d Decision) *Brief {
	v := &Brief{Strategy: o.config.Strategy}
	for _, a := range o.byNumber() {
		l := o.standing(a)
		switch {
		case l == nil || l.silent:
		case l.Action == Stop:
			v.Stops = append(v.Stops, StopNote{Number: o.number(a), Status: l.Status, Summary: l.reason})
		case o.fresh(a):
			v.Voters++
			if l.Target == d.Winner {
				v.Votes++
				if l.reason != "" {
					v.Reasons = append(v.Reasons, l.reason)
				}
			}
		}
	}
	if o.voting() {
		v.Label = d.WinnerLabel
		v.Tied = slices.ContainsFunc(o.config.Agents, func(a string) bool { return a != d.Winner && v.Votes > 0 && o.freshVotes(a) == v.Votes })
	}
	return v
}

// resumed implements rules 21, 24, 25 and 28: it returns the launches of agents that resume at
// once.
func (o *oracle) resumed() []Launch {
	var launches []Launch
	for _, a := range o.config.Agents {
		m := o.agents[a]
		due := m.retried || !o.parked() && (m.rest != nil || m.again)
		if !o.able(a) || !due || m.rest != nil && m.rest.Purpose != Coordinate {
			continue
		}
		offered := o.offered(a, nil)
		missing := func(action Action) bool { return !slices.Contains(offered, action) }
		switch {
		case len(offered) == 0:
			if m.rest != nil {
				m.left = cmp.Or(m.token, m.rest.ResumeFrom)
			}
			m.rest, m.again, m.retried = nil, false, false
		case m.rest != nil && !slices.ContainsFunc(m.rest.Offered, missing):
			launches = append(launches, o.resume(a))
		default:
			round := o.round
			if o.config.Pacing == "continuous" {
				round = m.rounds
			}
			launches = append(launches, o.begin(a, max(1, round), offered, m.retried && o.fresh(a)))
		}
	}
	return launches
}

// stopCapped implements the second half of rule 14.
func (o *oracle) stopCapped() {
	k := o.config
	if k.Pacing == "rounds" && len(o.busy()) > 0 {
		return
	}
	for _, a := range o.config.Agents {
		m := o.agents[a]
		if k.Mode != Decomposition || !o.able(a) || !o.owes(a) || m.rest != nil || o.hasUnread(a, m.heard) {
			continue
		}
		row := k.AnswersPerAgent > 0 && m.row >= k.AnswersPerAgent && !o.peersNew(a)
		if !row && (k.AnswersGlobal == 0 || o.total() < k.AnswersGlobal) {
			continue
		}
		var seen []Seen
		for _, s := range o.shown() {
			seen = append(seen, Seen{Agent: s.Agent, Step: s.Step})
		}
		o.write(line{silent: true, heard: len(o.said), reason: "stopped at its limit of answers", Accepted: Accepted{
			Agent: a, Action: Stop, Status: Complete, Seen: seen,
		}})
	}
}

// wave implements rules 18 to 20.
func (o *oracle) wave() []Launch {
	ready := slices.DeleteFunc(slices.Clone(o.config.Agents), func(a string) bool {
		return !o.able(a) || !o.due(a) || len(o.offered(a, nil)) == 0 || o.leads(a, o.busy())
	})
	alone := o.config.Solo || o.secluded() // rule 72
	news := slices.DeleteFunc(slices.Clone(ready), func(a string) bool {
		return !o.news(a) && !(alone && slices.Contains(o.offered(a, nil), NewAnswer))
	})
	switch {
	case o.config.Pacing == "rounds" && !o.quiet() || !o.affords():
		return nil
	case o.config.Pacing == "continuous" && (len(news) > 0 || !o.quiet()):
		return o.together(news, false)
	}
	return o.together(ready, false)
}

// together launches agents in configured order as far as the shared limits permit.
func (o *oracle) together(agents []string, revote bool) []Launch {
	if !o.affords() {
		return nil
	}
	round, highest := o.round+1, o.round
	var launches []Launch
	for _, a := range agents {
		beside := agents
		if !revote {
			beside = nil
		}
		offered := o.offered(a, beside)
		if len(offered) == 0 {
			continue
		}
		m := o.agents[a]
		m.rounds++
		if o.config.Pacing == "rounds" {
			highest = round // the round begins once all of its steps are offered their actions
			launches = append(launches, o.begin(a, round, offered, revote))
			continue
		}
		highest = max(highest, m.rounds)
		launches = append(launches, o.begin(a, m.rounds, offered, revote))
	}
	o.round = highest
	return launches
}

// begin launches a new step.
func (o *oracle) begin(agent string, round int, offered []Action, revote bool) Launch {
	if o.news(agent) {
		o.agents[agent].row = 0
	}
	k := o.config
	l := Launch{Round: round, Shown: o.shownTo(agent), Offered: offered, Revote: revote}
	deferred := k.DeferUpdates && !k.BeforeChecklist
	if k.Updates != noUpdates && o.given(agent) > 0 && !deferred && !o.secluded() { // rule 23
		l.Updates = Updates{Mode: k.Updates, Most: k.UpdatesPerStep, UntilChecklist: k.DeferUpdates}
	}
	return o.launch(agent, l)
}

func (o *oracle) launch(agent string, l Launch) Launch {
	m := o.agents[agent]
	o.launched++
	l.ID = LaunchID("l" + strconv.Itoa(o.launched))
	l.Agent, l.Number, l.After, l.Messages = agent, o.number(agent), m.step, o.messages(agent)
	l.Answers, l.Given = len(o.answers(agent, 0)), o.given(agent)
	if n := len(o.past); n > 0 {
		l.Previous = &o.past[n-1]
	}
	l.FilesFrom = m.left
	if m.rest != nil { // rule 61
		l.FilesFrom = cmp.Or(m.token, m.rest.ResumeFrom)
	}
	l.Checks = o.checkTable(l)
	l.LongestCall = o.longest
	m.runs, m.rest, m.left, m.again, m.retried = &l, nil, "", false, false
	return l
}

// resume launches a suspended step, or a failed one that is retried, again.
func (o *oracle) resume(agent string) Launch {
	m := o.agents[agent]
	o.launched++
	l := *m.rest
	l.ID, l.After, l.Allowance = LaunchID("l"+strconv.Itoa(o.launched)), m.step, Allowance{}
	if m.token != "" {
		l.ResumeFrom, l.Uncounted = m.token, m.uncounted
	}
	l.LongestCall = o.longest
	m.runs, m.rest, m.left, m.again, m.retried = &l, nil, "", false, false
	return l
}

// affords reports whether the budget is sufficient for another step.
func (o *oracle) affords() bool {
	left, budget := o.left(), o.config.Budget
	return (budget.Tokens == 0 || left.Tokens > 0) && (budget.USD == 0 || left.USD > 0)
}

func (o *oracle) spent() bool {
	cost, budget := o.cost(), o.config.Budget
	return budget.Tokens > 0 && cost.InputTokens+cost.OutputTokens >= budget.Tokens ||
		budget.USD > 0 && known(cost) >= budget.USD
}
