package coordination

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// defaultCallerSeconds is the default of client_tools_timeout_seconds.
const defaultCallerSeconds = 3600

// Call is a call of a tool that the session's caller runs.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"` // the tool's name, as the caller gave it

	// Arguments are JSON as the model wrote it; empty if ArgumentsPath has them.
	Arguments     string `json:"arguments,omitempty"`
	ArgumentsPath string `json:"arguments_path,omitempty"`

	// Digest identifies the tool and the arguments: equal calls have equal digests.
	Digest string `json:"digest"`
}

// ToolResult is the result of a call.
type ToolResult struct {
	ID      string `json:"id"`
	Content string `json:"content"`
}

// callsOf is the number of calls that a launch has made; their IDs are numbered from 1.
type callsOf struct {
	Launch LaunchID `json:"launch"`
	Calls  int      `json:"calls"`
}

// waits reports whether the step waits for the caller. No activity runs for such a step.
func (r *runningStep) waits() bool { return r != nil && len(r.Awaits) > 0 }

// AwaitsCaller reports whether steps are running and all of them wait for the caller. The
// session's clock is then stopped.
func (s *State) AwaitsCaller() bool {
	return !s.Done() && slices.ContainsFunc(s.Agents, func(a *agent) bool { return a.Run.waits() }) &&
		!slices.ContainsFunc(s.Agents, func(a *agent) bool { return a.works() && !a.Run.waits() })
}

// OpenCalls returns the calls without a result, in the order of the anonymous numbers, with
// only one of several equal calls.
func (s *State) OpenCalls() []Call {
	var open []Call
	for _, a := range s.byNumber() {
		if a.Run == nil {
			continue
		}
		for _, c := range a.Run.Awaits {
			if !slices.ContainsFunc(open, func(o Call) bool { return o.Digest == c.Digest }) {
				open = append(open, c)
			}
		}
	}
	return open
}

// await records that a step waits for the caller. The step still counts as running, so it
// holds back the same decisions and launches.
func (s *State) await(a *agent, run *Launch, e Awaiting) {
	a.Step = max(a.Step, e.Step)
	run.Answered, run.Owed = false, false
	a.Run = &runningStep{Launch: *run, Token: e.Token, Awaits: slices.Clone(e.Calls)}
	var names []string
	for _, c := range e.Calls {
		names = append(names, c.Name)
		s.countCall(c.ID)
	}
	s.note(Entry{Kind: EntrySuspended, Agent: a.ID, Step: e.Step, Text: a.ID + " waits for the caller's tools: " + truncate(strings.Join(names, ", "))})
}

// callID matches the ID of a call: the session's hash, the launch and the number.
var callID = regexp.MustCompile(`^c[0-9a-f]+_(l[0-9]+)_([0-9]+)$`)

// countCall records that a call was made, so that a result for it is recognized later.
func (s *State) countCall(id string) {
	launch, number, ok := parseCall(id)
	if !ok {
		return
	}
	i := slices.IndexFunc(s.Called, func(c callsOf) bool { return c.Launch == launch })
	if i < 0 {
		s.Called = append(s.Called, callsOf{Launch: launch})
		i = len(s.Called) - 1
	}
	s.Called[i].Calls = max(s.Called[i].Calls, number)
}

func parseCall(id string) (launch LaunchID, number int, ok bool) {
	found := callID.FindStringSubmatch(id)
	if found == nil {
		return "", 0, false
	}
	number, err := strconv.Atoi(found[2])
	return LaunchID(found[1]), number, err == nil && number > 0
}

// wasCalled reports whether the session has made a call.
func (s *State) wasCalled(id string) bool {
	launch, number, ok := parseCall(id)
	return ok && slices.ContainsFunc(s.Called, func(c callsOf) bool { return c.Launch == launch && number <= c.Calls })
}

// ErrNotWaiting refuses the result of a call because a retried step may be about to wait for
// it again.
var ErrNotWaiting = errors.New("a retried step does not wait for the caller's results yet")

// owed reports whether a step that waited when the session ended has yet to wait again.
func (s *State) owed() bool {
	return slices.ContainsFunc(s.Agents, func(a *agent) bool {
		return a.Run != nil && a.Run.Launch.Owed || a.Rest != nil && a.Rest.Launch.Owed
	})
}

