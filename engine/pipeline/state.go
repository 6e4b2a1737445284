package pipeline

import (
	"cmp"
	"encoding/json"
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

	lane            // the first one; the others are its branches
	Left []launched `json:"left,omitempty"` // steps of branches that a join has cut off, until they end

	Launches int          `json:"launches"`        // number of launch IDs given
	Steps    int          `json:"steps,omitempty"` // steps that were entered, in all lanes
	Trace    []TraceEntry `json:"trace"`           // ended steps; only the newest 50 have texts
	Usage    llm.Usage    `json:"usage"`           // usage of all steps, failed and suspended ones included

	Messages  []Keep   `json:"messages,omitempty"` // texts only until they are drained
	Announced int      `json:"rung,omitempty"`     // messages announced to the running steps
	Paused    bool     `json:"paused,omitempty"`
	Closed    []closed `json:"closed,omitempty"`  // the newest questions that are closed
	Replies   []Reply  `json:"replies,omitempty"` // replies that the driver has not taken
	Waits     int      `json:"waits,omitempty"`   // number of waits

	Closing *Result `json:"closing,omitempty"` // the outcome of a run whose finally step runs; nil before
	Closer  *lane   `json:"closer,omitempty"`  // the lane of the finally step; nil before

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
	Branch path      `json:"branch"` // path of its branch; null outside
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
	Approved *bool  `json:"approved,omitempty"`  // whether a person has approved an approval step
}

// path is the path of a lane, null in JSON for the first one.
type path string

// MarshalJSON writes null for the first lane.
func (p path) MarshalJSON() ([]byte, error) {
	if p == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(p))
}

// Place names the step with its branch, for people.
func (g TraceEntry) Place() string {
	if g.Branch == "" {
		return g.Step
	}
	return string(g.Branch) + " · " + g.Step
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
	case g.Approved != nil:
		end += ", " + Reply{Allow: *g.Approved}.decision()
	}
	return end
}

// New starts a run of the graph; the first Drain launches the first step.
func New(g Graph) *State {
	s := &State{Protocol: Protocol, Graph: g, lane: lane{Stack: []frame{}, History: []Ref{}}, Trace: []TraceEntry{}, Recent: []Entry{}}
	s.enterStep(s, s.Graph.findNode(g.Start))
	return s
}

// Done reports whether the run is over.
func (s *State) Done() bool { return s.Result != nil }

// Held reports whether the run is paused or parked.
func (s *State) Held() bool { return !s.Done() && (s.Paused || s.parkedLane() != nil) }

// parkedLane returns the first lane that waits for a person, if no other lane can go on; else nil.
func (s *State) parkedLane() (parked *lane) {
	for _, b := range s.lanes() {
		switch {
		case b.Parked != nil && parked == nil:
			parked = b
		case b.Running != nil, b.Pending != nil && b.Parked == nil:
			return nil
		}
	}
	return parked
}

// Drain returns the commands that are due, each once.
func (s *State) Drain() []Command { return s.drain(true) }

// DrainRunning returns the commands that are due except launches. A driver that launches nothing more comes to a
// point at which no step runs.
func (s *State) DrainRunning() []Command { return s.drain(false) }

func (s *State) drain(launch bool) []Command {
	var commands []Command
	for _, m := range s.TakeMessages() {
		commands = append(commands, m)
	}
	over := s.Result != nil
	if over && s.Finished {
		return commands
	}
	for i := range s.Left {
		commands = append(commands, s.Left[i].stop()...)
	}
	s.eachLane(func(b *lane) {
		if b.Running != nil && s.isOver(b) {
			commands = append(commands, b.Running.stop()...)
		}
	})
	if over {
		s.Finished = true
		return append(commands, Done{*s.Result})
	}
	for _, b := range s.lanes() {
		if (launch || b.Running != nil) && !s.isOver(b) {
			commands = append(commands, b.drainLane(s)...)
		}
	}
	released := func(c Command) bool { _, is := c.(Release); return is }
	if slices.ContainsFunc(commands, released) { // a team that is released is told in the next task, as in recorded histories
		return commands
	}
	return append(commands, s.ringSteps()...)
}

