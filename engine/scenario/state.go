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
const Protocol = 2

// Reckons is the first protocol in which the driver reads the usage of a step from the
// store if the step ended without reporting it.
const Reckons = 2

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
	Rest      string    `json:"rest,omitempty"`
	Carried   llm.Usage `json:"carried,omitzero"`
	Uncounted bool      `json:"uncounted,omitempty"` // Carried lacks the usage of Rest

	Paused     bool      `json:"paused,omitempty"`
	Unrecorded bool      `json:"unsaid,omitempty"` // a result is not recorded
	Over       bool      `json:"over,omitempty"`
	Finished   bool      `json:"told,omitempty"` // Done was drained
	Usage      llm.Usage `json:"usage"`
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

// New starts a run of a checked plan under a protocol. It keeps the leading earlier results that
// passed, of the run that this one resumes.
func New(protocol int, p Plan, earlier []Result) *State {
	s := &State{Protocol: protocol, Plan: p, Results: []Result{}, Unrecorded: true}
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
	status := Pass
	for _, r := range s.Results {
		if r.Status == Cancelled {
			return Cancelled
		}
		if r.Status != Pass {
			status = Fail
		}
	}
	if len(s.Results) == 0 {
		return Fail
	}
	return status
}

// Step applies an event. It never fails.
func (s *State) Step(event Event) {
	if s.Refuse(event) != nil {
		return
	}
	switch e := event.(type) {
	case Ended:
		if l := s.ended(e.Launch, e.Result.Cost); l != nil {
			s.addResult(l.Step, e.Result)
		}
	case Suspended:
		if l := s.ended(e.Launch, e.Usage); l != nil {
			s.rest(l, e)
			s.Carried = s.Carried.Add(e.Usage)
		}
	case Pause:
		s.Paused = true
	case Resume:
		s.Paused = false
	case Cancel:
		why := "the run was cancelled"
		s.addResult(s.Plan.Steps[len(s.Results)], Result{Status: Cancelled, Error: &why, DurationMS: e.DurationMS})
		s.Paused = false
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
				s.Unrecorded = true
			}
		}
		return nil
	}
	return l
}

// rest keeps the token of a suspended step for the next launch; without one, the token
// that the step itself resumed. Without a model call its usage is zero or unknown.
func (s *State) rest(l *Launch, e Suspended) {
	switch {
	case e.Token != "":
		s.Rest, s.Uncounted = e.Token, s.Protocol >= Reckons && e.Usage.ModelCalls == 0
	case s.Protocol >= Reckons:
		s.Rest, s.Uncounted = l.ResumeFrom, l.Uncounted
	}
}

// addResult adds the result of a step. The first that did not pass ends the run.
func (s *State) addResult(step StepRef, r Result) {
	r.ID, r.Title = step.ID, step.Title
	if r.EvidencePaths == nil {
		r.EvidencePaths = []string{}
	}
	r.Cost = s.Carried.Add(r.Cost)
	s.Rest, s.Carried = "", llm.Usage{}
	s.Results = append(s.Results, r)
	s.Unrecorded = true
	if r.Status != Pass {
		for _, left := range s.Plan.Steps[len(s.Results):] {
			s.Results = append(s.Results, Result{ID: left.ID, Title: left.Title, Status: Skipped, EvidencePaths: []string{}})
		}
	}
	s.Over = len(s.Results) == len(s.Plan.Steps)
}

// Drain returns the commands that are due, each once.
func (s *State) Drain() []Command {
	var commands []Command
	if s.Launched != nil && !s.Stopped && (s.Paused || s.Over) {
		s.Stopped = true
		commands = append(commands, Stop{s.Launched.ID})
	}
	if s.Unrecorded {
		s.Unrecorded = false
		commands = append(commands, Record{})
	}
	switch {
	case s.Launched != nil || s.Paused:
	case !s.Over:
		commands = append(commands, s.launch())
	case !s.Finished:
		s.Finished = true
		commands = append(commands, Done{s.Status()})
	}
	return commands
}

func (s *State) launch() Launch {
	s.Launches++
	l := Launch{
		ID: "l" + strconv.Itoa(s.Launches), Step: s.Plan.Steps[len(s.Results)], ResumeFrom: s.Rest,
		Uncounted: s.Uncounted && s.Rest != "",
	}
	if n := len(s.Results); n > 0 {
		l.Previous = &Previous{ID: s.Results[n-1].ID, Status: s.Results[n-1].Status}
	}
	s.Launched, s.Rest = &l, ""
	return l
}
