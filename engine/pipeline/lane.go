package pipeline

import (
	"slices"
	"strconv"
	"time"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// lane is one line of a run: steps that follow one another, the callers that wait among them, and the fork
// at which the line waits for its branches. A run begins with one lane; each branch and each item is another.
type lane struct {
	Path string `json:"path,omitempty"` // such as review/style or each/12; empty for the run's first lane
	Item *Item  `json:"item,omitempty"` // the item of a for_each; nil outside

	Stack   []frame   `json:"stack"`             // waiting callers, the innermost last
	Pending *Launch   `json:"pending,omitempty"` // launch of the next step
	Running *launched `json:"running,omitempty"` // the launched step
	Fork    *fork     `json:"fork,omitempty"`    // nil unless the lane waits for branches
	Newest  int       `json:"newest"`            // highest number of a step

	Transitions int              `json:"transitions"`
	History     []Ref            `json:"history"`             // without that of the lane that it branched from
	Workspace   string           `json:"workspace,omitempty"` // hash of a manifest
	Spent       map[string]tally `json:"spent,omitempty"`     // visits, usage and time by step

	Parked  *Failure `json:"parked,omitempty"`  // the failure that waits for a person
	Asking  *asking  `json:"asking,omitempty"`  // the question that waits for a reply
	Wait    *Wait    `json:"wait,omitempty"`    // the wait before the pending launch; nil without one
	Waiting bool     `json:"waiting,omitempty"` // Wait was drained

	Rest *Launch `json:"rest,omitempty"` // the failed or cut step of a lane that is over; nil without one
	Late bool    `json:"late,omitempty"` // whether that step ended by itself afterwards

	End *laneEnd `json:"ended,omitempty"` // nil while a branch is open, and for the first lane
}

// laneEnd is how a branch ended.
type laneEnd struct {
	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"` // why it failed
	Final  *Ref   `json:"final,omitempty"`  // its last step, if that left a text
}

// fork is the place at which a lane waits for its branches.
type fork struct {
	Step  string  `json:"step"`            // of kind parallel or for_each
	Lanes []*lane `json:"lanes"`           // in the order of the branches or items that have begun
	Items int     `json:"items,omitempty"` // number of items of a for_each
	From  *Ref    `json:"from,omitempty"`  // the visit whose output has them; nil if the definition has them
}

// Item is an item of a for_each: its index in the list of a step's output or of the definition.
type Item struct {
	Step  string `json:"step"` // the for_each
	Index int    `json:"index"`
	From  *Ref   `json:"from,omitempty"` // the visit whose output has the list; nil for a list of the definition
}

// Join has the ends of the branches of a fork, for the step that joins them.
type Join struct {
	Branches []Joined `json:"branches"`
}

// Joined is one branch of a Join.
type Joined struct {
	Name      string `json:"name"` // of the branch, or the index of the item
	Status    Status `json:"status"`
	Reason    string `json:"reason,omitempty"`
	Final     *Ref   `json:"final,omitempty"`
	Workspace string `json:"workspace,omitempty"` // hash of the manifest of its files, if it changed any
	Changed   bool   `json:"changed,omitempty"`   // whether its files differ from those at the fork
}

// isFork reports whether a step of the kind forks its lane.
func (k Kind) isFork() bool { return k == Parallel || k == ForEach || k == Nested }

// lanes returns every lane that has not ended, alone or with the lane that it branched from, in the order of the
// tree: a lane before its branches.
func (s *State) lanes() (all []*lane) {
	var walk func(b *lane)
	walk = func(b *lane) {
		if b.End != nil {
			return
		}
		all = append(all, b)
		if b.Fork != nil {
			for _, child := range b.Fork.Lanes {
				walk(child)
			}
		}
	}
	walk(&s.lane)
	if s.Closer != nil {
		walk(s.Closer)
	}
	return all
}

func (s *State) eachLane(do func(*lane)) {
	var walk func(b *lane)
	walk = func(b *lane) {
		do(b)
		if b.Fork != nil {
			for _, child := range b.Fork.Lanes {
				walk(child)
			}
		}
	}
	walk(&s.lane)
	if s.Closer != nil {
		walk(s.Closer)
	}
}

// CountLanes returns the number of lanes, those that have ended included.
func (s *State) CountLanes() (n int) {
	s.eachLane(func(*lane) { n++ })
	return n
}

// isOver reports whether nothing more begins in a lane: the run or a lane that it branched from has ended, or only
// the finally step of the run goes on.
func (s *State) isOver(b *lane) bool {
	return s.Done() || b.hasEnded(s) || s.Closing != nil && !slices.Contains(s.ancestors(b), s.Closer)
}

func (b *lane) hasEnded(s *State) bool {
	return slices.ContainsFunc(s.ancestors(b), func(of *lane) bool { return of.End != nil })
}

// findLane returns the lane with a path, or nil.
func (s *State) findLane(path string) (found *lane) {
	s.eachLane(func(b *lane) {
		if b.Path == path {
			found = b
		}
	})
	return found
}

// laneOf returns the lane that runs a launch, or nil.
func (s *State) laneOf(launch string) (found *lane) {
	s.eachLane(func(b *lane) {
		if b.Running != nil && b.Running.Launch.ID == launch {
			found = b
		}
	})
	return found
}

// ancestors returns a lane and the lanes that it branched from, the nearest first.
func (s *State) ancestors(of *lane) []*lane {
	line := []*lane{of}
	for line[len(line)-1] != &s.lane {
		child := line[len(line)-1]
		var parent *lane
		s.eachLane(func(b *lane) {
			if b.Fork != nil && slices.Contains(b.Fork.Lanes, child) {
				parent = b
			}
		})
		if parent == nil {
			break
		}
		line = append(line, parent)
	}
	return line
}

// historyOf returns the texts that a lane sees: those up to its fork and its own (rule 27).
func (b *lane) historyOf(s *State) []Ref {
	line := s.ancestors(b)
	if len(line) == 1 {
		return b.History
	}
	var all []Ref
	for _, l := range slices.Backward(line) {
		all = append(all, l.History...)
	}
	return all
}

// openFork opens the branches of a step (rule 25). b waits for them.
func (b *lane) openFork(s *State, l Launch) {
	n := s.Graph.findNode(l.Step)
	b.Fork = &fork{Step: n.Name, Lanes: []*lane{}}
	b.addNote(s, n.Name, n.Name+" begins")
	if n.Kind == ForEach {
		items, from, why := b.itemsOf(s, n)
		if why != nil {
			b.Fork = nil
			b.traceStep(s, TraceEntry{Step: n.Name, Status: Failed, Error: why})
			b.followFailure(s, l, Ref{Step: n.Name, Branch: b.Path}, outcome{status: Failed, failed: true}, *why)
			return
		}
		b.Fork.Items, b.Fork.From = items, from
	}
	f := b.Fork
	for _, branch := range n.Branches {
		if b.Fork != f || s.Done() { // an earlier one has ended the fork
			return
		}
		b.openLane(s, branch.Name, branch.Step, nil)
	}
	b.settleFork(s)
}

// itemsOf returns the number of the items of a for_each and the visit that left them, or why it has none.
func (b *lane) itemsOf(s *State, n *Node) (items int, from *Ref, why *Failure) {
	if n.Items.From == "" {
		return n.Items.Count, nil, nil
	}
	for _, ref := range slices.Backward(b.historyOf(s)) {
		if ref.Step != n.Items.From {
			continue
		}
		for _, list := range ref.Lists {
			if list.For == n.Name && list.Why != "" {
				return 0, nil, &Failure{NoList, list.Why}
			}
			if list.For == n.Name {
				return list.Items, &Ref{Number: ref.Number, Step: ref.Step, Branch: ref.Branch}, nil
			}
		}
	}
	return 0, nil, &Failure{NoList, n.Items.From + " has left no output with the items of " + n.Name}
}

// openLane begins a branch with the files of its fork, at its first step.
func (b *lane) openLane(s *State, name, step string, item *Item) {
	path := b.Fork.Step + "/" + name
	if b.Path != "" {
		path = b.Path + "/" + path
	}
	child := &lane{Path: path, Item: item, Stack: []frame{}, History: []Ref{}, Workspace: b.Workspace}
	if item == nil {
		child.Item = b.Item // a branch within an item
	}
	b.Fork.Lanes = append(b.Fork.Lanes, child)
	child.enterStep(s, s.Graph.findNode(step))
}

// settleFork opens further items and decides whether the fork of a lane has ended: it joins, fails or waits,
// by the set of its ended branches alone (rule 26).
func (b *lane) settleFork(s *State) {
	f := b.Fork
	n := s.Graph.findNode(f.Step)
	for n.Kind == ForEach && b.Fork == f && !s.Done() && len(f.Lanes) < f.Items && f.countOpen() < n.AtOnce && f.decide(n) == waits {
		index := len(f.Lanes)
		b.openLane(s, strconv.Itoa(index), n.Each, &Item{Step: n.Name, Index: index, From: f.From})
	}
	if b.Fork != f || s.Done() || b.End != nil {
		return
	}
	switch f.decide(n) {
	case joins:
		b.joinFork(s)
	case fails:
		b.failFork(s)
	case waits:
	}
}

// verdict is the decision of the ended branches of a fork.
type verdict int

const (
	waits verdict = iota
	joins
	fails
)

// decide is rule 26.
func (f *fork) decide(n *Node) verdict {
	open := f.Items - len(f.Lanes)
	if n.Kind != ForEach {
		open = len(n.Branches) - len(f.Lanes)
	}
	failed, completed := 0, 0
	for _, b := range f.Lanes {
		switch {
		case b.End == nil:
			open++
		case b.End.Status == Failed:
			failed++
		default:
			completed++
		}
	}
	switch {
	case failed > 0 && n.StopAtFailure:
		return fails
	case n.Any && completed > 0, open == 0 && !(n.Any && failed > 0):
		return joins
	case open == 0:
		return fails
	}
	return waits
}

func (f *fork) countOpen() (open int) {
	for _, b := range f.Lanes {
		if b.End == nil {
			open++
		}
	}
	return open
}

// joinFork ends a fork and makes the step pending that joins its branches. The other branches are cut off.
func (b *lane) joinFork(s *State) {
	f := b.Fork
	join := &Join{Branches: []Joined{}}
	for i, child := range f.Lanes {
		j := Joined{Name: s.Graph.findNode(f.Step).branchName(i), Status: Cancelled}
		if child.End != nil {
			j.Status, j.Reason, j.Final = child.End.Status, child.End.Reason, child.End.Final
			if n := s.Graph.findNode(f.Step); n.Result != "" {
				j.Final = newestText(child.History, n.Result)
			}
			if j.Changed = child.Workspace != b.Workspace; j.Changed {
				j.Workspace = child.Workspace
			}
		}
		join.Branches = append(join.Branches, j)
	}
	b.closeFork(s)
	l := b.newLaunch(s, s.Graph.findNode(f.Step))
	l.Join = join
	b.makePending(s, l)
}

// closeFork takes the texts and the spending of the branches into their lane and cuts off the steps that run.
func (b *lane) closeFork(s *State) {
	for _, child := range b.Fork.Lanes {
		if child.Fork != nil {
			child.closeFork(s)
		}
		child.withdrawQuestion(s)
		if child.Running != nil {
			s.Left = append(s.Left, *child.Running)
		}
		if child.End != nil && child.End.Status != Cancelled {
			b.History = append(b.History, child.History...)
		}
		for _, n := range s.Graph.Steps {
			if t, spent := child.Spent[n.Name]; spent {
				b.countUsage(n.Name, 0, t.Usage, t.Seconds)
			}
		}
	}
	b.Fork = nil
}

// failFork ends a fork that cannot join any more. The fork is kept if that ends its lane, so that a run that is
// reopened goes on with the branches that were cut off.
func (b *lane) failFork(s *State) {
	f := b.Fork
	n, cause := s.Graph.findNode(f.Step), Failure{Type: BranchFailed}
	for i, child := range f.Lanes {
		if child.End != nil && child.End.Status == Failed {
			cause.Message = n.describeBranch(i) + " failed: " + child.End.Reason
			break
		}
	}
	at, o := Ref{Step: f.Step, Branch: b.Path}, outcome{status: Failed, failed: true}
	b.traceStep(s, TraceEntry{Step: f.Step, Status: Failed, Error: &cause})
	if s.Graph.Park || n.nextDestination(o) != "" {
		b.closeFork(s)
		b.followFailure(s, b.newLaunch(s, n), at, o, cause)
		return
	}
	b.endLine(s, Failed, cause.Type+": "+cause.Message, &at)
}

func (n *Node) branchName(i int) string {
	if n.Kind != ForEach {
		return n.Branches[i].Name
	}
	return strconv.Itoa(i)
}

func (n *Node) describeBranch(i int) string {
	switch n.Kind {
	case Nested:
		return "its pipeline"
	case ForEach:
		return "item " + strconv.Itoa(i)
	case Parallel, Agent, Tools, Session, Approval:
	}
	return "branch " + n.Branches[i].Name
}

// endLine ends a lane: the run with its first lane, else the branch, about which its fork decides.
func (b *lane) endLine(s *State, status Status, reason string, final *Ref) {
	switch b {
	case &s.lane:
		s.endRun(status, reason, final)
		return
	case s.Closer:
		s.closeRun(status, reason)
		return
	}
	if b.Rest == nil && status == Failed {
		b.Rest = b.Pending
	}
	b.Pending, b.Parked, b.Wait, b.Waiting = nil, nil, nil, false
	if b.Fork != nil {
		b.Fork.withdrawQuestions(s)
	}
	b.End = &laneEnd{Status: status, Reason: shortenText(reason), Final: finalRef(b.History, final)}
	text := b.Path + " ended: " + string(status)
	if reason != "" {
		text += ", " + shortenText(reason)
	}
	b.addNote(s, "", text)
	s.ancestors(b)[1].settleFork(s)
}

// beginClosing makes the finally step pending, once the run has its outcome (rule 30).
func (s *State) beginClosing(outcome Result) {
	n := s.Graph.findNode(s.Graph.Finally)
	s.Closing = &outcome
	s.Closer = &lane{Stack: []frame{}, History: slices.Clone(s.History), Workspace: s.Workspace, Newest: s.Newest}
	s.Closer.countUsage(n.Name, 1, llm.Usage{}, 0)
	s.Closer.makePending(s, s.Closer.newLaunch(s, n))
}

// closeRun ends the run when its finally step has ended. A failure makes a run with a result fail.
func (s *State) closeRun(status Status, reason string) {
	outcome := *s.Closing
	if status == Failed && outcome.stands() {
		outcome = Result{Status: Failed, Reason: shortenText("finally, " + reason)}
	}
	if b := s.Closer; b.Rest == nil {
		b.Rest = b.Pending
	}
	s.Closer.Pending, s.Closer.Parked, s.Closer.Wait, s.Closer.Waiting = nil, nil, nil, false
	s.concludeRun(outcome)
}

// endLineAtLimit ends a lane that has reached a limit of its own.
func (b *lane) endLineAtLimit(s *State, kind, reason string) {
	if b == &s.lane {
		s.endAtLimit(kind, reason)
		return
	}
	b.endLine(s, Failed, kind+": "+reason, nil)
}

// runningSteps returns the lanes' steps that run, and those that a join has cut off.
func (s *State) runningSteps() (all []*launched) {
	s.eachLane(func(b *lane) {
		if b.Running != nil {
			all = append(all, b.Running)
		}
	})
	for i := range s.Left {
		all = append(all, &s.Left[i])
	}
	return all
}

// spentOn returns the usage and the time of a step in all lanes.
func (s *State) spentOn(step string) (usage llm.Usage, seconds float64) {
	s.eachLane(func(b *lane) {
		t := b.Spent[step]
		usage, seconds = usage.Add(t.Usage), seconds+t.Seconds
	})
	return usage, seconds
}

// reviveLane makes the steps of a lane that failed or were cut off pending (rule 15). It reports whether any is.
func (b *lane) reviveLane(s *State, e Reopened) (any bool) {
	cutOff := b.Running
	b.Running, b.Parked, b.Wait, b.Waiting = nil, nil, nil, false
	if b.End != nil && b.End.Status != Failed && b.End.Status != Cancelled {
		return false
	}
	b.End = nil
	if b.Fork != nil {
		for _, child := range b.Fork.Lanes {
			any = child.reviveLane(s, e) || any
		}
	}
	switch {
	case cutOff != nil && slices.Contains(e.Unclaimed, cutOff.Launch.ID):
		b.Pending = s.launchAgain(cutOff.Launch, "", false)
	case cutOff != nil:
		b.Pending = s.launchAgain(cutOff.Launch, e.Run+"-"+cutOff.Launch.ID, true)
	case b.Rest != nil && b.Late:
		b.Pending = s.launchAgain(*b.Rest, e.Run+"-"+b.Rest.ID, false)
	case b.Rest != nil:
		b.Pending = b.Rest
	}
	b.Rest, b.Late = nil, false
	if b.Asking != nil { // of a run that was terminated
		return true
	}
	if b.Pending == nil {
		return any
	}
	b.Pending.AwaySince = time.Time{} // a person says that it is mended
	b.addNote(s, b.current(), "the run goes on with "+b.current())
	b.tryAgain(s)
	return true
}

// current returns the running, pending or forked step, or "".
func (b *lane) current() string {
	switch {
	case b.Running != nil:
		return b.Running.Launch.Step
	case b.Pending != nil:
		return b.Pending.Step
	case b.Asking != nil:
		return b.Asking.Question.Step
	case b.Fork != nil:
		return b.Fork.Step
	}
	return ""
}

// place names a step of the lane for people.
func (b *lane) place(step string) string {
	if b.Path == "" {
		return step
	}
	return b.Path + ": " + step
}

// BegunWaits returns the waits that were drained and have not ended.
func (s *State) BegunWaits() (begun []Wait) {
	for _, b := range s.lanes() {
		if b.Waiting {
			begun = append(begun, *b.Wait)
		}
	}
	return begun
}

// OpenBranch is a lane that has not ended, by its path, its highest number of a step and the launch that runs.
type OpenBranch struct {
	Branch  string
	Newest  int
	Running string // empty if none does
}

// OpenBranches returns the lanes that have not ended, the first lane before its branches.
func (s *State) OpenBranches() (open []OpenBranch) {
	for _, b := range s.lanes() {
		at := OpenBranch{Branch: b.Path, Newest: b.Newest}
		if b.Running != nil {
			at.Running = b.Running.Launch.ID
		}
		open = append(open, at)
	}
	return open
}

// LeftSteps returns the launches that a join or the end of their branch has cut off and that have not ended.
func (s *State) LeftSteps() (left []Launch) {
	for _, r := range s.Left {
		left = append(left, r.Launch)
	}
	s.eachLane(func(b *lane) {
		if b.Running != nil && b.hasEnded(s) {
			left = append(left, b.Running.Launch)
		}
	})
	return left
}

// RunningLaunches returns the IDs of the launches that run.
func (s *State) RunningLaunches() []string {
	return text.Each(s.runningSteps(), func(r *launched) string { return r.Launch.ID })
}

// LaneView describes an open branch of a run.
type LaneView struct {
	Branch string   `json:"branch"`
	Step   string   `json:"step"`
	Stack  []string `json:"stack"`
	Parked *string  `json:"parked"` // null, or the remedy and the failure
}
