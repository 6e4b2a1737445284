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
		if b, l := s.countEnded(e.Launch, e.Number, e.Usage, e.Seconds); b != nil {
			b.chooseNext(s, l, e)
		}
	case Broke:
		s.keepForReopen(e.Launch, true, e.Token, e.Usage)
		if b, l := s.countEnded(e.Launch, e.Number, e.Usage, e.Seconds); b != nil {
			b.failStep(s, l, e)
		}
	case Suspended:
		s.keepForReopen(e.Launch, true, e.Token, e.Usage)
		if b, l := s.countEnded(e.Launch, e.Number, e.Usage, e.Seconds); b != nil {
			b.addNote(s, l.Step, l.Step+" was suspended")
			next := s.launchAfter(l, e.Token, e.Usage)
			next.AwaySince = e.AwaySince
			b.makePending(s, *next)
		}
	case Asked:
		if b := s.laneOf(e.Launch); b != nil && !s.isOver(b) {
			b.askPerson(s, e)
		} else {
			s.countEnded(e.Launch, 0, llm.Usage{}, 0)
		}
	case Pause, Resume, Retry, Said, Cancel, Replied:
		s.applyRequest(e)
	case Waited:
		for _, b := range s.lanes() {
			if b.Wait != nil && b.Wait.ID == e.ID {
				b.Wait, b.Waiting = nil, false
			}
		}
	case Reopened:
		s.reopenRun(e)
	case TimeUp:
		if !s.Done() && s.Closing == nil {
			s.endAtLimit(TimeOver, fmt.Sprintf("the run's time of %d s is over: limits.seconds", s.Graph.Seconds))
		}
	}
}

// countEnded counts the usage of a running step, and returns its lane and launch if the lane continues. A
// stale event counts nothing, because the launch that continued the step reports its usage.
func (s *State) countEnded(id string, number int, usage llm.Usage, seconds float64) (*lane, Launch) {
	b := s.laneOf(id)
	left := slices.IndexFunc(s.Left, func(r launched) bool { return r.Launch.ID == id })
	var l Launch
	switch {
	case b != nil:
		l, b.Running = b.Running.Launch, nil
	case left >= 0:
		l = s.Left[left].Launch
		b = &lane{Path: l.Branch} // which is gone
		s.Left = slices.Delete(s.Left, left, left+1)
	default:
		s.addNote(s, "", "an event of launch "+id+", which does not run, changed nothing")
		return nil, l
	}
	s.Usage = s.Usage.Add(usage)
	if b.countUsage(l.Step, 0, usage, seconds); left >= 0 {
		s.countUsage(l.Step, 0, usage, seconds)
	}
	if left >= 0 || s.isOver(b) {
		b.traceStep(s, TraceEntry{Number: number, Step: l.Step, Status: Cancelled, Usage: usage})
		return nil, l
	}
	b.Newest = max(b.Newest, number)
	l.AwaySince = time.Time{}
	return b, l
}

// chooseNext chooses the next step: by the step's action or else by chooseSuccessor (rule 2).
func (b *lane) chooseNext(s *State, l Launch, e Ended) {
	at := Ref{Number: e.Number, Step: l.Step, Branch: b.Path, Lists: e.Lists}
	b.Workspace = e.Workspace
	b.traceStep(s, TraceEntry{
		Number: e.Number, Step: l.Step, Status: e.Status, Action: e.Action, To: e.To, Text: shortenText(e.Text), Error: e.Cause, Usage: e.Usage,
		ExitCode: e.ExitCode, Failed: e.Failed, Team: e.Team, Approved: e.Approved,
	})
	if e.Action != Call {
		b.rememberStep(at, e.Said, l.statusNote(e.Status, e.Cause))
	}
	switch {
	case e.Action != NoAction && !b.permitsAction(s, l, e):
		b.endLine(s, Failed, fmt.Sprintf("%s asked for %s, which the graph does not have", l.Step, strconv.Quote(shortenText(e.To))), &at)
	case e.Action == Call:
		b.Stack = append(b.Stack, frame{Step: l.Step, Messages: e.Messages, Iterations: e.Iterations})
		b.transitionTo(s, e.To, at, e.Status)
	case e.Action == Jump:
		b.transitionTo(s, e.To, at, e.Status)
	case e.Status == Failed && e.Cause != nil: // its calls are repeated
		l.ResumeFrom, l.Uncounted, l.Made = "", false, 0
		b.followFailure(s, l, at, e.stepOutcome(), *e.Cause)
	case e.Action == NoAction && b.retryStep(s, b.newLaunch(s, s.Graph.findNode(l.Step)), e.Status, e.Team):
	default:
		b.chooseSuccessor(s, at, e.stepOutcome())
	}
}

