package coordination

import (
	"slices"
	"strings"
	"unicode/utf8"

	"conclave/engine/llm"
)

// take adds an event to the book.
func (o *oracle) take(event Event) {
	switch e := event.(type) {
	case nil:
	case TimeShort:
		o.short = true
	case TimeUp:
		o.force(Timeout)
	case Waited:
		switch {
		case o.waiting && o.quorum != nil:
			o.quorum.over = true
		case o.waiting:
			o.tryAgain()
		}
		o.waiting = false
	case Checked:
		o.takeChecked(e)
	case CancelRequested: // rule 66
		if o.over == nil {
			o.forced = Cancelled
		}
	case Finish, Pause, Resume, Retry, Said:
		if !o.senseless(e) {
			o.obey(e)
		}
	case ModelReport:
		for _, a := range o.running() {
			if m := o.agents[a]; o.over == nil && m.runs.ID == e.Launch && m.runs.Purpose == Coordinate {
				m.out = e.Out != nil
				m.gone = m.gone && m.out
			}
		}
	case Reopened: // the session has asked rule 62 before
		o.reopen(e)
	default:
		o.takeEnd(event)
	}
}

func (o *oracle) force(status Status) {
	if o.forced == "" {
		o.forced = status
	}
}

// senseless implements rule 29.
func (o *oracle) senseless(event Event) bool {
	if o.over != nil || o.forced != "" {
		return true
	}
	failed := func(a string) bool { return o.agents[a].failed != nil }
	unknown := func(a string) bool { return !slices.Contains(o.config.Agents, a) }
	switch e := event.(type) {
	case Pause:
		return o.paused
	case Resume:
		return !o.paused
	case Retry:
		if e.Agent == "" {
			return !slices.ContainsFunc(o.config.Agents, failed)
		}
		return unknown(e.Agent) || !failed(e.Agent)
	case Said:
		if strings.TrimSpace(e.Text) == "" || len(e.Text) > 4096 || len(o.said) >= 100 {
			return true
		}
		return e.Agent != "" && (unknown(e.Agent) || o.deaf(e.Agent))
	}
	return false
}

// deaf implements rule 104: it reports whether the agent takes no further step.
func (o *oracle) deaf(agent string) bool {
	m, k := o.agents[agent], o.config
	switch {
	case o.closing != nil:
		return agent != o.closing.by && o.afterPresenting() == "over"
	case m.absent:
		return true
	case m.failed != nil:
		return m.away == "" && !o.parked()
	case o.votesOrStops() || m.absent || m.runs != nil || m.goesOn():
		return false
	}
	own := k.AnswersPerAgent > 0 && o.given(agent) >= k.AnswersPerAgent
	return o.exhausted(agent) || own || k.AnswersGlobal > 0 && o.total() >= k.AnswersGlobal
}

func (o *oracle) obey(event Event) {
	switch e := event.(type) {
	case Finish:
		o.force(Finished)
	case Pause:
		o.paused = true
	case Resume:
		o.paused = false
	case Retry: // rule 28
		for _, a := range o.config.Agents {
			m := o.agents[a]
			if m.failed != nil && (e.Agent == "" || e.Agent == a) {
				o.stranded = false
				m.revive()
			}
		}
	case Said: // rule 26
		o.said = append(o.said, Message{Number: len(o.said) + 1, Agent: e.Agent})
		o.write(line{Accepted: Accepted{
			Action: Say, Agent: e.Agent, Message: len(o.said), Text: strings.ToValidUTF8(e.Text, string(utf8.RuneError)),
		}})
	}
}

func (o *oracle) reopen(e Reopened) {
	o.goOn(e)
	if e.Text != "" {
		o.obey(Said{Agent: e.Agent, Text: e.Text})
	}
}

