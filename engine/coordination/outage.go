// Rules 53, 55, 56 and 77: who is in an outage, and how long servers and first answers are waited for.

package coordination

import (
	"slices"
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
