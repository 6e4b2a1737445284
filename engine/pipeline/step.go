package pipeline

import (
	"encoding/json"
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
		s.keepForReopen(e.Launch, false, "", e.Usage)
		if r := s.countEnded(e.Launch, e.Number, e.Usage, e.Seconds); r != nil {
			s.chooseNext(r.Launch, e)
		}
	case Broke:
		s.keepForReopen(e.Launch, true, e.Token, e.Usage)
		if r := s.countEnded(e.Launch, e.Number, e.Usage, e.Seconds); r != nil {
			s.failStep(r.Launch, e)
		}
	case Suspended:
		s.keepForReopen(e.Launch, true, e.Token, e.Usage)
		if r := s.countEnded(e.Launch, e.Number, e.Usage, e.Seconds); r != nil {
			s.addNote(r.Launch.Step, r.Launch.Step+" was suspended")
			next := s.launchAfter(r.Launch, e.Token, e.Usage)
			next.AwaySince = e.AwaySince
			s.makePending(*next)
		}
	case Pause, Resume, Retry, Said, Cancel:
		s.applyRequest(e)
	case Waited:
		if s.Wait != nil && s.Wait.ID == e.ID {
			s.Wait, s.Waiting = nil, false
		}
	case Reopened:
		s.reopenRun(e)
	case TimeUp:
		if !s.Done() {
			s.endAtLimit(TimeOver, fmt.Sprintf("the run's time of %d s is over: limits.seconds", s.Graph.Seconds))
		}
	}
}

// countEnded counts the usage of the running step, and returns the step if the run continues. A
// stale event counts nothing, because the launch that continued the step reports its usage.
func (s *State) countEnded(id string, number int, usage llm.Usage, seconds float64) *launched {
	r := s.Running
	if r == nil || r.Launch.ID != id {
		s.addNote("", "an event of launch "+id+", which does not run, changed nothing")
		return nil
	}
	s.Running = nil
	s.Usage = s.Usage.Add(usage)
	s.countUsage(r.Launch.Step, 0, usage, seconds)
	if s.Done() {
		s.traceStep(TraceEntry{Number: number, Step: r.Launch.Step, Status: Cancelled, Usage: usage})
		return nil
	}
	s.Newest = max(s.Newest, number)
	r.Launch.AwaySince = time.Time{}
	return r
}

// chooseNext chooses the next step: by the step's action or else by chooseSuccessor (rule 2).
func (s *State) chooseNext(l Launch, e Ended) {
	at := Ref{Number: e.Number, Step: l.Step}
	s.Workspace = e.Workspace
	s.traceStep(TraceEntry{
		Number: e.Number, Step: l.Step, Status: e.Status, Action: e.Action, To: e.To, Text: shortenText(e.Text), Error: e.Cause, Usage: e.Usage,
		ExitCode: e.ExitCode, Failed: e.Failed, Team: e.Team,
	})
	if e.Action != Call {
		s.rememberStep(at, e.Said, l.statusNote(e.Status, e.Cause))
	}
	switch {
	case e.Action != NoAction && !s.permitsAction(l, e):
		s.endRun(Failed, fmt.Sprintf("%s asked for %s, which the graph does not have", l.Step, strconv.Quote(shortenText(e.To))), &at)
	case e.Action == Call:
		s.Stack = append(s.Stack, frame{Step: l.Step, Messages: e.Messages, Iterations: e.Iterations})
		s.transitionTo(e.To, at, e.Status)
	case e.Action == Jump:
		s.transitionTo(e.To, at, e.Status)
	case e.Status == Failed && e.Cause != nil: // its calls are repeated
		l.ResumeFrom, l.Uncounted, l.Made = "", false, 0
		s.followFailure(l, at, e.stepOutcome(), *e.Cause)
	case e.Action == NoAction && s.retryStep(s.newLaunch(s.Graph.findNode(l.Step)), e.Status, e.Team):
	default:
		s.chooseSuccessor(at, e.stepOutcome())
	}
}

// permitsAction checks an action that the step's own rules have already checked.
func (s *State) permitsAction(l Launch, e Ended) bool {
	from := s.Graph.findNode(l.Step)
	return from != nil && slices.Contains(from.Destinations, e.To) && s.Graph.findNode(e.To) != nil &&
		(e.Action == Jump || e.Action == Call && !s.isDeepest() && e.Messages != "" && !slices.Contains(l.Closed, e.To))
}

