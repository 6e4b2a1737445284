// Rules 53 to 57, 77 and 106 to 109: who is in an outage, how long servers and first answers are
// waited for, and how the others go on without them.

package coordination

import (
	"slices"
	"strconv"
	"strings"
)

// Delays before agents in an outage try again, in seconds.
const (
	waitStep = 60
	maxWait  = 600
)

// hasLostAgent reports whether an agent has failed for a reason other than an outage.
func (r *roster) hasLostAgent() bool {
	return slices.ContainsFunc(r.Agents, func(a *agent) bool { return a.Error != nil && a.Away == NoOutage })
}

func (r *roster) countOutages(states ...Outage) int {
	return len(r.agentsWhere(func(a *agent) bool { return slices.Contains(states, a.Away) }))
}

func (r *roster) onlyUnreached() bool {
	return r.countOutages(Unreached) > 0 && r.countOutages(Interrupted) == 0
}

// unreachedCauses returns the messages of the agents whose servers have never replied, each
// message once, with the agents that share it.
func (r *roster) unreachedCauses() string {
	var agents, messages []string
	for _, a := range r.Agents {
		if a.Away == Unreached {
			agents, messages = append(agents, a.ID), append(messages, a.Error.Message)
		}
	}
	return Together(agents, messages, ": ")
}

func (r *roster) outageIDs() []string {
	return idsOf(r.agentsWhere(func(a *agent) bool { return a.Away != NoOutage }))
}

// Together lists each distinct cause once, after the agents that share it and a separator.
func Together(agents, causes []string, separator string) string {
	var lines []string
	for i, cause := range causes {
		if slices.Contains(causes[:i], cause) {
			continue
		}
		var sharing []string
		for j, other := range causes {
			if other == cause {
				sharing = append(sharing, agents[j])
			}
		}
		lines = append(lines, strings.Join(sharing, ", ")+separator+cause)
	}
	return strings.Join(lines, "; ")
}

// waits are the waits for model servers, and that of a quorum for first answers.
type waits struct {
	Waits    int              `json:"waits,omitempty"`    // number of consecutive waits since a step ended without an outage
	Waiting  bool             `json:"waiting,omitempty"`  // the last Wait has not ended
	Stranded bool             `json:"stranded,omitempty"` // agents below the minimum have never reached their servers
	Majority *awaitedMajority `json:"majority,omitempty"` // majority of a quorum that waits for first answers
}

// awaitedMajority is a majority of final votes that waits for first answers in progress.
type awaitedMajority struct {
	Label string `json:"label"`          // label of the answer voted for
	Over  bool   `json:"over,omitempty"` // the wait has ended
}

func (w *waits) isStranded(r *roster, presenting bool) bool {
	return w.Stranded || !presenting && r.countActive() == 0 && r.onlyUnreached()
}

// nextWait returns nil if a wait is pending.
func (w *waits) nextWait() *Wait {
	if w.Waiting {
		return nil
	}
	w.Waits++
	w.Waiting = true
	return &Wait{Seconds: min(w.Waits*waitStep, maxWait)}
}

// awaitFirsts returns nil if the wait for first answers is pending.
func (w *waits) awaitFirsts(seconds int) *Wait {
	if w.Waiting {
		return nil
	}
	w.Waiting = true
	return &Wait{Seconds: seconds, Firsts: true}
}

// keepMajority withdraws the wait of a majority for another answer.
func (w *waits) keepMajority(label string) {
	if w.Majority != nil && w.Majority.Label != label {
		w.dropMajority()
	}
}

func (w *waits) dropMajority() { w.Majority, w.Waiting = nil, false }

func (w *waves) awaitMissing() move {
	if w.onlyUnreached() {
		w.Stranded = true
		return move{}
	}
	return w.waitForServers()
}

