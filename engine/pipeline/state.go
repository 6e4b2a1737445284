package pipeline

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// Protocol is the version of the rules. A State keeps the version with which it was started;
// a run of another version is not continued by this one.
const Protocol = 5

// State is a run: plain data that survives JSON unchanged. It is not safe for concurrent use.
type State struct {
	Protocol int   `json:"protocol"`
	Graph    Graph `json:"graph"`

	Stack    []frame   `json:"stack"`             // waiting callers, the innermost last
	Pending  *Launch   `json:"pending,omitempty"` // launch of the next step
	Running  *launched `json:"running,omitempty"` // the launched step
	Launches int       `json:"launches"`          // number of launch IDs given
	Newest   int       `json:"newest"`            // highest number of a step

	Transitions int          `json:"transitions"`
	Trace       []TraceEntry `json:"trace"` // ended steps; only the newest 50 have texts
	History     []Ref        `json:"history"`
	Workspace   string       `json:"workspace,omitempty"`

	Spent map[string]tally `json:"spent,omitempty"` // usage and time by step
	Usage llm.Usage        `json:"usage"`           // usage of all steps, failed and suspended ones included

	Messages  []Keep   `json:"messages,omitempty"` // texts only until they are drained
	Announced int      `json:"rung,omitempty"`     // messages announced to the running step
	Paused    bool     `json:"paused,omitempty"`
	Parked    *Failure `json:"parked,omitempty"` // the failure that waits for a person

	Wait    *Wait `json:"wait,omitempty"`    // the wait before the pending launch; nil without one
	Waiting bool  `json:"waiting,omitempty"` // Wait was drained
	Waits   int   `json:"waits,omitempty"`   // number of waits

	Rest *Launch `json:"rest,omitempty"` // the failed or cancelled step of a run that is over; nil without one
	Late bool    `json:"late,omitempty"` // whether that step ended by itself afterwards

	Result   *Result `json:"outcome,omitempty"` // nil until the run is over
	Finished bool    `json:"told,omitempty"`    // whether Done was drained

	Events int     `json:"events"`
	Recent []Entry `json:"recent"`
}

// frame is a waiting caller.
type frame struct {
	Step       string `json:"step"`
	Messages   string `json:"messages"`   // SHA-256 of the blob with its conversation
	Iterations int    `json:"iterations"` // number of its model calls
}

// launched is a running step.
type launched struct {
	Launch  Launch `json:"launch"`
	Stopped bool   `json:"stopped,omitempty"` // whether Stop was drained
	Holding bool   `json:"held,omitempty"`    // Hold was drained, and Release was not
}

// TraceEntry is an ended step in the trace.
type TraceEntry struct {
	Number int       `json:"number"` // 0 for a caller that ended on its return
	Step   string    `json:"step"`
	Status Status    `json:"status"`
	Action action    `json:"action"` // empty without one
	To     string    `json:"to,omitempty"`
	Text   string    `json:"text,omitempty"` // truncated text
	Error  *Failure  `json:"error,omitempty"`
	Usage  llm.Usage `json:"usage"`

	ExitCode *int   `json:"exit_code,omitempty"` // exit code of a tools step's commands
	Failed   bool   `json:"failed,omitempty"`    // a call of a tools step failed
	Team     string `json:"team,omitempty"`      // status of a session step's team
}

// End describes the end of the step for people: its status and its outcome.
func (g TraceEntry) End() string {
	end := string(g.Status)
	switch {
	case g.ExitCode != nil:
		end += ", exit code " + strconv.Itoa(*g.ExitCode)
	case g.Failed:
		end += ", a call failed"
	case g.Team != "":
		end += ", " + g.Team
	}
	return end
}

// New starts a run of the graph; the first Drain launches the first step.
func New(g Graph) *State {
	s := &State{Protocol: Protocol, Graph: g, Stack: []frame{}, Trace: []TraceEntry{}, History: []Ref{}, Recent: []Entry{}}
	s.enterStep(s.Graph.findNode(g.Start))
	return s
}

// Done reports whether the run is over.
func (s *State) Done() bool { return s.Result != nil }

// Held reports whether the run is paused or parked.
func (s *State) Held() bool { return !s.Done() && (s.Paused || s.Parked != nil) }