// permitsAction checks an action that the step's own rules have already checked.
func (b *lane) permitsAction(s *State, l Launch, e Ended) bool {
	from := s.Graph.findNode(l.Step)
	return from != nil && slices.Contains(from.Destinations, e.To) && s.Graph.findNode(e.To) != nil &&
		(e.Action == Jump || e.Action == Call && !b.isDeepest(s) && e.Messages != "" && !slices.Contains(l.Closed, e.To))
}

// chooseSuccessor chooses the successor of a step without an action: its caller, else the destination of
// its static rule, else the end of the lane. A caller without model calls left ends as well.
func (b *lane) chooseSuccessor(s *State, at Ref, o outcome) {
	if n := s.Graph.findNode(at.Step); o.conflict && n.OnConflict != "" {
		b.transitionTo(s, n.OnConflict, at, o.status)
		return
	}
	if len(b.Stack) == 0 {
		if to := s.Graph.findNode(at.Step).nextDestination(o); to != "" {
			b.transitionTo(s, to, at, o.status)
			return
		}
		b.endLine(s, o.status, "", &at)
		return
	}
	top := len(b.Stack) - 1
	frame := b.Stack[top]
	if !b.countTransition(s) {
		return
	}
	b.Stack = b.Stack[:top]
	l := b.newLaunch(s, s.Graph.findNode(frame.Step))
	l.History, l.Omitted = nil, 0 // its messages contain them
	l.Used, l.Return = frame.Iterations, &Return{Messages: frame.Messages, Called: at.Place(), Status: o.status}
	b.makePending(s, l)
}

// transitionTo enters a step or its replacement if the lane has a transition left. Without a
// replacement, the lane ends with the status of the previous step.
func (b *lane) transitionTo(s *State, to string, from Ref, status Status) {
	n := b.stepToEnter(s, to)
	switch {
	case n == nil && (status == Failed || len(b.Stack) > 0):
		b.endLine(s, Failed, "there is no step to go to: "+to+" was entered as often as max_visits allows", &from)
	case n == nil:
		b.endLine(s, status, "", &from)
	case b.countTransition(s):
		b.enterStep(s, n)
	}
}

// countTransition counts a transition. It ends the lane if that exceeds the limit.
func (b *lane) countTransition(s *State) bool {
	if b.Transitions >= s.Graph.MaxTransitions {
		b.endLineAtLimit(s, transitionLimit, fmt.Sprintf("the run made %d transitions, as many as max_transitions allows", b.Transitions))
		return false
	}
	b.Transitions++
	return true
}

func (b *lane) enterStep(s *State, n *Node) {
	if most := s.Graph.MaxSteps; most > 0 && s.Steps >= most && s.Closing == nil {
		s.endAtLimit(stepLimit, fmt.Sprintf("the run entered %d steps, as many as limits.steps allows", s.Steps))
		return
	}
	s.Steps++
	b.countUsage(n.Name, 1, llm.Usage{}, 0)
	b.makePending(s, b.newLaunch(s, n))
}