// drainLane returns the command that is due in a lane.
func (b *lane) drainLane(s *State) []Command {
	r := b.Running
	switch {
	case s.Paused && r != nil && r.Launch.Kind == Session:
		return r.holdTeam(true)
	case s.Paused && r != nil:
		return r.stop()
	case s.Paused:
	case r != nil && r.Holding:
		return r.holdTeam(false)
	case b.Parked != nil, b.Pending == nil:
	case b.Wait != nil && b.Waiting:
	case b.Wait != nil:
		b.Waiting = true
		return []Command{*b.Wait}
	default:
		return []Command{b.launchPending(s)}
	}
	return nil
}

// ringSteps announces new messages to the steps that were launched before them.
func (s *State) ringSteps() []Command {
	if s.Paused || s.Announced == len(s.Messages) {
		return nil
	}
	deaf, running := false, false
	for _, r := range s.runningSteps() {
		running = true
		deaf = deaf || r.Launch.Messages < len(s.Messages)
	}
	if !running {
		return nil
	}
	s.Announced = len(s.Messages)
	if !deaf {
		return nil
	}
	return []Command{Ring{s.Announced}}
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

// launchPending starts the pending step of a lane, which reads all messages when it starts.
func (b *lane) launchPending(s *State) Launch {
	s.Launches++
	l := *b.Pending
	l.ID = "l" + strconv.Itoa(s.Launches)
	l.After, l.Messages = b.Newest, len(s.Messages)
	b.Pending, b.Running = nil, &launched{Launch: l}
	switch {
	case l.ResumeFrom != "":
		b.addNote(s, l.Step, l.Step+" continues")
	case l.Return != nil:
		b.addNote(s, l.Step, l.Step+" continues after "+l.Return.Called.Step)
	case l.Join != nil:
		b.addNote(s, l.Step, l.Step+" joins its branches")
	case l.Reply != nil:
		b.addNote(s, l.Step, l.Step+" goes on with the reply")
	case l.Asks():
	default:
		b.addNote(s, l.Step, l.Step+" begins")
	}
	return l
}

// stop ends a running step, once.
func (r *launched) stop() []Command {
	if r.Stopped {
		return nil
	}
	r.Stopped = true
	return []Command{Stop{r.Launch.ID}}
}

// holdTeam pauses or resumes the team of a running session step, once.
func (r *launched) holdTeam(on bool) []Command {
	if r.Holding == on {
		return nil
	}
	r.Holding = on
	if on {
		return []Command{Hold{r.Launch.ID}}
	}
	return []Command{Release{r.Launch.ID}}
}

// Current returns the running, pending or forked step of the first lane, or "".
func (s *State) Current() string {
	if s.Closer != nil && !s.Done() {
		return s.Closer.current()
	}
	return s.current()
}

// View is the answer to the state query.
type View struct {
	Step        string       `json:"step"`  // running or next; empty if there is neither
	Stack       []string     `json:"stack"` // waiting callers, the innermost last
	Branches    []LaneView   `json:"branches,omitempty"`
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
	v.Stack = append(v.Stack, s.callers()...)
	if s.Done() {
		return v
	}
	if b := s.parkedLane(); b != nil {
		v.Parked = b.remedy()
	}
	for _, b := range s.lanes() {
		if b.Path != "" {
			v.Branches = append(v.Branches, LaneView{Branch: b.Path, Step: b.current(), Stack: append([]string{}, b.callers()...), Parked: b.remedy()})
		}
	}
	return v
}

func (b *lane) callers() []string { return text.Each(b.Stack, func(f frame) string { return f.Step }) }

// remedy returns how a parked lane can go on, and why it is parked; nil if it is not.
func (b *lane) remedy() *string {
	if b.Parked == nil {
		return nil
	}
	who := b.current()
	if b.Path != "" {
		who += " of " + b.Path
	}
	return new("retry or cancel: " + who + " failed, " + b.Parked.Type + ": " + b.Parked.Message)
}

// Entry is one line of the timeline.
type Entry struct {
	Seq  int       `json:"seq"`            // number of the entry, from 1
	Kind EntryKind `json:"kind,omitempty"` // empty for most
	Step string    `json:"step,omitempty"`

	Branch string `json:"branch,omitempty"` // path of the step's branch; empty outside

	Text string `json:"text"` // text for people

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
	EntryAsked     EntryKind = "asked"     // a step asks a person
	EntryReplied   EntryKind = "replied"   // a person has chosen an option
	EntryApproved  EntryKind = "approved"  // a person has approved
	EntryDenied    EntryKind = "denied"    // a person has refused
	EntryWithdrawn EntryKind = "withdrawn" // a question is closed without a reply
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

func (b *lane) addNote(s *State, step, text string) {
	s.addEntry(Entry{Step: step, Branch: b.Path, Text: text})
}

func (s *State) addEntry(e Entry) {
	if e.Branch != "" && e.Step != "" {
		e.Text = e.Branch + ": " + e.Text
	}
	s.Events++
	e.Seq = s.Events
	if len(s.Recent) == keptEntries {
		s.Recent = slices.Delete(s.Recent, 0, 1)
	}
	s.Recent = append(s.Recent, e)
}

func (b *lane) traceStep(s *State, g TraceEntry) {
	g.Branch = path(b.Path)
	s.Trace = append(s.Trace, g)
	if old := len(s.Trace) - 1 - keptEntries; old >= 0 {
		s.Trace[old].Text = "" // the result and continue-as-new carry the whole trace
	}
	e := Entry{Step: g.Step, Branch: b.Path, Text: g.Step + " ended: " + g.End()}
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
func (s *State) Stands() bool { return s.Done() && s.Result.stands() }

func (r *Result) stands() bool { return r.Status != Failed && r.Status != Cancelled }

// refuseReopened returns the reason why a run cannot be reopened.
func (s *State) refuseReopened() error {
	switch {
	case !s.Done():
		return nil
	case s.Stands():
		return errors.New("the run has ended, " + string(s.Result.Status) + "; its result stands")
	case s.Result.Limit != "":
		return errors.New(s.Result.Reason + "; start it again with a higher limit")
	}
	again := false
	s.eachLane(func(b *lane) { again = again || b.Rest != nil || b.Running != nil })
	if !again {
		return errors.New("no step failed that could be run again: " + s.Result.Reason)
	}
	return nil
}

// reopenRun makes the steps that failed or were cut off pending (rule 15).
func (s *State) reopenRun(e Reopened) {
	if err := s.refuseReopened(); err != nil {
		s.addNote(s, "", "ignored: "+err.Error())
		return
	}
	s.Result, s.Finished, s.Paused, s.Left = nil, false, false, nil
	if s.Closing != nil && s.Closing.stands() { // only its finally step failed
		s.Closer.reviveLane(s, e)
		return
	}
	s.Closing, s.Closer = nil, nil
	s.reviveLane(s, e)
	for _, b := range slices.Backward(s.lanes()) {
		if b.Fork != nil && !s.Done() {
			b.settleFork(s)
		}
	}
}

// keepForReopen remembers a step that ends after its run, to resume it if the run is reopened. If the
// step did not report its end, the token of its journal is read from the store later.
func (s *State) keepForReopen(launch string, reported bool, token string, spent llm.Usage) {
	if b := s.laneOf(launch); b != nil && s.isOver(b) {
		b.Rest, b.Late = s.launchAfter(b.Running.Launch, token, spent), !reported
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
