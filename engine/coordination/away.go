// Rules 53 to 57: agents in an outage try again. Rules 106 to 109: the others go on without them.

package coordination

import (
	"slices"
	"strconv"
	"strings"
)

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