// Drain returns the commands that are due, each once.
func (s *State) Drain() []Command {
	var commands []Command
	for _, m := range s.TakeMessages() {
		commands = append(commands, m)
	}
	switch {
	case s.Result != nil && s.Finished:
	case s.Result != nil:
		s.Finished = true
		commands = append(commands, s.stopRunning()...)
		commands = append(commands, Done{*s.Result})
	case s.Paused && s.Running != nil && s.Running.Launch.Kind == Session:
		commands = append(commands, s.holdTeam(true)...)
	case s.Paused:
		commands = append(commands, s.stopRunning()...)
	case s.Running != nil && s.Running.Holding:
		commands = append(commands, s.holdTeam(false)...)
	case s.Parked != nil:
	case s.Pending != nil && s.Wait != nil && s.Waiting:
	case s.Pending != nil && s.Wait != nil:
		s.Waiting = true
		commands = append(commands, *s.Wait)
	case s.Pending != nil:
		commands = append(commands, s.launchPending())
	case s.Running != nil && s.Announced < len(s.Messages):
		s.Announced = len(s.Messages)
		commands = append(commands, Ring{s.Announced})
	}
	return commands
}

// TakeMessages returns the messages that have not been drained.
func (s *State) TakeMessages() (taken []Keep) {
	for i := range s.Messages {
		if m := &s.Messages[i]; m.Text != "" {
			taken = append(taken, *m)
			m.Text = ""
		}
	}
	return taken
}

// launchPending starts the pending step, which reads all messages when it starts.
func (s *State) launchPending() Launch {
	l := *s.Pending
	s.Launches++
	l.ID = "l" + strconv.Itoa(s.Launches)
	l.After, l.Messages = s.Newest, len(s.Messages)
	s.Pending, s.Running, s.Announced = nil, &launched{Launch: l}, len(s.Messages)
	switch {
	case l.ResumeFrom != "":
		s.addNote(l.Step, l.Step+" continues")
	case l.Return != nil:
		s.addNote(l.Step, l.Step+" continues after "+l.Return.Called.Step)
	default:
		s.addNote(l.Step, l.Step+" begins")
	}
	return l
}

// stopRunning ends the running step, once.
func (s *State) stopRunning() []Command {
	if s.Running == nil || s.Running.Stopped {
		return nil
	}
	s.Running.Stopped = true
	return []Command{Stop{s.Running.Launch.ID}}
}

// holdTeam pauses or resumes the team of the running session step, once.
func (s *State) holdTeam(on bool) []Command {
	r := s.Running
	if r.Holding == on {
		return nil
	}
	r.Holding = on
	if on {
		return []Command{Hold{r.Launch.ID}}
	}
	return []Command{Release{r.Launch.ID}}
}

// Current returns the running or pending step, or "".
func (s *State) Current() string {
	switch {
	case s.Running != nil:
		return s.Running.Launch.Step
	case s.Pending != nil:
		return s.Pending.Step
	}
	return ""
}

// View is the answer to the state query.
type View struct {
	Step        string       `json:"step"`  // running or next; empty if there is neither
	Stack       []string     `json:"stack"` // waiting callers, the innermost last
	Trace       []TraceEntry `json:"trace"`
	Transitions int          `json:"transitions"`
	Paused      bool         `json:"paused"`
	Parked      *string      `json:"parked"` // null, or the remedy and the failure
	Messages    int          `json:"messages"`
	Usage       llm.Usage    `json:"usage"`
	Events      int          `json:"events"`
}

// View describes the run. It shares no memory with the state.
func (s *State) View() View {
	v := View{
		Step: s.Current(), Stack: []string{}, Trace: append([]TraceEntry{}, s.Trace...),
		Transitions: s.Transitions, Paused: s.Paused, Messages: len(s.Messages), Usage: s.Usage, Events: s.Events,
	}
	v.Stack = append(v.Stack, text.Each(s.Stack, func(f frame) string { return f.Step })...)
	if s.Parked != nil && !s.Done() {
		why := "retry or cancel: " + s.Current() + " failed, " + s.Parked.Type + ": " + s.Parked.Message
		v.Parked = &why
	}
	return v
}

// Entry is one line of the timeline.
type Entry struct {
	Seq  int       `json:"seq"`            // number of the entry, from 1
	Kind EntryKind `json:"kind,omitempty"` // empty for most
	Step string    `json:"step,omitempty"`
	Text string    `json:"text"` // text for people

	Time time.Time `json:"time,omitzero"` // set by State.Stamp
}

// EntryKind marks the entries that programs act upon.
type EntryKind string

// The kinds of entries.
const (
	EntryPaused    EntryKind = "paused"    // the run was paused
	EntryParked    EntryKind = "parked"    // the run was parked
	EntryCancelled EntryKind = "cancelled" // a step that still ran at the end of the run
	EntryEnded     EntryKind = "ended"     // the run has ended
)

const (
	keptEntries    = 50  // most entries of the timeline that continue-as-new carries
	keptCharacters = 280 // most characters of a text
)