func (b *lane) newLaunch(s *State, n *Node) Launch {
	l := Launch{
		Step: n.Name, Kind: n.Kind, Branch: b.Path, Item: b.Item,
		Most: n.MaxIterations, Deepest: b.isDeepest(s), Workspace: b.Workspace, Closed: b.closedDestinations(s, n),
	}
	history := b.historyOf(s)
	l.History, l.Omitted = n.History.selectTexts(history)
	for _, name := range n.Reads {
		if ref := newestText(history, name); ref != nil {
			l.Values = append(l.Values, *ref)
		}
	}
	return l
}

// newestText returns the newest visit of a step that left a text, or nil.
func newestText(history []Ref, step string) *Ref {
	for _, r := range slices.Backward(history) {
		if r.Step == step && !r.Textless {
			return new(r.Place())
		}
	}
	return nil
}

func (b *lane) isDeepest(s *State) bool { return len(b.Stack) >= s.Graph.MaxDepth }

// failStep ends a failed step. A retry continues its journal or, for a session step, its team's session.
func (b *lane) failStep(s *State, l Launch, e Broke) {
	e.Cause.Message = shortenText(e.Cause.Message)
	b.traceStep(s, TraceEntry{Number: e.Number, Step: l.Step, Status: Failed, Error: &e.Cause, Usage: e.Usage, Team: e.Team})
	if e.Cause.Type == BudgetSpent && s.endIfOverspent() {
		return
	}
	next := s.launchAfter(l, e.Token, e.Usage)
	if e.Anew {
		next.TeamOf, next.Counted, next.Told = "", llm.Usage{}, 0
	}
	b.followFailure(s, *next, Ref{Number: e.Number, Step: l.Step, Branch: b.Path}, outcome{status: Failed, team: e.Team, failed: true}, e.Cause)
}

// followFailure follows the rule that names the failure of a step. Without such a rule it parks or
// ends the lane (rule 9). A retry launches l.
func (b *lane) followFailure(s *State, l Launch, at Ref, o outcome, cause Failure) {
	if b.retryStep(s, l, o.status, o.team) {
		return
	}
	if to := s.Graph.findNode(at.Step).nextDestination(o); to != "" {
		if !isRemembered(b.History, at) {
			b.rememberStep(at, false, l.statusNote(Failed, &cause))
		}
		b.transitionTo(s, to, at, Failed)
		return
	}
	b.Pending = &l
	if s.Graph.Park {
		b.Parked = &cause
		s.addEntry(Entry{Kind: EntryParked, Step: l.Step, Branch: b.Path, Text: "waits for a person to retry or cancel"})
		return
	}
	b.Rest = b.Pending
	b.endLine(s, Failed, cause.Type+": "+cause.Message, &at)
}

// endRun ends the run, or all of it but its finally step. After an error or a cancellation, the stack still shows the
// waiting callers.
func (s *State) endRun(status Status, reason string, final *Ref) {
	for _, b := range s.lanes() {
		if b.Rest == nil && b != &s.lane {
			b.Rest = b.Pending
		}
		b.Pending, b.Parked, b.Wait, b.Waiting = nil, nil, nil, false
		if l := b.withdrawQuestion(s); l != nil {
			b.Rest = l
		}
	}
	outcome := Result{Status: status, Reason: shortenText(reason), Final: finalRef(s.History, final)}
	if final != nil && reason == "" {
		outcome.EndedAs = s.Graph.findNode(final.Step).End
	}
	if s.Graph.Result != "" {
		outcome.Final = newestText(s.History, s.Graph.Result)
	}
	if s.Graph.Finally == "" || s.Closing != nil {
		s.concludeRun(outcome)
		return
	}
	s.beginClosing(outcome)
}

