package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"conclave/engine/llm"
)

// Step applies an event. It never fails.
func (s *State) Step(event Event) {
	switch e := event.(type) {
	case Ended:
		s.keep(e.Launch, false, "", e.Usage)
		if r := s.ended(e.Launch, e.Number, e.Usage, e.Seconds); r != nil {
			s.advance(r.Launch, e)
		}
	case Broke:
		s.keep(e.Launch, true, e.Token, e.Usage)
		if r := s.ended(e.Launch, e.Number, e.Usage, e.Seconds); r != nil {
			s.fail(r.Launch, e)
		}
	case Suspended:
		s.keep(e.Launch, true, e.Token, e.Usage)
		if r := s.ended(e.Launch, e.Number, e.Usage, e.Seconds); r != nil {
			s.note(r.Launch.Step, r.Launch.Step+" was suspended")
			next := s.after(r.Launch, e.Token, e.Usage)
			next.AwaySince = e.AwaySince
			s.pend(*next)
		}
	case Pause, Resume, Retry, Said, Cancel:
		s.request(e)
	case Reopened:
		s.reopen(e)
	case TimeUp:
		s.timeUp()
	}
}

// ended counts the usage of the running step, and returns the step if the run continues. A
// stale event counts nothing, because the launch that continued the step reports its usage.
func (s *State) ended(id string, number int, usage llm.Usage, seconds float64) *launched {
	r := s.Running
	if r == nil || r.Launch.ID != id {
		s.note("", "an event of launch "+id+", which does not run, changed nothing")
		return nil
	}
	s.Running = nil
	s.Usage = s.Usage.Add(usage)
	s.count(r.Launch.Step, 0, usage, seconds)
	if s.Done() {
		s.trace(TraceEntry{Number: number, Step: r.Launch.Step, Status: Cancelled, Usage: usage})
		return nil
	}
	s.Newest = max(s.Newest, number)
	r.Launch.AwaySince = time.Time{}
	return r
}

// advance chooses the next step: by the step's action or else by finish (rule 2).
func (s *State) advance(l Launch, e Ended) {
	at := Ref{Number: e.Number, Step: l.Step}
	s.Workspace = e.Workspace
	s.trace(TraceEntry{
		Number: e.Number, Step: l.Step, Status: e.Status, Action: e.Action, To: e.To, Text: truncate(e.Text), Error: e.Cause, Usage: e.Usage,
		ExitCode: e.ExitCode, Failed: e.Failed, Team: e.Team,
	})
	if e.Action != Call {
		s.remember(at, e.Said, l.note(e.Status, e.Cause))
	}
	switch {
	case e.Action != NoAction && !s.permits(l, e):
		s.end(Failed, fmt.Sprintf("%s asked for %s, which the graph does not have", l.Step, strconv.Quote(truncate(e.To))), &at)
	case e.Action == Call:
		s.Stack = append(s.Stack, frame{Step: l.Step, Messages: e.Messages, Iterations: e.Iterations})
		s.transitionTo(e.To, at, e.Status)
	case e.Action == Jump:
		s.transitionTo(e.To, at, e.Status)
	case e.Status == Failed && e.Cause != nil: // its calls are repeated
		l.ResumeFrom, l.Uncounted, l.Made = "", false, 0
		s.fault(l, at, e.outcome(), *e.Cause)
	default:
		s.finish(at, e.outcome())
	}
}

// permits checks an action that the step's own rules have already checked.
func (s *State) permits(l Launch, e Ended) bool {
	from := s.Graph.node(l.Step)
	return from != nil && slices.Contains(from.Destinations, e.To) && s.Graph.node(e.To) != nil &&
		(e.Action == Jump || e.Action == Call && !s.deepest() && e.Messages != "" && !slices.Contains(l.Closed, e.To))
}