// goOn implements rules 63 to 65 and 105.
func (o *oracle) goOn(e Reopened) {
	failed := func(a string) bool { return o.agents[a].failed != nil }
	again := o.over != nil && o.over.Status == Undecided && e.Text == "" && !slices.ContainsFunc(o.config.Agents, failed)
	o.over, o.forced, o.short, o.paused, o.waiting, o.waits = nil, "", false, false, false, 0
	o.stranded = false
	o.bell, o.quorum, o.out = Ring{Epoch: o.bell.Epoch}, nil, nil
	for _, a := range o.config.Agents {
		m := o.agents[a]
		if m.runs != nil {
			m.rest, m.late, m.uncounted = m.runs, true, true
			m.runs, m.cancelled, m.out, m.gone = nil, false, false, false
		}
		if m.rest != nil && m.late {
			m.token, m.late = e.Run+"-"+string(m.rest.ID), false
			if slices.Contains(e.Unclaimed, m.rest.ID) {
				m.token = ""
			}
		}
		if m.failed != nil && (e.Agent == "" || e.Agent == a || e.Text != "") {
			m.revive()
		}
		m.retried = m.retried || again && !m.absent
	}
}

// revive makes a failed agent active.
func (m *agentFacts) revive() {
	m.failed, m.away, m.retried = nil, "", true
	if m.rest != nil && m.rest.Purpose == Coordinate {
		m.ended--
	}
}

// tryAgain implements rule 53.
func (o *oracle) tryAgain() {
	for _, a := range o.inOutage("") {
		o.agents[a].revive()
	}
}

// write adds a line to the book.
func (o *oracle) write(l line) {
	if !l.silent {
		l.Seq = len(o.ledger()) + 1
		if len(o.past) > 0 {
			l.Attempt = len(o.past) + 1
		}
	}
	o.book = append(o.book, l)
}

// takeEnd implements rule 3: the first event that names a running launch ends it.
func (o *oracle) takeEnd(event Event) {
	end := endOf(event)
	for _, agent := range o.config.Agents {
		m := o.agents[agent]
		if m.runs == nil || m.runs.ID != end.launch {
			continue
		}
		run := m.runs
		m.runs, m.cancelled, m.out, m.gone = nil, false, false, false
		o.longest = max(o.longest, end.longest)
		m.used = m.used.Add(end.usage)
		if o.over != nil {
			if !o.over.Stands() {
				token, reports := tokenGiven(event)
				m.rest, m.token, m.uncounted, m.late = run, token, reports && end.usage.ModelCalls == 0, !reports
			}
			return
		}
		before := m.step
		m.step = max(m.step, end.step)
		if o.closing != nil && run.Purpose == Coordinate { // cut by a quorum
			return
		}
		suspended, ok := event.(Suspended)
		if failed, isFailed := event.(Failed); !ok && (!isFailed || failed.Outage == "") {
			o.waits = 0
		}
		switch {
		case ok:
			m.rest, m.token, m.uncounted = run, suspended.Token, suspended.Usage.ModelCalls == 0
		case run.Purpose != Coordinate:
			o.takeFinal(agent, run, event, before)
		default:
			o.takeAction(agent, run, event, before)
		}
		return
	}
}

// tokenGiven returns the token of an event that has one.
func tokenGiven(event Event) (token string, found bool) {
	switch e := event.(type) {
	case Suspended:
		return e.Token, true
	case Failed:
		return e.Token, true
	}
	return "", false
}

// end contains the common fields of events that end a step.
type end struct {
	launch LaunchID
	step   int
	usage  llm.Usage

	longest float64
}

func endOf(event Event) end {
	switch e := event.(type) {
	case Answered:
		return end{e.Launch, e.Step, e.Usage, e.LongestCall}
	case Voted:
		return end{e.Launch, e.Step, e.Usage, e.LongestCall}
	case Stopped:
		return end{e.Launch, e.Step, e.Usage, e.LongestCall}
	case Failed:
		return end{e.Launch, e.Step, e.Usage, e.LongestCall}
	case Suspended:
		return end{e.Launch, e.Step, e.Usage, e.LongestCall}
	case Restarted:
		return end{e.Launch, e.Step, e.Usage, e.LongestCall}
	case Exhausted:
		return end{e.Launch, e.Step, e.Usage, e.LongestCall}
	case Evaluated:
		return end{e.Launch, e.Step, e.Usage, e.LongestCall}
	}
	return end{}
}

