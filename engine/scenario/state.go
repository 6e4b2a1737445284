package scenario

import (
	"strconv"

	"conclave/engine/llm"
)

// Status is the status of a step or a run.
type Status string

// The statuses. Skipped and Errored are only of steps.
const (
	Running   Status = "running"
	Pass      Status = "pass"
	Fail      Status = "fail"
	Skipped   Status = "skipped"
	Errored   Status = "error"
	Cancelled Status = "cancelled"
)

// Protocol is the version of the rules for new runs.
const Protocol = 1

// State is a run: plain data that survives JSON unchanged. It is not safe for
// concurrent use.
type State struct {
	Protocol int      `json:"protocol"`
	Plan     Plan     `json:"plan"`
	Results  []Result `json:"results"` // of the ended steps, in order

	Launched *Launch `json:"launched,omitempty"` // the running step
	Stopped  bool    `json:"stopped,omitempty"`  // its Stop was drained
	Launches int     `json:"launches"`

	// Rest is the execution token that the next launch continues, and Carried is the
	// usage until then.
	Rest    string    `json:"rest,omitempty"`
	Carried llm.Usage `json:"carried,omitzero"`

	Paused bool      `json:"paused,omitempty"`
	Unsaid bool      `json:"unsaid,omitempty"` // a result is not recorded
	Over   bool      `json:"over,omitempty"`
	Told   bool      `json:"told,omitempty"` // Done was drained
	Usage  llm.Usage `json:"usage"`
}

// Result is how a step ended, with the JSON of result.json.
type Result struct {
	ID            string    `json:"id"`
	Title         string    `json:"title"`
	Status        Status    `json:"status"`
	DurationMS    int64     `json:"duration_ms"`
	EvidencePaths []string  `json:"evidence_paths"`
	Error         *string   `json:"error"`
	Summary       string    `json:"summary"`
	Cost          llm.Usage `json:"cost"`
	Warnings      []string  `json:"warnings,omitempty"`
}

// New starts a run of a checked plan. It keeps the leading earlier results that
// passed, of the run that this one resumes.
func New(p Plan, earlier []Result) *State {
	s := &State{Protocol: Protocol, Plan: p, Results: []Result{}, Unsaid: true}
	for i, r := range earlier {
		if i >= len(p.Steps) || r.ID != p.Steps[i].ID || r.Status != Pass {
			break
		}
		s.Results = append(s.Results, r)
		s.Usage = s.Usage.Add(r.Cost)
	}
	s.Over = len(s.Results) == len(p.Steps)
	return s
}

// Status returns the status of the run.
func (s *State) Status() Status {
	if !s.Over {
		return Running
	}
	return derive(s.Plan, s.Results)
}

// derive returns the status of an ended run.
func derive(p Plan, results []Result) Status {
	status := Pass
	passed := 0
	for _, r := range results {
		switch r.Status {
		case Pass:
			passed++
		case Cancelled:
			return Cancelled
		case Fail, Errored, Skipped, Running:
			status = Fail
		}
	}
	if passed != len(p.Steps) || passed == 0 {
		status = Fail
	}
	return status
}

// Step applies an event. It never fails.
func (s *State) Step(event Event) {
	if s.Refuse(event) != nil {
		return
	}
	switch e := event.(type) {
	case Reported:
		if l := s.ended(e.Launch, e.Usage); l != nil {
			s.settle(Result{
				ID: l.Step.ID, Title: l.Step.Title, Status: e.Status, DurationMS: e.DurationMS, EvidencePaths: e.Evidence,
				Error: e.Error, Summary: e.Summary, Warnings: e.Warnings, Cost: e.Usage,
			})
		}
	case Broke:
		if l := s.ended(e.Launch, e.Usage); l != nil {
			s.settle(Result{
				ID: l.Step.ID, Title: l.Step.Title, Status: Errored, DurationMS: e.DurationMS, EvidencePaths: e.Evidence,
				Error: &e.Reason, Cost: e.Usage,
			})
		}
	case Suspended:
		if l := s.ended(e.Launch, e.Usage); l != nil {
			s.Rest = e.Token
			s.Carried = s.Carried.Add(e.Usage)
		}
	case Pause:
		s.Paused = true
	case Resume:
		s.Paused = false
	case Cancel:
		s.cancel(e)
	}
}

// ended counts the usage of a step and returns its launch if the run continues.
func (s *State) ended(id string, usage llm.Usage) *Launch {
	l := s.Launched
	if l == nil || l.ID != id {
		return nil
	}
	s.Launched, s.Stopped = nil, false
	s.Usage = s.Usage.Add(usage)
	if s.Over {
		// It was cancelled, and its result is on record without this usage.
		for i := range s.Results {
			if r := &s.Results[i]; r.ID == l.Step.ID {
				r.Cost = r.Cost.Add(usage)
				s.Unsaid = true
			}
		}
		return nil
	}
	return l
}

// settle adds the result of a step. The first that did not pass ends the run.
func (s *State) settle(r Result) {
	if r.EvidencePaths == nil {
		r.EvidencePaths = []string{}
	}
	r.Cost = s.Carried.Add(r.Cost)
	s.Rest, s.Carried = "", llm.Usage{}
	s.Results = append(s.Results, r)
	s.Unsaid = true
	if r.Status != Pass {
		s.skip()
	}
	s.Over = len(s.Results) == len(s.Plan.Steps)
}

// skip marks the remaining steps.
func (s *State) skip() {
	for _, left := range s.Plan.Steps[len(s.Results):] {
		s.Results = append(s.Results, Result{ID: left.ID, Title: left.Title, Status: Skipped, EvidencePaths: []string{}})
	}
}

func (s *State) cancel(e Cancel) {
	why := "the run was cancelled"
	next := s.Plan.Steps[len(s.Results)]
	s.settle(Result{ID: next.ID, Title: next.Title, Status: Cancelled, Error: &why, DurationMS: e.DurationMS})
	s.Paused = false
}

// Drain returns the commands that are due, each once.
func (s *State) Drain() []Command {
	var commands []Command
	if s.Launched != nil && !s.Stopped && (s.Paused || s.Over) {
		s.Stopped = true
		commands = append(commands, Stop{s.Launched.ID})
	}
	if s.Unsaid {
		s.Unsaid = false
		commands = append(commands, Record{})
	}
	switch {
	case s.Launched != nil || s.Paused:
	case !s.Over:
		commands = append(commands, s.launch())
	case !s.Told:
		s.Told = true
		commands = append(commands, Done{s.Status()})
	}
	return commands
}

func (s *State) launch() Launch {
	s.Launches++
	l := Launch{ID: "l" + strconv.Itoa(s.Launches), Step: s.Plan.Steps[len(s.Results)], ResumeFrom: s.Rest}
	if n := len(s.Results); n > 0 {
		l.Previous = &Previous{ID: s.Results[n-1].ID, Status: s.Results[n-1].Status}
	}
	s.Launched, s.Rest = &l, ""
	return l
}