// finish chooses the successor of a step without an action: its caller, else the destination of
// its static rule, else the end of the run. A caller without model calls left ends as well.
func (s *State) finish(at Ref, o outcome) {
	if len(s.Stack) == 0 {
		if to := s.Graph.node(at.Step).next(o); to != "" {
			s.transitionTo(to, at, o.status)
			return
		}
		s.end(o.status, "", &at)
		return
	}
	top := len(s.Stack) - 1
	frame := s.Stack[top]
	if !s.countTransition() {
		return
	}
	s.Stack = s.Stack[:top]
	l := s.newLaunch(s.Graph.node(frame.Step))
	l.History, l.Omitted = nil, 0 // its messages contain them
	l.Used, l.Return = frame.Iterations, &Return{Messages: frame.Messages, Called: at, Status: o.status}
	s.pend(l)
}

// transitionTo enters a step or its replacement if the run has a transition left. Without a
// replacement, the run ends with the status of the previous step.
func (s *State) transitionTo(to string, from Ref, status Status) {
	n := s.visit(to)
	switch {
	case n == nil && (status == Failed || len(s.Stack) > 0):
		s.end(Failed, "there is no step to go to: "+to+" was entered as often as max_visits allows", &from)
	case n == nil:
		s.end(status, "", &from)
	case s.countTransition():
		s.enter(n)
	}
}

// countTransition counts a transition. It ends the run if that exceeds the limit.
func (s *State) countTransition() bool {
	if s.Transitions >= s.Graph.MaxTransitions {
		s.endAtLimit(transitionLimit, fmt.Sprintf("the run made %d transitions, as many as max_transitions allows", s.Transitions))
		return false
	}
	s.Transitions++
	return true
}

func (s *State) enter(n *Node) {
	s.count(n.Name, 1, llm.Usage{}, 0)
	s.pend(s.newLaunch(n))
}

// newLaunch returns the launch of a step from its start.
func (s *State) newLaunch(n *Node) Launch {
	l := Launch{Step: n.Name, Kind: n.Kind, Most: n.MaxIterations, Deepest: s.deepest(), Workspace: s.Workspace, Closed: s.closed(n)}
	l.History, l.Omitted = n.History.shown(s.History)
	return l
}

func (s *State) deepest() bool { return len(s.Stack) >= s.Graph.MaxDepth }

// fail ends a failed step. A retry continues its journal or, for a session step, its team's
// session.
func (s *State) fail(l Launch, e Broke) {
	e.Cause.Message = truncate(e.Cause.Message)
	s.trace(TraceEntry{Number: e.Number, Step: l.Step, Status: Failed, Error: &e.Cause, Usage: e.Usage, Team: e.Team})
	if e.Cause.Type == BudgetSpent && s.overspent() {
		return
	}
	next := s.after(l, e.Token, e.Usage)
	if e.Anew {
		next.TeamOf, next.Counted, next.Told = "", llm.Usage{}, 0
	}
	s.fault(*next, Ref{Number: e.Number, Step: l.Step}, e.outcome(), e.Cause)
}

// fault follows the rule that names the failure of a step. Without such a rule it parks or
// ends the run (rule 9). A retry launches l.
func (s *State) fault(l Launch, at Ref, o outcome, cause Failure) {
	if to := s.Graph.node(at.Step).next(o); to != "" {
		if !s.remembers(at) {
			s.remember(at, false, l.note(Failed, &cause))
		}
		s.transitionTo(to, at, Failed)
		return
	}
	s.Pending = &l
	if s.Graph.Park {
		s.Parked = &cause
		s.add(Entry{Kind: EntryParked, Step: l.Step, Text: "waits for a person to retry or cancel"})
		return
	}
	s.Rest = s.Pending
	s.end(Failed, cause.Type+": "+cause.Message, &at)
}

// end ends the run. After an error or a cancellation, the stack still shows the waiting
// callers.
func (s *State) end(status Status, reason string, final *Ref) {
	s.Pending, s.Parked = nil, nil
	s.Result = &Result{Status: status, Reason: truncate(reason), Final: s.final(final)}
	text := "ended: " + string(status)
	if reason != "" {
		text += ", " + truncate(reason)
	}
	s.add(Entry{Kind: EntryEnded, Text: text})
}
