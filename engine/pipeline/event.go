package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/engine/llm"
)

// Event is an input of State.Step.
//
//sumtype:decl
type Event interface{ isEvent() }

// Ended reports the end of a step. Events of a launch other than the running one
// are stale and change nothing. Its JSON is the activity's result.
type Ended struct {
	Launch string `json:"-"`
	Number int    `json:"number"` // number of the step's directory
	Status Status `json:"status"` // Completed, MaxIterations, CallPending, or Failed by a tool call
	Action action `json:"action,omitempty"`
	To     string `json:"to,omitempty"` // destination of a jump or call

	// Messages is the SHA-256, in hex, of the blob with the conversation of a caller.
	// Iterations counts the step's model calls since it was entered.
	Messages   string `json:"messages,omitempty"`
	Iterations int    `json:"iterations,omitempty"`

	Text      string    `json:"text,omitempty"`      // the beginning of the step's text, for people
	Said      bool      `json:"said,omitempty"`      // the text is part of the run's history
	Workspace string    `json:"workspace,omitempty"` // hash of the manifest of its files; empty without files
	Usage     llm.Usage `json:"usage"`
	Seconds   float64   `json:"seconds,omitempty"` // time that it took, if its time is limited

	// The outcome, for static rules. ExitCode is the first exit code other than 0 of a tools step's commands.
	// Failed is set if one of its calls failed, and Cause says why. Team is the status of a team. Matched has
	// the numbers of the rules whose patterns match the whole text.
	ExitCode *int     `json:"exit_code,omitempty"`
	Failed   bool     `json:"failed,omitempty"`
	Cause    *Failure `json:"cause,omitempty"`
	Team     string   `json:"team,omitempty"`
	Matched  []int    `json:"matched,omitempty"`

	// Lists has the lists in the output that a for_each goes through. Conflicts has the paths of a join that
	// branches changed differently, and Lost the number of branches that failed.
	Lists     []List   `json:"lists,omitempty"`
	Conflicts []string `json:"conflicts,omitempty"`
	Lost      int      `json:"lost,omitempty"`

	Approved *bool `json:"approved,omitempty"` // whether a person has approved; nil unless the step asks for an approval

	// Output is the step's output, which stays in the store; nil without one.
	Output json.RawMessage `json:"-"`
}

// action is a step's own choice of the next step.
type action string

// The actions of steps.
const (
	NoAction action = ""
	Jump     action = "jump"
	Call     action = "call"
)

// Broke reports a step that failed after its last retry.
type Broke struct {
	Launch string
	Number int    // 0 before it had one
	Token  string // execution token; empty if the step left nothing to resume
	Cause  Failure
	Team   string // status of the session of a session step; empty if it has none
	Usage  llm.Usage

	// Anew is set if the session of the step's team cannot continue, so that a retry starts a new one.
	Anew bool

	Seconds float64 // time that it took, if its time is limited
}

// Failure is the reason for a step's failure: a stable type and a sentence.
type Failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Suspended reports a step that was stopped. Only its usage counts.
type Suspended struct {
	Launch string
	Number int
	Token  string
	Usage  llm.Usage

	AwaySince time.Time // when the model's server ceased to reply; zero if it replied

	Seconds float64 // time that it took, if its time is limited
}

// Pause suspends the running step and holds back launches.
type Pause struct{}

// Resume ends a pause.
type Resume struct{}

// Retry continues the failed steps of a parked run, or only that of a branch.
type Retry struct{ Branch string }

// Said is a human message to the steps, or only to those of a branch and of the branches within it.
type Said struct{ Text, Branch string }

// Cancel ends the run.
type Cancel struct{}

// TimeUp ends the run because its time is over.
type TimeUp struct{}

// Asked reports that the question of an approval step is written: the lane of the launch waits for a reply.
type Asked struct {
	Launch   string
	Question Question // without its step
}

// Replied is a person's reply to a question: Allow, with or without a Note, or an Option, from 1.
type Replied struct {
	Question string
	Allow    *bool
	Option   int
	Text     string // which no question of a step takes
	Note, By string
}

// Waited ends the wait with the ID.
type Waited struct{ ID int }