// Timeline returns the last 50 entries, oldest first.
func (s *State) Timeline() []Entry { return append([]Entry{}, s.Recent...) }

// Stamp sets the time of entries that have none. The state has no clock, so the driver calls
// it after Step and Drain.
func (s *State) Stamp(now time.Time) {
	for i := range s.Recent {
		if s.Recent[i].Time.IsZero() {
			s.Recent[i].Time = now
		}
	}
}

func (s *State) addNote(step, text string) { s.addEntry(Entry{Step: step, Text: text}) }

func (s *State) addEntry(e Entry) {
	s.Events++
	e.Seq = s.Events
	if len(s.Recent) == keptEntries {
		s.Recent = slices.Delete(s.Recent, 0, 1)
	}
	s.Recent = append(s.Recent, e)
}

func (s *State) traceStep(g TraceEntry) {
	s.Trace = append(s.Trace, g)
	if old := len(s.Trace) - 1 - keptEntries; old >= 0 {
		s.Trace[old].Text = "" // the result and continue-as-new carry the whole trace
	}
	e := Entry{Step: g.Step, Text: g.Step + " ended: " + g.End()}
	if g.Status == Cancelled {
		e.Kind = EntryCancelled
	}
	switch g.Action {
	case Jump:
		e.Text = g.Step + " jumped to " + shortenText(g.To)
	case Call:
		e.Text = g.Step + " called " + shortenText(g.To)
	case NoAction:
	}
	s.addEntry(e)
}

func shortenText(s string) string { return text.HeadRunes(s, keptCharacters) }

// Stands reports whether the run has ended with a result that reopening cannot replace.
func (s *State) Stands() bool {
	return s.Done() && s.Result.Status != Failed && s.Result.Status != Cancelled
}

// refuseReopened returns the reason why a run cannot be reopened.
func (s *State) refuseReopened() error {
	switch {
	case !s.Done():
		return nil
	case s.Stands():
		return errors.New("the run has ended, " + string(s.Result.Status) + "; its result stands")
	case s.Result.Limit != "":
		return errors.New(s.Result.Reason + "; start it again with a higher limit")
	case s.Rest == nil && s.Running == nil:
		return errors.New("no step failed that could be run again: " + s.Result.Reason)
	}
	return nil
}

// reopenRun makes the step that failed or was cut off pending (rule 15).
func (s *State) reopenRun(e Reopened) {
	if err := s.refuseReopened(); err != nil {
		s.addNote("", "ignored: "+err.Error())
		return
	}
	cutOff := s.Running
	s.Result, s.Finished, s.Paused, s.Parked, s.Running = nil, false, false, nil, nil
	switch {
	case cutOff != nil && e.Unclaimed:
		s.Pending = s.launchAgain(cutOff.Launch, "", false)
	case cutOff != nil:
		s.Pending = s.launchAgain(cutOff.Launch, e.Run+"-"+cutOff.Launch.ID, true)
	case s.Rest != nil && s.Late:
		s.Pending = s.launchAgain(*s.Rest, e.Run+"-"+s.Rest.ID, false)
	case s.Rest != nil:
		s.Pending = s.Rest
	}
	s.Rest, s.Late = nil, false
	if s.Pending != nil {
		s.Pending.AwaySince = time.Time{} // a person says that it is mended
	}
	s.addNote(s.Current(), "the run goes on with "+s.Current())
	s.tryAgain()
}

// keepForReopen remembers a step that ends after its run, to resume it if the run is reopened. If the
// step did not report its end, the token of its journal is read from the store later.
func (s *State) keepForReopen(launch string, reported bool, token string, spent llm.Usage) {
	if r := s.Running; s.Done() && r != nil && r.Launch.ID == launch {
		s.Rest, s.Late = s.launchAfter(r.Launch, token, spent), !reported
	}
}

// launchAfter returns the launch that continues an ended step. If spent counts no model call, the
// usage of the step is zero or unknown.
func (s *State) launchAfter(l Launch, token string, spent llm.Usage) *Launch {
	next := s.launchAgain(l, token, spent.ModelCalls == 0)
	switch {
	case l.Kind == Session:
		next.Counted = next.Counted.Add(spent)
	case token != "":
		next.Made += int(spent.ModelCalls)
	}
	return next
}

// launchAgain returns the launch that continues a step: with the journal of token or, for a session
// step, with the session of its team.
func (s *State) launchAgain(l Launch, token string, uncounted bool) *Launch {
	switch {
	case l.Kind == Session:
		l.TeamOf, l.Told = cmp.Or(l.TeamOf, l.ID), s.Announced
	case token != "":
		l.ResumeFrom, l.Uncounted = token, uncounted
	}
	return &l
}
