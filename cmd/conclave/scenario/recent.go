package scenario

import (
	"time"

	acts "conclave/activities/scenario"
	"conclave/engine/scenario"
)

// recentRun is a run in the status of its scenario.
type recentRun struct {
	RunID       string          `json:"run_id"`
	RunNumber   int             `json:"run_number"`
	RunPath     string          `json:"run_path"` // path relative to DIR
	Status      scenario.Status `json:"status"`
	Paused      bool            `json:"paused"`
	Flaky       bool            `json:"flaky"`
	Only        []string        `json:"only"`
	StartedAt   string          `json:"started_at"`
	CompletedAt *string         `json:"completed_at"`
	DurationMS  int64           `json:"duration_ms"`
	FailedStep  *string         `json:"failed_step"`
	Error       *string         `json:"error"`

	Steps []recentStep `json:"steps"`
	doing

	text          string // the status for people
	passed, steps int
}

// recentStep is an ended step of a run in the status of its scenario.
type recentStep struct {
	ID     string          `json:"id"`
	Title  string          `json:"title"`
	File   string          `json:"file"`
	Status scenario.Status `json:"status"`
	Flaky  bool            `json:"flaky"`
}

// recent summarizes a result. For an open run it includes the planned steps, and the
// duration extends to now.
func recent(r scenario.Run, plan scenario.Plan) recentRun {
	short := recentRun{
		RunID: r.RunID, RunNumber: r.RunNumber, RunPath: acts.RunPath(r.Scenario, r.RunID), Status: r.Status, Paused: r.Paused && !r.Over(),
		Flaky: r.Flaky(), Only: append([]string{}, r.Only...), StartedAt: r.StartedAt, CompletedAt: r.CompletedAt, DurationMS: r.DurationMS,
		Steps: []recentStep{}, text: statusText(r), passed: r.Passed(), steps: len(r.Steps),
	}
	for _, s := range r.Steps {
		short.Steps = append(short.Steps, recentStep{s.ID, s.Title, s.File, s.Status, s.Flaky})
	}
	if !r.Over() {
		short.steps = max(short.steps, len(plan.All()))
		if began, err := time.Parse(time.RFC3339, r.StartedAt); err == nil && !short.Paused {
			short.DurationMS = max(short.DurationMS, time.Since(began).Milliseconds())
		}
	}
	if s, ok := r.Failed(); ok {
		short.FailedStep, short.Error = &s.ID, s.Error
	}
	return short
}