// Reopened continues a run that failed, was cancelled or was terminated, in a new execution of its workflow.
type Reopened struct {
	Run string // run that ended: the execution tokens of its steps begin with it

	// Unclaimed has the launches of the running steps that had claimed no number.
	Unclaimed []string
}

func (Ended) isEvent()     {}
func (Asked) isEvent()     {}
func (Replied) isEvent()   {}
func (Waited) isEvent()    {}
func (Reopened) isEvent()  {}
func (Broke) isEvent()     {}
func (Suspended) isEvent() {}
func (Pause) isEvent()     {}
func (Resume) isEvent()    {}
func (Retry) isEvent()     {}
func (Said) isEvent()      {}
func (Cancel) isEvent()    {}
func (TimeUp) isEvent()    {}

// Command is an output of State.Drain, to be carried out once and in order.
//
//sumtype:decl
type Command interface{ isCommand() }

// Launch starts a step, or continues it after a call, a pause or a failure.
type Launch struct {
	ID   string `json:"id"` // unique in the run: "l1", "l2", …
	Step string `json:"step"`
	Kind Kind   `json:"kind"`

	// Branch is the path of the branch, empty outside; Item is the item of a for_each. Join is set for the
	// step that joins branches.
	Branch string `json:"branch,omitempty"`
	Item   *Item  `json:"item,omitempty"`
	Join   *Join  `json:"join,omitempty"`

	// Reply is the reply with which an approval step goes on; nil while it asks.
	Reply *Reply `json:"reply,omitempty"`

	// After is the highest number of a step so far. The launch claims the first free number above it.
	After int `json:"after"`

	// Used counts the step's model calls before its calls of other steps, and Made those of
	// the attempt that this launch continues. Most is the limit.
	Used int `json:"used,omitempty"`
	Made int `json:"made,omitempty"`
	Most int `json:"most"`

	// Seconds and CostUSD are the allowances of the launch; 0 is no limit.
	Seconds float64 `json:"seconds,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`

	// Closed lists the destinations that the step cannot call because of their max_visits.
	Closed []string `json:"closed,omitempty"`

	// Deepest is set if calls are refused because the stack is full.
	Deepest bool `json:"deepest,omitempty"`

	// Return is set for a step that continues after a call.
	Return *Return `json:"return,omitempty"`

	// History lists the steps whose texts are shown. Omitted counts the older steps that it leaves out.
	History []Ref `json:"history,omitempty"`
	Omitted int   `json:"omitted,omitempty"`

	// Values lists the newest visits of the steps that the templates of the step name.
	Values []Ref `json:"values,omitempty"`

	// Workspace is the hash of the manifest of the step's initial files, or "" if there are none.
	Workspace string `json:"workspace,omitempty"`

	// Messages counts the human messages.
	Messages int `json:"messages,omitempty"`

	// ResumeFrom is the execution token of the suspended or failed attempt that this launch
	// continues; it is empty for a new attempt.
	ResumeFrom string `json:"resume_from,omitempty"`

	// Uncounted is set if no event has counted the usage of that attempt; this launch then
	// reports it as well.
	Uncounted bool `json:"uncounted,omitempty"`

	// AwaySince is when the model server stopped replying to the suspended attempt; it is
	// zero if the server replied.
	AwaySince time.Time `json:"away_since,omitzero"`

	// TeamOf is the launch that started the session to continue; if it is empty, the launch
	// starts a new session. Counted is the usage of that session that events have already
	// counted, and Told the number of human messages sent to it.
	TeamOf  string    `json:"team_of,omitempty"`
	Counted llm.Usage `json:"counted,omitzero"`
	Told    int       `json:"told,omitempty"`
}

// Return is the input of a caller that continues.
type Return struct {
	Messages string `json:"messages"` // SHA-256 of the blob with its conversation
	Called   Ref    `json:"called"`   // the step that ended the call
	Status   Status `json:"status"`   // status of that step
}

// Stop ends the running step, which can continue later.
type Stop struct{ ID string }

// Hold pauses the team of a running session step. The session itself is not stopped, because
// it keeps its progress.
type Hold struct{ ID string }

// Release resumes the team of a held session step.
type Release struct{ ID string }

// Ring tells the running step the number of human messages.
type Ring struct{ Messages int }