// takeAction implements rules 6 to 9, 17 and 24. The number of the step must be above before.
func (o *oracle) takeAction(agent string, run *Launch, event Event, before int) {
	m := o.agents[agent]
	heard := m.heard
	m.ended++
	m.ran = true
	m.known = map[string]int{}
	for _, s := range run.Shown {
		m.known[s.Agent] = s.Step
	}
	if n := len(run.Messages); n > 0 {
		m.heard = max(m.heard, run.Messages[n-1].Number)
	}
	open := func(action Action, step int) bool { return step > before && slices.Contains(run.Offered, action) }
	switch e := event.(type) {
	case Answered:
		if open(NewAnswer, e.Step) {
			seen := o.boundSeen(agent, e.Seen, e.Heard)
			m.row++
			name := label(o.number(agent), len(o.answers(agent, 0))+1)
			o.write(line{
				digest: e.Digest, copied: o.repeats(agent, e.Digest, seen),
				alone:    !slices.ContainsFunc(seen, func(s Seen) bool { return s.Agent != agent }),
				Accepted: Accepted{Agent: agent, Step: e.Step, Action: NewAnswer, Label: name, Seen: seen},
			})
			o.keepChecks(agent, e.Checks, seen)
		}
	case Voted:
		if target, found := o.latest(e.Target); found && open(Vote, e.Step) {
			seen := o.boundSeen(agent, e.Seen, e.Heard)
			sure := e.Confidence
			if sure != nil && (*sure < 0 || *sure > 1) {
				sure = nil
			}
			o.write(line{heard: o.boundHeard(e.Heard), reason: kept(e.Reason), sure: sure, Accepted: Accepted{
				Agent: agent, Step: e.Step, Action: Vote, Target: e.Target, TargetLabel: o.revision(target, e.TargetLabel, seen), Seen: seen,
			}})
		}
	case Stopped:
		if open(Stop, e.Step) {
			status := Complete
			if e.Status == Blocked {
				status = Blocked
			}
			seen := o.boundSeen(agent, e.Seen, e.Heard)
			o.write(line{heard: o.boundHeard(e.Heard), reason: kept(e.Summary), Accepted: Accepted{
				Agent: agent, Step: e.Step, Action: Stop, Status: status, Seen: seen,
			}})
		}
	case Failed:
		o.fail(agent, run, e)
		m.heard = heard // it receives the same messages when it is retried
	case Restarted:
		if slices.ContainsFunc(o.shownTo(agent), func(s Shown) bool { return s.Agent != agent && !shows(run, s) }) {
			m.ended--
			m.again, m.heard = true, heard
		}
	}
}

// shows reports whether the step was shown that answer or a newer one at its launch.
func shows(run *Launch, answer Shown) bool {
	return slices.ContainsFunc(run.Shown, func(s Shown) bool { return s.Agent == answer.Agent && s.Step >= answer.Step })
}

func (o *oracle) fail(agent string, run *Launch, e Failed) {
	m := o.agents[agent]
	m.failed, m.void = &e.Cause, len(o.book)
	m.rest, m.token, m.uncounted = run, e.Token, e.Usage.ModelCalls == 0
	if m.away = e.Outage; run.Purpose != Coordinate && e.Outage == Unreached { // rule 57
		m.away = ""
	}
}