func (w *waves) waitForServers() move {
	wait := w.nextWait()
	if wait == nil {
		return move{}
	}
	w.note(Entry{Kind: EntryWaiting, Text: "in an outage of their model servers: " + strings.Join(w.outageIDs(), ", ") + "; trying again in " + strconv.Itoa(wait.Seconds) + " s"})
	return move{wait: wait}
}

func (w *waves) endWaiting() {
	if !w.Waiting {
		w.note(Entry{Kind: EntryIgnored, Text: "the end of a wait ignored: none is out"})
		return
	}
	w.Waiting = false
	if w.Majority != nil {
		w.Majority.Over = true
		return
	}
	w.retryOutages()
}

func (w *waves) retryOutages() {
	for _, a := range w.Agents {
		if a.Away != NoOutage {
			w.reviveAgent(a)
		}
	}
}

// reviveAgent makes a failed agent active again. Its step will be resumed, and is not counted twice.
func (w *waves) reviveAgent(a *agent) {
	a.Error, a.Away, a.Retried = nil, NoOutage, true
	w.Stranded = false
	if a.Rest != nil && a.Rest.Launch.Purpose == Coordinate {
		a.Steps = max(a.Steps-1, 0)
	}
	w.note(Entry{Kind: EntryRetried, Agent: a.ID, Text: "the failed step of " + a.ID + " is retried"})
}

// rejoinWave adds the agents in an outage, which try again, to a new wave.
func (w *waves) rejoinWave(wave []Launch) []Launch {
	if len(wave) == 0 {
		return nil
	}
	w.retryOutages()
	return append(wave, w.relaunchSteps(w.resumableAgents())...)
}

// SilentCalls is how many times as long as the longest call of a session a call may last without
// a byte of a reply before it counts as an outage of its model.
const SilentCalls = 4

func (w *waves) takeModelReport(e ModelReport) {
	i := slices.IndexFunc(w.Agents, func(a *agent) bool { return a.Run != nil && a.Run.Launch.ID == e.Launch })
	if i < 0 || w.Done() || w.Agents[i].Run.Launch.Purpose.isOfFinale() {
		w.ignore("report of launch " + quoteText(string(e.Launch)) + " about its model ignored")
		return
	}
	a := w.Agents[i]
	if a.Run.Out = nil; e.Out == nil {
		w.endAbsence(a)
		return
	}
	a.Run.Out = &Doing{Kind: ModelAway, Since: e.Out.Since, What: truncate(e.Out.What)}
}

// updateAway makes agents away, or ends that, as rule 107 says. It changes nothing while
// another agent has something to do.
func (w *waves) updateAway() {
	if w.Config.Mode == Decomposition || !w.isUndecided() || w.hasChecksRunning(&w.roster) || len(w.resumableAgents()) > 0 {
		return
	}
	out := w.agentsWhere(func(a *agent) bool { return a.Run != nil && a.Run.Out != nil })
	others := w.agentsWhere(func(a *agent) bool { return a.Error == nil && !a.Absent && !slices.Contains(out, a) })
	if len(out) == 0 || slices.ContainsFunc(others, func(a *agent) bool { return a.Run != nil }) {
		return
	}
	answered := slices.DeleteFunc(others, func(a *agent) bool { return !a.hasAnswer() })
	team := len(w.Agents) - len(w.absentAgents())
	enough := majority(len(answered), team) && len(answered) >= w.Config.MinActive && w.Affords()
	for _, a := range out {
		switch {
		case !enough:
			w.endAbsence(a)
		case !a.Run.Away:
			a.Run.Away = true
			a.Ballot, a.Halt = nil, nil
			w.note(Entry{Kind: EntryAway, Agent: a.ID, Reason: a.Run.Out.What, Text: a.ID + " is away: the others go on without it until its model is back"})
		}
	}
}

func (w *waves) endAbsence(a *agent) {
	if a.Run.Away {
		a.Run.Away = false
		w.note(Entry{Kind: EntryBack, Agent: a.ID, Text: a.ID + " is waited for again"})
	}
}