// refuseResults refuses results of calls that the session has not made and, while a retried
// step has yet to wait again, of calls that are not open. Otherwise it accepts repeated
// results, which change nothing.
func (s *State) refuseResults(e ToolResults) error {
	if len(e.Results) == 0 {
		return errors.New("results is empty; give a list of {id, content}")
	}
	var open []string
	for _, c := range s.OpenCalls() {
		open = append(open, c.ID)
	}
	for _, r := range e.Results {
		switch {
		case s.wasCalled(r.ID) && s.owed() && !s.isOpen(r.ID):
			return ErrNotWaiting
		case s.wasCalled(r.ID):
		case len(open) == 0:
			return fmt.Errorf("the session has not made the call %s, and no call waits for a result", quoted(r.ID))
		default:
			return fmt.Errorf("the session has not made the call %s; these calls wait for a result: %s", quoted(r.ID), strings.Join(open, ", "))
		}
	}
	return nil
}

// isOpen reports whether a step waits for the result of a call.
func (s *State) isOpen(id string) bool {
	return slices.ContainsFunc(s.Agents, func(a *agent) bool {
		return a.Run != nil && slices.ContainsFunc(a.Run.Awaits, func(c Call) bool { return c.ID == id })
	})
}

// Answered returns a result for every open call that e answers, including calls equal to
// those that e names.
func (s *State) Answered(e ToolResults) []ToolResult {
	var answered []ToolResult
	for _, a := range s.byNumber() {
		if a.Run == nil {
			continue
		}
		for _, c := range a.Run.Awaits {
			if content, ok := s.answers(e, c); ok {
				answered = append(answered, ToolResult{ID: c.ID, Content: content})
			}
		}
	}
	return answered
}

// answers returns the first result in e for c or for an open call equal to c.
func (s *State) answers(e ToolResults, c Call) (content string, ok bool) {
	for _, r := range e.Results {
		if r.ID == c.ID || slices.ContainsFunc(s.equalCalls(c), func(o Call) bool { return o.ID == r.ID }) {
			return r.Content, true
		}
	}
	return "", false
}

// equalCalls returns the open calls that are equal to c.
func (s *State) equalCalls(c Call) []Call {
	var equal []Call
	for _, a := range s.Agents {
		if a.Run == nil {
			continue
		}
		for _, o := range a.Run.Awaits {
			if o.Digest == c.Digest {
				equal = append(equal, o)
			}
		}
	}
	return equal
}

// toolResults applies the results of the caller. A step whose calls all have results is
// resumed like a suspended one. A caller that sends new results has seen the usage so far.
// One that only repeats results may have lost the reply, so the usage since then is still to
// be reported.
func (s *State) toolResults(e ToolResults) {
	answered := s.Answered(e)
	if len(answered) > 0 && s.AwaitsCaller() {
		s.Reported = s.Cost()
	}
	for _, a := range s.Agents {
		if !a.Run.waits() {
			continue
		}
		a.Run.Awaits = slices.DeleteFunc(a.Run.Awaits, func(c Call) bool {
			return slices.ContainsFunc(answered, func(r ToolResult) bool { return r.ID == c.ID })
		})
		if len(a.Run.Awaits) == 0 {
			a.Rest = &resumableStep{Launch: a.Run.Launch, Token: a.Run.Token}
			a.Rest.Launch.Answered = true
			a.Run = nil
			s.note(Entry{Kind: EntryResumed, Agent: a.ID, Text: a.ID + " has the results of the caller's tools"})
		}
	}
}

// letGo removes a step that waits for the caller. If the session failed, the step can be
// resumed.
func (s *State) letGo(a *agent) {
	if s.Done() && s.Outcome.Winner == "" {
		a.Rest = &resumableStep{Launch: a.Run.Launch, Token: a.Run.Token}
		a.Rest.Launch.Owed = true
	}
	a.Run = nil
}

// callerGone fails a session whose caller has not returned in time.
func (s *State) callerGone() {
	if !s.Calling {
		s.ignore("the end of the caller's time ignored: nothing waits for the caller")
		return
	}
	s.Gone = true
}

// ask returns the command that limits the time of the caller, once for each wait.
func (s *State) ask() []Command {
	waits := s.AwaitsCaller() && !s.Paused
	began := waits && !s.Calling
	s.Calling = waits
	if !began {
		return nil
	}
	return []Command{AskCaller{Seconds: cmp.Or(s.Config.CallerSeconds, defaultCallerSeconds)}}
}