// Wait asks for an event Waited after a time.
type Wait struct {
	ID      int     `json:"id"`
	Step    string  `json:"step,omitempty"` // step that is tried again after it, with its branch
	Seconds float64 `json:"seconds"`
}

// Keep writes a human message to the store, before any command that announces it.
type Keep struct {
	Number int
	Text   string
	Branch string `json:",omitempty"` // path of the branch that it is for; empty for all steps
}

// IsFor reports whether the message is for the steps of a branch.
func (k Keep) IsFor(branch string) bool { return isWithin(branch, k.Branch) }

// Done ends the run.
type Done struct{ Result Result }

// Result is how a run ended.
type Result struct {
	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"` // reason for a person; empty for a regular end
	Limit  string `json:"limit,omitempty"`  // type of the error of a run that reached a limit of its own

	// EndedAs is the end of the last step, in the definition's own words; empty without one.
	EndedAs string `json:"ended_as,omitempty"`

	// Final is the step with the run's text; nil if the run has no text.
	Final *Ref `json:"final,omitempty"`
}

func (Launch) isCommand()  {}
func (Stop) isCommand()    {}
func (Hold) isCommand()    {}
func (Release) isCommand() {}
func (Ring) isCommand()    {}
func (Keep) isCommand()    {}
func (Wait) isCommand()    {}
func (Done) isCommand()    {}

// Bounds of human messages.
const (
	maxText     = 4 << 10 // most bytes of one message
	maxMessages = 100     // most messages of a run
)

// Refuse returns the reason, for people, why a person's request has no effect now. It returns
// nil for other events.
func (s *State) Refuse(event Event) error {
	if _, ok := event.(Reopened); ok {
		return s.refuseReopened()
	}
	if s.Done() {
		switch e := event.(type) {
		case Replied:
			return s.refuseClosed(e.Question)
		case Pause, Resume, Retry, Said, Cancel:
			return errors.New("the run is over")
		case Ended, Broke, Suspended, Reopened, TimeUp, Waited, Asked:
		}
		return nil
	}
	switch e := event.(type) {
	case Pause:
		if s.Paused {
			return errors.New("the run is paused already")
		}
	case Resume:
		switch {
		case s.Paused:
		case s.parkedLane() != nil:
			return errors.New("the run is not paused but parked: retry or cancel it")
		default:
			return errors.New("the run is not paused")
		}
	case Retry:
		return s.refuseRetry(e)
	case Said:
		return s.refuseSaid(e)
	case Replied:
		return s.refuseReplied(e)
	case Cancel, Ended, Broke, Suspended, Reopened, TimeUp, Waited, Asked:
	}
	return nil
}

func (s *State) refuseRetry(e Retry) error {
	if err := s.refuseBranch(e.Branch); err != nil {
		return err
	}
	if len(s.parkedIn(e.Branch)) == 0 {
		return errors.New("no step has failed")
	}
	return nil
}

// parkedIn returns the lanes of a branch that wait for a person; an empty path means all.
func (s *State) parkedIn(branch string) (parked []*lane) {
	for _, b := range s.lanes() {
		if b.Parked != nil && isWithin(b.Path, branch) {
			parked = append(parked, b)
		}
	}
	return parked
}

// isWithin reports whether a branch is another or within it. Every branch is within the empty one.
func isWithin(branch, other string) bool {
	return other == "" || branch == other || strings.HasPrefix(branch, other+"/")
}

// refuseBranch returns an error if no open branch has the path.
func (s *State) refuseBranch(branch string) error {
	var open []string
	for _, b := range s.lanes() {
		if b.Path == branch {
			return nil
		}
		open = append(open, b.Path)
	}
	if len(open) == 1 {
		return fmt.Errorf("there is no branch %s now: the run has one line of steps", strconv.Quote(shortenText(branch)))
	}
	return fmt.Errorf("there is no open branch %s; open are %s", strconv.Quote(shortenText(branch)), shortenText(strings.Join(open[1:], ", ")))
}

func (s *State) refuseSaid(e Said) error {
	if err := s.refuseBranch(e.Branch); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(e.Text) == "":
		return errors.New("the text is empty")
	case len(e.Text) > maxText:
		return fmt.Errorf("the text has %d bytes, at most %d are accepted", len(e.Text), maxText)
	case len(s.Messages) >= maxMessages:
		return fmt.Errorf("the run has %d messages, the most that it accepts", maxMessages)
	}
	return nil
}