func (s *State) concludeRun(outcome Result) {
	s.Result = &outcome
	text := "ended: " + string(outcome.Status)
	if outcome.Reason != "" {
		text += ", " + outcome.Reason
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
	Branch string `json:"branch,omitempty"` // path of its branch; empty outside

	// Note tells later steps that the step failed or was cut short. Textless is set if the step left no text.
	Note     string `json:"note,omitempty"`
	Textless bool   `json:"textless,omitempty"`

	Lists []List `json:"lists,omitempty"` // the lists in its output that a for_each goes through
}

// List is the list of a for_each in the output of a step. The worker that ran the step counts it.
type List struct {
	For   string `json:"for"` // name of the for_each
	Items int    `json:"items,omitempty"`
	Why   string `json:"why,omitempty"` // why it can be no list of items; empty if it can
}

// Place returns the part of the reference that names the directory.
func (r Ref) Place() Ref { return Ref{Number: r.Number, Step: r.Step, Branch: r.Branch} }

// isVisit reports whether two references name the same directory.
func (r Ref) isVisit(of Ref) bool {
	return r.Number == of.Number && r.Step == of.Step && r.Branch == of.Branch
}

func (b *lane) rememberStep(at Ref, said bool, note string) {
	at.Note, at.Textless = note, !said
	if said || note != "" {
		b.History = append(b.History, at)
	}
}

func isRemembered(history []Ref, at Ref) bool {
	return slices.ContainsFunc(history, at.isVisit)
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

func finalRef(history []Ref, at *Ref) *Ref {
	if at == nil || !slices.ContainsFunc(history, func(r Ref) bool { return !r.Textless && r.isVisit(*at) }) {
		return nil
	}
	return new(at.Place())
}

// Branch leads from a step to another if all its conditions match the step's end.
type Branch struct {
	When        Status `json:"when,omitempty"` // status of the step or, for a session, of its team; empty for any
	ExitCode    *int   `json:"exit_code,omitempty"`
	Failed      *bool  `json:"failed,omitempty"`       // whether the step, or a tool call of it, failed
	TextMatches string `json:"text_matches,omitempty"` // an RE2 pattern; Ended.Matched has those that match
	Output      bool   `json:"output,omitempty"`       // it has conditions on the output; Ended.Matched has those that hold
	Conflict    *bool  `json:"conflict,omitempty"`     // whether branches changed files differently
	FailedAbove *int   `json:"failed_above,omitempty"` // more branches or items failed than this
	Approved    *bool  `json:"approved,omitempty"`     // whether a person has approved

	To string `json:"to"`
}

// outcome describes the end of a step for static rules.
type outcome struct {
	status   Status
	team     string
	exitCode *int
	failed   bool
	matched  []int // the rules whose patterns match the step's text
	conflict bool  // branches changed files differently
	lost     int   // branches or items that failed
	approved *bool // whether a person has approved; nil if none was asked
}

func (e Ended) stepOutcome() outcome {
	return outcome{status: e.Status, team: e.Team, exitCode: e.ExitCode, failed: e.Failed || e.Status == Failed, matched: e.Matched, conflict: len(e.Conflicts) > 0, lost: e.Lost, approved: e.Approved}
}

func (n *Node) nextDestination(o outcome) string {
	if o.conflict && n.OnConflict != "" {
		return n.OnConflict
	}
	for i, b := range n.Next {
		if b.fitsOutcome(i, o) {
			return b.To
		}
	}
	return ""
}

// Fits reports whether a branch may have applied to a step that ended, whatever its text was.
func (g TraceEntry) Fits(b Branch) bool {
	b.TextMatches, b.Output, b.Conflict, b.FailedAbove = "", false, nil, nil
	return b.fitsOutcome(0, outcome{status: g.Status, team: g.Team, exitCode: g.ExitCode, failed: g.Failed || g.Status == Failed, approved: g.Approved})
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
	case b.Conflict != nil && *b.Conflict != o.conflict:
	case b.FailedAbove != nil && o.lost <= *b.FailedAbove:
	case b.Approved != nil && (o.approved == nil || *b.Approved != *o.approved):
	default:
		return true
	}
	return false
}