// chooseSuccessor chooses the successor of a step without an action: its caller, else the destination of
// its static rule, else the end of the run. A caller without model calls left ends as well.
func (s *State) chooseSuccessor(at Ref, o outcome) {
	if len(s.Stack) == 0 {
		if to := s.Graph.findNode(at.Step).nextDestination(o); to != "" {
			s.transitionTo(to, at, o.status)
			return
		}
		s.endRun(o.status, "", &at)
		return
	}
	top := len(s.Stack) - 1
	frame := s.Stack[top]
	if !s.countTransition() {
		return
	}
	s.Stack = s.Stack[:top]
	l := s.newLaunch(s.Graph.findNode(frame.Step))
	l.History, l.Omitted = nil, 0 // its messages contain them
	l.Used, l.Return = frame.Iterations, &Return{Messages: frame.Messages, Called: at, Status: o.status}
	s.makePending(l)
}

// transitionTo enters a step or its replacement if the run has a transition left. Without a
// replacement, the run ends with the status of the previous step.
func (s *State) transitionTo(to string, from Ref, status Status) {
	n := s.stepToEnter(to)
	switch {
	case n == nil && (status == Failed || len(s.Stack) > 0):
		s.endRun(Failed, "there is no step to go to: "+to+" was entered as often as max_visits allows", &from)
	case n == nil:
		s.endRun(status, "", &from)
	case s.countTransition():
		s.enterStep(n)
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

func (s *State) enterStep(n *Node) {
	s.countUsage(n.Name, 1, llm.Usage{}, 0)
	s.makePending(s.newLaunch(n))
}

func (s *State) newLaunch(n *Node) Launch {
	l := Launch{Step: n.Name, Kind: n.Kind, Most: n.MaxIterations, Deepest: s.isDeepest(), Workspace: s.Workspace, Closed: s.closedDestinations(n)}
	l.History, l.Omitted = n.History.selectTexts(s.History)
	for _, name := range n.Reads {
		if ref := s.newestText(name); ref != nil {
			l.Values = append(l.Values, *ref)
		}
	}
	return l
}

// newestText returns the newest visit of a step that left a text, or nil.
func (s *State) newestText(step string) *Ref {
	for _, r := range slices.Backward(s.History) {
		if r.Step == step && !r.Textless {
			return &Ref{Number: r.Number, Step: r.Step}
		}
	}
	return nil
}

func (s *State) isDeepest() bool { return len(s.Stack) >= s.Graph.MaxDepth }

// failStep ends a failed step. A retry continues its journal or, for a session step, its team's session.
func (s *State) failStep(l Launch, e Broke) {
	e.Cause.Message = shortenText(e.Cause.Message)
	s.traceStep(TraceEntry{Number: e.Number, Step: l.Step, Status: Failed, Error: &e.Cause, Usage: e.Usage, Team: e.Team})
	if e.Cause.Type == BudgetSpent && s.endIfOverspent() {
		return
	}
	next := s.launchAfter(l, e.Token, e.Usage)
	if e.Anew {
		next.TeamOf, next.Counted, next.Told = "", llm.Usage{}, 0
	}
	s.followFailure(*next, Ref{Number: e.Number, Step: l.Step}, outcome{status: Failed, team: e.Team, failed: true}, e.Cause)
}

// followFailure follows the rule that names the failure of a step. Without such a rule it parks or
// ends the run (rule 9). A retry launches l.
func (s *State) followFailure(l Launch, at Ref, o outcome, cause Failure) {
	if s.retryStep(l, o.status, o.team) {
		return
	}
	if to := s.Graph.findNode(at.Step).nextDestination(o); to != "" {
		if !s.isRemembered(at) {
			s.rememberStep(at, false, l.statusNote(Failed, &cause))
		}
		s.transitionTo(to, at, Failed)
		return
	}
	s.Pending = &l
	if s.Graph.Park {
		s.Parked = &cause
		s.addEntry(Entry{Kind: EntryParked, Step: l.Step, Text: "waits for a person to retry or cancel"})
		return
	}
	s.Rest = s.Pending
	s.endRun(Failed, cause.Type+": "+cause.Message, &at)
}

// endRun ends the run. After an error or a cancellation, the stack still shows the waiting callers.
func (s *State) endRun(status Status, reason string, final *Ref) {
	s.Pending, s.Parked, s.Wait = nil, nil, nil
	s.Result = &Result{Status: status, Reason: shortenText(reason), Final: s.finalRef(final)}
	if final != nil && reason == "" {
		s.Result.EndedAs = s.Graph.findNode(final.Step).End
	}
	if s.Graph.Result != "" {
		s.Result.Final = s.newestText(s.Graph.Result)
	}
	text := "ended: " + string(status)
	if reason != "" {
		text += ", " + shortenText(reason)
	}
	s.addEntry(Entry{Kind: EntryEnded, Text: text})
}

// Policy selects the texts of earlier steps that a step is shown at its start.
type Policy string

// The values of Policy.
const (
	HideTexts Policy = ""     // texts of earlier steps are not shown
	AllTexts  Policy = "all"  // the texts of every visit
	LastTexts Policy = "last" // the newest of every step
)

// UnmarshalJSON also reads the booleans of graphs before protocol 3.
func (p *Policy) UnmarshalJSON(data []byte) error {
	var all bool
	if json.Unmarshal(data, &all) == nil {
		*p = HideTexts
		if all {
			*p = AllTexts
		}
		return nil
	}
	return json.Unmarshal(data, (*string)(p))
}

// maxShown bounds the number of texts that a launch lists, because launches are stored in
// the workflow's history.
const maxShown = 100

// selectTexts returns the texts that the policy selects, oldest first, and the number of older
// ones that it leaves out.
func (p Policy) selectTexts(texts []Ref) (shown []Ref, omitted int) {
	if p == HideTexts {
		return nil, 0
	}
	seen := map[string]bool{}
	for _, ref := range slices.Backward(texts) {
		if p == AllTexts || !seen[ref.Step] {
			shown = append(shown, ref)
		}
		seen[ref.Step] = true
	}
	omitted = max(0, len(shown)-maxShown)
	shown = shown[:len(shown)-omitted]
	slices.Reverse(shown)
	return shown, omitted
}

// Ref names the directory of a step.
type Ref struct {
	Number int    `json:"n"`
	Step   string `json:"step"`

	// Note tells later steps that the step failed or was cut short. Textless is set if the step left no text.
	Note     string `json:"note,omitempty"`
	Textless bool   `json:"textless,omitempty"`
}

func (s *State) rememberStep(at Ref, said bool, note string) {
	at.Note, at.Textless = note, !said
	if said || note != "" {
		s.History = append(s.History, at)
	}
}

func (s *State) isRemembered(at Ref) bool {
	return slices.ContainsFunc(s.History, func(r Ref) bool { return r.Number == at.Number && r.Step == at.Step })
}

func (l Launch) statusNote(status Status, cause *Failure) string {
	switch {
	case status == MaxIterations:
		return fmt.Sprintf("%s used up its model calls and was stopped", l.Step)
	case cause != nil:
		return shortenText(fmt.Sprintf("%s failed, %s: %s", l.Step, cause.Type, cause.Message))
	}
	return ""
}

func (s *State) finalRef(at *Ref) *Ref {
	if at == nil || !slices.ContainsFunc(s.History, func(r Ref) bool { return r.Number == at.Number && r.Step == at.Step && !r.Textless }) {
		return nil
	}
	return &Ref{Number: at.Number, Step: at.Step}
}

// Branch leads from a step to another if all its conditions match the step's end.
type Branch struct {
	When        Status `json:"when,omitempty"` // status of the step or, for a session, of its team; empty for any
	ExitCode    *int   `json:"exit_code,omitempty"`
	Failed      *bool  `json:"failed,omitempty"`       // whether the step, or a tool call of it, failed
	TextMatches string `json:"text_matches,omitempty"` // an RE2 pattern; Ended.Matched has those that match
	Output      bool   `json:"output,omitempty"`       // it has conditions on the output; Ended.Matched has those that hold

	To string `json:"to"`
}

// outcome describes the end of a step for static rules.
type outcome struct {
	status   Status
	team     string
	exitCode *int
	failed   bool
	matched  []int // the rules whose patterns match the step's text
}

func (e Ended) stepOutcome() outcome {
	return outcome{status: e.Status, team: e.Team, exitCode: e.ExitCode, failed: e.Failed || e.Status == Failed, matched: e.Matched}
}

func (n *Node) nextDestination(o outcome) string {
	for i, b := range n.Next {
		if b.fitsOutcome(i, o) {
			return b.To
		}
	}
	return ""
}

// Fits reports whether a branch may have applied to a step that ended, whatever its text was.
func (g TraceEntry) Fits(b Branch) bool {
	b.TextMatches, b.Output = "", false
	return b.fitsOutcome(0, outcome{status: g.Status, team: g.Team, exitCode: g.ExitCode, failed: g.Failed || g.Status == Failed})
}

// fitsOutcome reports whether the i-th branch of a rule applies. Only a branch that names the
// failure applies to a failed step.
func (b Branch) fitsOutcome(i int, o outcome) bool {
	named := b.When != "" && (b.When == o.status || string(b.When) == o.team)
	switch {
	case b.When != "" && !named:
	case o.status == Failed && !named && (b.Failed == nil || !*b.Failed):
	case b.ExitCode != nil && (o.exitCode == nil || *b.ExitCode != *o.exitCode):
	case b.Failed != nil && *b.Failed != o.failed:
	case (b.TextMatches != "" || b.Output) && !slices.Contains(o.matched, i):
	default:
		return true
	}
	return false
}
