package scenario

import (
	"encoding/json"
	"fmt"
)

// Run is a run on record, result.json.
type Run struct {
	RunID       string   `json:"run_id"`
	RunNumber   int      `json:"run_number"`
	Scenario    string   `json:"scenario"` // its slug
	Status      Status   `json:"status"`
	StartedAt   string   `json:"started_at"`
	CompletedAt *string  `json:"completed_at"` // nil while it runs
	DurationMS  int64    `json:"duration_ms"`
	Steps       []Result `json:"steps"`
}

// ParseRun reads a result.json that anybody may have written, and holds it to the
// folder that it is in.
func ParseRun(data []byte, slug, id string) (Run, error) {
	var r Run
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("no result of a run: %w", err)
	}
	if r.Scenario != slug || r.RunID != id {
		return r, fmt.Errorf("the result of another run, %.64q of scenario %.64q", r.RunID, r.Scenario)
	}
	switch r.Status {
	case Running, Pass, Fail, Cancelled:
	default:
		return r, fmt.Errorf("no status of a run: %.40q", r.Status)
	}
	for i, s := range r.Steps {
		switch s.Status {
		case Running, Pass, Fail, Skipped, Errored, Cancelled:
		default:
			return r, fmt.Errorf("no status of a step: steps[%d].status %.40q", i, s.Status)
		}
		if r.Status == Pass && s.Status != Pass {
			return r, fmt.Errorf("no result of a run: its status is pass, and steps[%d].status %s", i, s.Status)
		}
	}
	return r, nil
}

// Over reports whether the run has ended. One of which nothing is known has not.
func (r Run) Over() bool { return r.Status != Running && r.Status != "" }

// Passed is how many steps passed.
func (r Run) Passed() int {
	n := 0
	for _, s := range r.Steps {
		if s.Status == Pass {
			n++
		}
	}
	return n
}

// Failed is the step that ended the run; false if none did.
func (r Run) Failed() (Result, bool) {
	for _, s := range r.Steps {
		switch s.Status {
		case Fail, Errored, Cancelled:
			return s, true
		case Pass, Skipped, Running:
		}
	}
	return Result{}, false
}
