package pipeline

import (
	"fmt"
	"slices"
	"strconv"

	"conclave/engine/llm"
)

// Step takes an event.
func (s *State) Step(event Event) {
	switch e := event.(type) {
	case Ended:
		if r := s.ended(e.Launch, e.Number, e.Usage); r != nil {
			s.arrive(r.Launch, e)
		}
	case Broke:
		if r := s.ended(e.Launch, e.Number, e.Usage); r != nil {
			s.broke(r.Launch, e)
		}
	case Suspended:
		if r := s.ended(e.Launch, e.Number, e.Usage); r != nil {
			s.suspended(r.Launch, e)
		}
	case Pause:
		s.person(e)
	case Resume:
		s.person(e)
	case Retry:
		s.person(e)
	case Said:
		s.person(e)
	case Cancel:
		s.person(e)
	}
}

// ended takes note of the end of a segment, and returns it if the run goes on. An
// event of another launch than the running one is stale; what it spent is in the
// event of the one that went on with it.
func (s *State) ended(id LaunchID, number int, usage llm.Usage) *Run {
	r := s.Running
	if r == nil || r.Launch.ID != id {
		s.note("", "an event of launch "+string(id)+", which does not run, changed nothing")
		return nil
	}
	s.Running = nil
	s.Newest = max(s.Newest, number)
	s.Usage = s.Usage.Add(usage)
	if s.Done() {
		s.trace(Segment{Number: number, Step: r.Launch.Step, Status: Cancelled, Usage: usage})
		return nil
	}
	return r
}

// arrive decides where the run goes on when a segment has ended: its own action
// before a caller that waits, that before the static rule (rule 2).
func (s *State) arrive(l Launch, e Ended) {
	at := Ref{e.Number, l.Step}
	s.Workspace = e.Workspace
	s.trace(Segment{Number: e.Number, Step: l.Step, Status: e.Status, Action: e.Action, To: e.To, Text: truncate(e.Text), Usage: e.Usage})
	if e.Said && e.Action != Call {
		s.History = append(s.History, at)
	}
	switch {
	case e.Action != NoAction && !s.may(l, e):
		s.end(Failed, fmt.Sprintf("%s asked for %s, which the graph does not have", l.Step, strconv.Quote(truncate(e.To))), &at)
	case e.Action == Call:
		s.Stack = append(s.Stack, Frame{Step: l.Step, Messages: e.Messages, Iterations: e.Iterations})
		s.pass(e.To)
	case e.Action == Jump:
		s.pass(e.To)
	default:
		s.leave(at, e.Status)
	}
}

// may checks an action once more. The rules of the step have refused already what
// it must not do.
func (s *State) may(l Launch, e Ended) bool {
	from := s.Graph.node(l.Step)
	return from != nil && from.leads(e.To) && s.Graph.node(e.To) != nil &&
		(e.Action == Jump || e.Action == Call && !s.deepest() && e.Messages != "")
}

// leave goes on from a step that ended without an action of its own: to the caller
// that waits for it, else by its static rule, else nowhere. A caller without model
// calls left has ended, too.
func (s *State) leave(at Ref, status Status) {
	if len(s.Stack) == 0 {
		if to := s.Graph.node(at.Step).next(status); to != "" {
			s.pass(to)
			return
		}
		s.end(status, "", &at)
		return
	}
	top := len(s.Stack) - 1
	frame := s.Stack[top]
	if !s.transit() {
		return
	}
	s.Stack = s.Stack[:top]
	node := s.Graph.node(frame.Step)
	if frame.Iterations >= node.MaxIterations {
		s.trace(Segment{Step: frame.Step, Status: MaxIterations})
		s.leave(Ref{0, frame.Step}, MaxIterations)
		return
	}
	l := s.fresh(node)
	l.History, l.Omitted = nil, 0 // what it was shown is among its messages
	l.Used, l.Return = frame.Iterations, &Return{Messages: frame.Messages, Called: at, Status: status}
	s.Pending = &l
}

// pass gives control to a step that begins anew.
func (s *State) pass(to string) {
	if s.transit() {
		s.enter(to)
	}
}

// transit counts a passing of control, and ends the run that has no more of them.
func (s *State) transit() bool {
	if s.Transitions >= s.Graph.MaxTransitions {
		s.end(Failed, fmt.Sprintf("control was passed on %d times, as often as max_transitions allows", s.Transitions), nil)
		return false
	}
	s.Transitions++
	return true
}

func (s *State) enter(step string) {
	l := s.fresh(s.Graph.node(step))
	s.Pending = &l
}

// maxShown bounds how many texts a step is shown: a launch is in the history of
// its workflow for ever.
const maxShown = 100

// fresh is a launch of the step with nothing behind it.
func (s *State) fresh(n *Node) Launch {
	l := Launch{Step: n.Name, Kind: n.Kind, Most: n.MaxIterations, Deepest: s.deepest(), Workspace: s.Workspace}
	if n.History {
		l.Omitted = max(0, len(s.History)-maxShown)
		l.History = append([]Ref{}, s.History[l.Omitted:]...)
	}
	return l
}

func (s *State) deepest() bool { return len(s.Stack) >= s.Graph.MaxDepth }

// broke ends or parks the run. The step's journal is kept: a retry goes on with it,
// but for that of a team.
func (s *State) broke(l Launch, e Broke) {
	e.Cause.Message = truncate(e.Cause.Message)
	s.trace(Segment{Number: e.Number, Step: l.Step, Status: Failed, Error: &e.Cause, Usage: e.Usage})
	if s.Graph.Park {
		s.Parked = &e.Cause
		if l.Kind == Session { // a team that is asked again decides anew
			e.Token = ""
		}
		s.again(l, e.Token)
		s.note(l.Step, "waits for somebody to retry or cancel")
		return
	}
	s.end(Failed, e.Cause.Type+": "+e.Cause.Message, nil)
}

func (s *State) suspended(l Launch, e Suspended) {
	s.note(l.Step, l.Step+" was suspended")
	s.again(l, e.Token)
}

// again makes the same segment the pending one: it goes on where it was.
func (s *State) again(l Launch, token string) {
	if token != "" {
		l.ResumeFrom = token
	}
	s.Pending = &l
}

// end decides the run. Frames of a run that did not just end stay, for whoever
// wants to know who waited.
func (s *State) end(status Status, reason string, final *Ref) {
	s.Pending, s.Parked = nil, nil
	if final != nil && !s.said(*final) {
		final = nil
	}
	s.Outcome = &Outcome{Status: status, Reason: truncate(reason), Final: final}
	text := "ended: " + string(status)
	if reason != "" {
		text += ", " + truncate(reason)
	}
	s.note("", text)
}

// said reports whether a segment has a text.
func (s *State) said(at Ref) bool { return slices.Contains(s.History, at) }

func (s *State) trace(g Segment) {
	s.Trace = append(s.Trace, g)
	if old := len(s.Trace) - 1 - keptEntries; old >= 0 {
		s.Trace[old].Text = "" // the trace is a part of the result, and of what continue-as-new carries
	}
	text := g.Step + " ended: " + string(g.Status)
	switch g.Action {
	case Jump:
		text = g.Step + " jumped to " + truncate(g.To)
	case Call:
		text = g.Step + " called " + truncate(g.To)
	case NoAction:
	}
	s.note(g.Step, text)
}
