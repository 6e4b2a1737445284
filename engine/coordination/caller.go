// Rules 98 to 102: the caller's tools.

package coordination

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/llm"
)

// caller holds the questions of the session to its caller.
type caller struct {
	Called   []callsOf `json:"called,omitempty"`  // the calls of the caller's tools
	Calling  bool      `json:"calling,omitempty"` // the last AskCaller has not ended
	Gone     bool      `json:"gone,omitempty"`    // the caller has not returned in time
	Reported llm.Usage `json:"reported,omitzero"` // the cost when the caller was last asked
}

// defaultCallerSeconds is the default of client_tools_timeout_seconds.
const defaultCallerSeconds = 3600

// callsOf is the number of calls that a launch has made; their IDs are numbered from 1.
type callsOf struct {
	Launch LaunchID `json:"launch"`
	Calls  int      `json:"calls"`
}

// awaitedCalls returns the calls without a result, in the order of the anonymous numbers.
func (r *roster) awaitedCalls() []Call {
	var calls []Call
	for _, a := range r.byNumber() {
		if a.Run != nil {
			calls = append(calls, a.Run.Awaits...)
		}
	}
	return calls
}

// OpenCalls returns the calls without a result, in the order of the anonymous numbers, with
// only one of several equal calls.
func (r *roster) OpenCalls() []Call {
	var open []Call
	for _, c := range r.awaitedCalls() {
		if !slices.ContainsFunc(open, func(o Call) bool { return o.Digest == c.Digest }) {
			open = append(open, c)
		}
	}
	return open
}

// Answered returns a result for every open call that e answers, including calls equal to
// those that e names. Of several results the first counts.
func (r *roster) Answered(e ToolResults) []ToolResult {
	var answered []ToolResult
	calls := r.awaitedCalls()
	for _, c := range calls {
		first := slices.IndexFunc(e.Results, func(result ToolResult) bool {
			return slices.ContainsFunc(calls, func(o Call) bool { return o.ID == result.ID && (o.ID == c.ID || o.Digest == c.Digest) })
		})
		if first >= 0 {
			answered = append(answered, ToolResult{ID: c.ID, Content: e.Results[first].Content})
		}
	}
	return answered
}

func (r *roster) isOpenCall(id string) bool {
	return slices.ContainsFunc(r.awaitedCalls(), func(c Call) bool { return c.ID == id })
}

// owesResults reports whether a step that waited when the session ended has yet to wait again.
func (r *roster) owesResults() bool {
	return slices.ContainsFunc(r.Agents, func(a *agent) bool {
		return a.Run != nil && a.Run.Launch.Owed || a.Rest != nil && a.Rest.Launch.Owed
	})
}

// callID matches the ID of a call: the session's hash, the launch and the number.
var callID = regexp.MustCompile(`^c[0-9a-f]+_(l[0-9]+)_([0-9]+)$`)

func parseCall(id string) (launch LaunchID, number int, ok bool) {
	found := callID.FindStringSubmatch(id)
	if found == nil {
		return "", 0, false
	}
	number, err := strconv.Atoi(found[2])
	return LaunchID(found[1]), number, err == nil && number > 0
}

func (c *caller) countCall(id string) {
	launch, number, ok := parseCall(id)
	if !ok {
		return
	}
	i := slices.IndexFunc(c.Called, func(c callsOf) bool { return c.Launch == launch })
	if i < 0 {
		c.Called = append(c.Called, callsOf{Launch: launch})
		i = len(c.Called) - 1
	}
	c.Called[i].Calls = max(c.Called[i].Calls, number)
}

func (c *caller) wasCalled(id string) bool {
	launch, number, ok := parseCall(id)
	return ok && slices.ContainsFunc(c.Called, func(c callsOf) bool { return c.Launch == launch && number <= c.Calls })
}

// ErrNotWaiting refuses the result of a call because a retried step may be about to wait for it again.
var ErrNotWaiting = errors.New("a retried step does not wait for the caller's results yet")

// refuseResults refuses results of calls that the session has not made and, while a retried step has yet to
// wait again, of calls that are not open. Otherwise it accepts repeated results, which change nothing.
func (c *caller) refuseResults(r *roster, e ToolResults) error {
	if len(e.Results) == 0 {
		return errors.New("results is empty; give a list of {id, content}")
	}
	var open []string
	for _, call := range r.OpenCalls() {
		open = append(open, call.ID)
	}
	for _, result := range e.Results {
		switch {
		case c.wasCalled(result.ID) && r.owesResults() && !r.isOpenCall(result.ID):
			return ErrNotWaiting
		case c.wasCalled(result.ID):
		case len(open) == 0:
			return fmt.Errorf("the session has not made the call %s, and no call waits for a result", quoteText(result.ID))
		default:
			return fmt.Errorf("the session has not made the call %s; these calls wait for a result: %s", quoteText(result.ID), strings.Join(open, ", "))
		}
	}
	return nil
}

// AwaitsCaller reports whether steps are running and all of them wait for the caller. The
// session's clock is then stopped.
func (r *roster) AwaitsCaller() bool {
	return slices.ContainsFunc(r.Agents, func(a *agent) bool { return a.Run.awaitsCaller() }) &&
		!slices.ContainsFunc(r.Agents, func(a *agent) bool { return a.isWorking() && !a.Run.awaitsCaller() })
}

// awaitResults makes a step wait for the caller, and returns the entry for the timeline. The step still
// counts as running, so it holds back the same decisions and launches.
func (c *caller) awaitResults(a *agent, run *Launch, e Awaiting) Entry {
	a.Step = max(a.Step, e.Step)
	run.Answered, run.Owed = false, false
	a.Run = &runningStep{Launch: *run, Token: e.Token, Awaits: slices.Clone(e.Calls)}
	var names []string
	for _, call := range e.Calls {
		names = append(names, call.Name)
		c.countCall(call.ID)
	}
	return Entry{Kind: EntrySuspended, Agent: a.ID, Step: e.Step, Text: a.ID + " waits for the caller's tools: " + truncate(strings.Join(names, ", "))}
}

// takeResults applies the results of the caller, and returns the agents whose calls all have results; their
// steps are resumed like suspended ones. A caller that sends new results has seen the cost so far. One that
// only repeats results may have lost the reply, so the cost since then is still to be reported.
func (c *caller) takeResults(r *roster, e ToolResults, cost llm.Usage) []*agent {
	answered := r.Answered(e)
	if len(answered) > 0 && r.AwaitsCaller() {
		c.Reported = cost
	}
	var resumed []*agent
	for _, a := range r.agentsWhere(func(a *agent) bool { return a.Run.awaitsCaller() }) {
		a.Run.Awaits = slices.DeleteFunc(a.Run.Awaits, func(c Call) bool {
			return slices.ContainsFunc(answered, func(r ToolResult) bool { return r.ID == c.ID })
		})
		if len(a.Run.Awaits) == 0 {
			a.endWait().Launch.Answered = true
			resumed = append(resumed, a)
		}
	}
	return resumed
}

// endWait makes a step that waits for the caller one to resume.
func (a *agent) endWait() *resumableStep {
	a.Run, a.Rest = nil, &resumableStep{Launch: a.Run.Launch, Token: a.Run.Token}
	return a.Rest
}

// askCaller limits the time of the caller, once for each wait.
func (c *caller) askCaller(waits bool, seconds int) []Command {
	began := waits && !c.Calling
	c.Calling = waits
	if !began {
		return nil
	}
	return []Command{AskCaller{Seconds: cmp.Or(seconds, defaultCallerSeconds)}}
}
