package scenario

import "conclave/engine/llm"

// Status is how a step, or a run, stands.
type Status string

// The statuses. Running is a run's or a step's that has not ended; Skipped and
// Errored are steps' only.
const (
	Running   Status = "running"
	Pass      Status = "pass"
	Fail      Status = "fail"
	Skipped   Status = "skipped"
	Errored   Status = "error"
	Cancelled Status = "cancelled"
)

// Protocol is the version of the rules that New starts a run with.
const Protocol = 1

// State is a run at one moment: plain data that survives JSON unchanged. It is
// not safe for concurrent use.
type State struct {
	Protocol int      `json:"protocol"`
	Plan     Plan     `json:"plan"`
	Results  []Result `json:"results"` // of the steps that ended, in order

	Launched *Launch `json:"launched,omitempty"` // the step that runs
	Stopped  bool    `json:"stopped,omitempty"`  // its Stop was handed out
	Launches int     `json:"launches"`

	// Rest is the execution token that the next launch goes on with, and Carried
	// what was spent until then.
	Rest    string    `json:"rest,omitempty"`
	Carried llm.Usage `json:"carried,omitzero"`

	Paused bool      `json:"paused,omitempty"`
	Unsaid bool      `json:"unsaid,omitempty"` // a result has not been recorded
	Over   bool      `json:"over,omitempty"`
	Told   bool      `json:"told,omitempty"`
	Usage  llm.Usage `json:"usage"`
}

// Result is how a step ended. Its JSON is that of a step in result.json.
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

// New starts a run of a plan that was checked. Earlier are results of steps that
// passed in the run that this one goes on with, from the first step on; what
// follows them is made anew.
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

// Status is that of the run.
func (s *State) Status() Status {
	if !s.Over {
		return Running
	}
	return Derive(s.Plan, s.Results)
}

// Derive makes the status of a run that is over from those of its steps.
func Derive(p Plan, results []Result) Status {
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