// boundSeen implements rule 17. News that reached the step ends a streak of answers.
func (o *oracle) boundSeen(agent string, claims []Seen, heard int) []Seen {
	m := o.agents[agent]
	var seen []Seen
	for _, s := range o.shown() {
		most := 0
		for _, claim := range claims {
			if claim.Agent == s.Agent {
				most = max(most, min(claim.Step, s.Step))
			}
		}
		if most > 0 {
			seen = append(seen, Seen{Agent: s.Agent, Step: most})
		}
	}
	slices.SortFunc(seen, bySeen)
	told := map[string]int{}
	for _, s := range seen {
		if told[s.Agent] = s.Step; s.Agent != agent && s.Step > m.known[s.Agent] {
			m.row = 0
		}
	}
	for _, said := range o.messages(agent) {
		if m.heard < said.Number && said.Number <= o.boundHeard(heard) {
			m.row = 0
		}
	}
	m.known, m.heard = told, max(m.heard, o.boundHeard(heard))
	return seen
}

// kept returns the first 280 characters of a text as valid UTF-8.
func kept(text string) string {
	runes := []rune(strings.ToValidUTF8(text, string(utf8.RuneError)))
	return string(runes[:min(len(runes), 280)])
}

func (o *oracle) boundHeard(claim int) int { return max(0, min(claim, len(o.said))) }

// revision returns the label of the target's answer that a vote names (rule 7).
// Answers of earlier attempts keep their labels.
func (o *oracle) revision(target line, named string, seen []Seen) string {
	for _, a := range o.answers(target.Agent, 0) {
		if a.Label == named {
			return named
		}
	}
	for _, a := range o.answers(target.Agent, 0) {
		if slices.Contains(seen, Seen{Agent: a.Agent, Step: a.Step}) {
			return a.Label
		}
	}
	return target.Label
}

// takeFinal implements rules 45 to 47.
func (o *oracle) takeFinal(agent string, run *Launch, event Event, before int) {
	f := o.closing
	switch e := event.(type) {
	case Answered:
		if run.Purpose == Present && e.Step > before {
			name := "agent" + label(o.number(agent), 0)[len("agent"):]
			name = name[:len(name)-1] + "final"
			f.decision.Final = &Shown{Agent: agent, Number: o.number(agent), Label: name, Step: e.Step}
			if o.config.Mode == Decomposition {
				f.decision.Winner, f.decision.WinnerLabel, f.decision.WinnerStep = agent, name, e.Step
			}
			o.write(line{final: true, Accepted: Accepted{Agent: agent, Step: e.Step, Action: NewAnswer, Label: name}})
		}
	case Evaluated:
		if run.Purpose == Evaluate && e.Step > before && e.Again {
			o.beginAgain(agent, e.Step)
			return
		}
	case Failed:
		o.fail(agent, run, e)
		if o.config.OnAgentFailure == "park" {
			return
		}
		if next := o.presenter(""); run.Purpose == Present && o.config.Mode == Decomposition && next != "" {
			f.by = next
			return
		}
		if e.Outage == Interrupted {
			return
		}
	}
	if run.Purpose == Present {
		f.stage = o.afterPresenting()
		return
	}
	f.stage = "over"
}

func (o *oracle) afterPresenting() string {
	if len(o.past) < o.config.MaxRestarts {
		return "judge"
	}
	return "over"
}

// final returns the answer of a decision.
func (o *oracle) final(d Decision) Shown {
	if d.Final != nil {
		return *d.Final
	}
	return Shown{Agent: d.Winner, Number: o.number(d.Winner), Label: d.WinnerLabel, Step: d.WinnerStep}
}

func (o *oracle) beginAgain(agent string, step int) {
	d := o.closing.decision
	o.past = append(o.past, RejectedAnswer{Number: len(o.past) + 1, Answer: o.final(d), Agent: agent, Step: step})
	o.fallback, o.closing = &d, nil
	o.begun, o.open, o.before = len(o.book), false, o.round
	for _, m := range o.agents {
		*m = agentFacts{absent: m.absent, before: m.rounds, step: m.step, failed: m.failed, away: m.away, void: m.void, heard: m.heard, rounds: m.rounds, used: m.used}
	}
}