// Unread records that a person's request could not be read, and why.
func (s *State) Unread(request, why string) {
	s.addNote(s, "", request+" ignored: "+shortenText(why))
}

func (s *State) applyRequest(event Event) {
	if err := s.Refuse(event); err != nil {
		s.addNote(s, "", "ignored: "+err.Error())
		return
	}
	switch e := event.(type) {
	case Pause:
		s.Paused = true
		s.addEntry(Entry{Kind: EntryPaused, Text: "paused"})
	case Resume:
		s.Paused = false
		s.addNote(s, "", "resumed")
	case Retry:
		for _, b := range s.parkedIn(e.Branch) {
			if b.Parked = nil; b.End == nil && !s.Done() {
				b.addNote(s, b.current(), "the failed step is retried")
				b.tryAgain(s)
			}
		}
	case Said:
		s.Messages = append(s.Messages, Keep{Number: len(s.Messages) + 1, Text: strings.ToValidUTF8(e.Text, "\uFFFD"), Branch: e.Branch})
		s.addEntry(Entry{Branch: e.Branch, Text: "human message: " + shortenText(e.Text)})
	case Replied:
		s.takeReplied(e)
	case Cancel:
		if s.Closing != nil { // which only its finally step still keeps from its end
			s.Closing.Status, s.Closing.Reason = Cancelled, "the run was cancelled"
			return
		}
		s.Rest = s.Pending
		s.endRun(Cancelled, "the run was cancelled", nil)
	case Ended, Broke, Suspended, Reopened, TimeUp, Waited, Asked:
	}
}

// Outline returns the part of the state that is not recorded elsewhere: everything but the
// graph, the trace and the timeline.
func (s *State) Outline() *State {
	o := *s
	o.Graph, o.Trace, o.Recent = Graph{}, nil, nil
	return &o
}

// Complete returns the full state for an outline.
func (s *State) Complete(g Graph, trace []TraceEntry) *State {
	c := *s
	c.Graph, c.Trace, c.Recent = g, slices.Clip(append([]TraceEntry{}, trace...)), []Entry{}
	return &c
}

// Claimed is a step that has claimed a number in its lane. The recorded state may not contain its end.
type Claimed struct {
	Branch string
	Launch string
	Token  string
	Number int
	Ended  *Ended    // nil without a commit
	Usage  llm.Usage // usage of a step without a commit
}

// Reach advances a lane of the recorded state to a launch and returns the launch's step. The launch may be the
// next one of the lane, or it may follow suspended steps. known is the number of launches that were on record. It
// returns false if the launch cannot follow.
func (s *State) Reach(branch, launch string, known int) (name string, running bool) {
	b := s.findLane(branch)
	if b == nil || b.End != nil || s.Done() {
		return "", false
	}
	if b.Running != nil && b.Running.Launch.ID == launch {
		return b.Running.Launch.Step, true
	}
	if n := LaunchNumber(launch); n > known {
		if b.Asking != nil { // its reply is not on record
			b.Pending, b.Asking = &b.Asking.Launch, nil
		}
		if b.Running != nil {
			s.Step(Suspended{Launch: b.Running.Launch.ID})
		}
		if b.Pending != nil && b.End == nil && !s.Done() {
			s.Paused, b.Parked, b.Wait, b.Waiting = false, nil, nil, false
			newest := s.Launches
			s.Launches = n - 1
			l := b.launchPending(s)
			s.Launches = max(newest, n)
			return l.Step, true
		}
	}
	return "", false
}

// CatchUp applies the end of the running step, which the recorded state does not contain. If
// last is set, no later step has begun, and a step without a commit keeps running.
func (s *State) CatchUp(c Claimed, last bool) {
	switch {
	case c.Ended != nil:
		e := *c.Ended
		e.Launch = c.Launch
		s.Step(e)
	case !last:
		s.Step(Suspended{Launch: c.Launch, Number: c.Number, Token: c.Token, Usage: c.Usage})
	}
}

// LaunchNumber returns the number of a launch ID, or 0 for any other text.
func LaunchNumber(launch string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(launch, "l"))
	return n
}
