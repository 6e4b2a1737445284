package pipeline

import "conclave/engine/llm"

// Protocol is the version of the rules that New starts a run with. State keeps
// the one it was started with, and any later change of behaviour asks it.
const Protocol = 1

// State is a run at one moment: plain data that survives JSON unchanged. It is
// not safe for concurrent use.
type State struct {
	Protocol int   `json:"protocol"`
	Graph    Graph `json:"graph"`

	Stack    []Frame `json:"stack"`             // callers that wait, the innermost last
	Pending  *Launch `json:"pending,omitempty"` // decided, not handed out
	Running  *Run    `json:"running,omitempty"`
	Launches int     `json:"launches"` // launch IDs minted
	Newest   int     `json:"newest"`   // highest number of a segment

	Transitions int       `json:"transitions"`
	Trace       []Segment `json:"trace"` // what ended, in order; only the newest 50 have texts
	History     []Ref     `json:"history"`
	Workspace   string    `json:"workspace,omitempty"`
	Usage       llm.Usage `json:"usage"` // of all segments, failed and suspended ones included

	Messages []Keep   `json:"messages,omitempty"` // texts only until they are handed out
	Rung     int      `json:"rung,omitempty"`     // messages that the running segment was told of
	Paused   bool     `json:"paused,omitempty"`
	Parked   *Failure `json:"parked,omitempty"` // the failure that a person has to do something about

	Outcome *Outcome `json:"outcome,omitempty"` // nil until the run is over
	Told    bool     `json:"told,omitempty"`    // Done was handed out

	Events int     `json:"events"`
	Recent []Entry `json:"recent"`
}

// Frame is a caller that waits.
type Frame struct {
	Step       string `json:"step"`
	Messages   string `json:"messages"`   // SHA-256 of the blob with its conversation
	Iterations int    `json:"iterations"` // model calls it has made
}

// Run is the launched segment.
type Run struct {
	Launch  Launch `json:"launch"`
	Stopped bool   `json:"stopped,omitempty"` // its Stop was handed out
	Holding bool   `json:"held,omitempty"`    // its Hold was handed out, and no Release
}

// Segment is one entry of the trace.
type Segment struct {
	Number int       `json:"number"` // 0 of a segment that never began
	Step   string    `json:"step"`
	Status Status    `json:"status"`
	Action Action    `json:"action"` // empty for none
	To     string    `json:"to,omitempty"`
	Text   string    `json:"text,omitempty"` // cut
	Error  *Failure  `json:"error,omitempty"`
	Usage  llm.Usage `json:"usage"`
}

// New starts a run of the graph. The first Drain launches its first step.
func New(g Graph) *State {
	s := &State{Protocol: Protocol, Graph: g, Stack: []Frame{}, Trace: []Segment{}, History: []Ref{}, Recent: []Entry{}}
	s.enter(g.Start)
	return s
}

// Done reports whether the run is over.
func (s *State) Done() bool { return s.Outcome != nil }

// Held reports whether the run waits for a person.
func (s *State) Held() bool { return !s.Done() && (s.Paused || s.Parked != nil) }

// Drain returns what is to be done now.
func (s *State) Drain() []Command {
	var commands []Command
	for i := range s.Messages {
		if m := &s.Messages[i]; m.Text != "" {
			commands = append(commands, *m)
			m.Text = ""
		}
	}
	switch {
	case s.Outcome != nil && s.Told:
	case s.Outcome != nil:
		s.Told = true
		commands = append(commands, s.stop()...)
		commands = append(commands, Done{*s.Outcome})
	case s.Paused && s.Running != nil && s.Running.Launch.Kind == Session:
		commands = append(commands, s.hold(true)...)
	case s.Paused:
		commands = append(commands, s.stop()...)
	case s.Running != nil && s.Running.Holding:
		commands = append(commands, s.hold(false)...)
	case s.Parked != nil:
	case s.Pending != nil:
		commands = append(commands, s.launch())
	case s.Running != nil && s.Rung < len(s.Messages):
		s.Rung = len(s.Messages)
		commands = append(commands, Ring{s.Rung})
	}
	return commands
}

// launch hands the pending segment out. What people said meanwhile is told at its
// beginning.
func (s *State) launch() Launch {
	l := *s.Pending
	s.Launches++
	l.ID = launchID(s.Launches)
	l.After, l.Messages = s.Newest, len(s.Messages)
	s.Pending, s.Running, s.Rung = nil, &Run{Launch: l}, len(s.Messages)
	switch {
	case l.ResumeFrom != "":
		s.note(l.Step, l.Step+" goes on")
	case l.Return != nil:
		s.note(l.Step, l.Step+" goes on after "+l.Return.Called.Step)
	default:
		s.note(l.Step, l.Step+" begins")
	}
	return l
}

// stop ends what runs, once.
func (s *State) stop() []Command {
	if s.Running == nil || s.Running.Stopped {
		return nil
	}
	s.Running.Stopped = true
	return []Command{Stop{s.Running.Launch.ID}}
}

// hold has the team of the running session step pause or go on, once.
func (s *State) hold(on bool) []Command {
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

// Current is the step that runs, or would be launched next; empty for none.
func (s *State) Current() string {
	switch {
	case s.Running != nil:
		return s.Running.Launch.Step
	case s.Pending != nil:
		return s.Pending.Step
	}
	return ""
}
