package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Run is a run on record, result.json.
type Run struct {
	RunID       string   `json:"run_id"`
	RunNumber   int      `json:"run_number"`
	RunPath     string   `json:"run_path"` // relative to the project or the store
	Scenario    string   `json:"scenario"` // slug of the scenario
	Title       string   `json:"title,omitempty"`
	Only        []string `json:"only"` // ids of the steps of a partial run
	Paused      bool     `json:"paused"`
	Status      Status   `json:"status"`
	StartedAt   string   `json:"started_at"`
	CompletedAt *string  `json:"completed_at"` // nil until it ends
	DurationMS  int64    `json:"duration_ms"`  // time without pauses
	Steps       []Result `json:"steps"`
	Execution   int      `json:"execution"` // number of the workflow execution, from 1: every retry is another one
}

// ParseRun reads an untrusted result.json, which must match its folder.
func ParseRun(data []byte, slug, id string) (Run, error) {
	var r Run
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("not the result of a run: %w", err)
	}
	if r.Scenario != slug || r.RunID != id {
		return r, fmt.Errorf("the result of another run, %.64q of scenario %.64q", r.RunID, r.Scenario)
	}
	switch r.Status {
	case Running, Pass, Fail, Cancelled:
	default:
		return r, fmt.Errorf("not the status of a run: %.40q", r.Status)
	}
	for i, s := range r.Steps {
		switch s.Status {
		case Running, Pass, Fail, Skipped, Errored, Cancelled:
		default:
			return r, fmt.Errorf("not the status of a step: steps[%d].status %.40q", i, s.Status)
		}
		if r.Status == Pass && s.Status != Pass && (s.Status != Skipped || len(r.Only) == 0 || slices.Contains(r.Only, s.ID)) {
			return r, fmt.Errorf("not the result of a run: its status is pass, and steps[%d].status %s", i, s.Status)
		}
	}
	return r, nil
}

// Over reports whether the run has ended. It returns false for a run without a status.
func (r Run) Over() bool { return r.Status != Running && r.Status != "" }

// Passed counts the steps that passed.
func (r Run) Passed() int {
	n := 0
	for _, s := range r.Steps {
		if s.Status == Pass {
			n++
		}
	}
	return n
}

// Flaky reports whether the run passed and one of its steps had failed before.
func (r Run) Flaky() bool {
	return r.Status == Pass && slices.ContainsFunc(r.Steps, func(s Result) bool { return s.Flaky })
}

// Failed returns the step that ended the run, or false if all steps passed.
func (r Run) Failed() (Result, bool) {
	for _, s := range r.Steps {
		if s.Status == Fail || s.Status == Errored || s.Status == Cancelled {
			return s, true
		}
	}
	return Result{}, false
}

// Statistics summarize a scenario's ended runs.
type Statistics struct {
	TotalRuns      int     `json:"total_runs" yaml:"total_runs"`
	PassCount      int     `json:"pass_count" yaml:"pass_count"`
	FailCount      int     `json:"fail_count" yaml:"fail_count"`
	FlakyCount     int     `json:"flaky_count" yaml:"flaky_count"` // passed runs with a flaky step
	CancelledCount int     `json:"cancelled_count" yaml:"cancelled_count"`
	LastRun        *string `json:"last_run" yaml:"last_run"`       // start of the newest run
	LastResult     *Status `json:"last_result" yaml:"last_result"` // result of the newest run
	AvgDurationMS  int64   `json:"avg_duration_ms" yaml:"avg_duration_ms"`
}

// Fold summarizes runs, given in any order. It ignores runs of single steps. Cancelled runs
// do not count for the average duration.
func Fold(runs []Run) Statistics {
	var s Statistics
	var newest Run
	var sum int64
	for _, r := range runs {
		if len(r.Only) > 0 {
			continue
		}
		switch r.Status {
		case Pass:
			s.PassCount++
			if r.Flaky() {
				s.FlakyCount++
			}
		case Fail:
			s.FailCount++
		case Cancelled:
			s.CancelledCount++
		case Running, Skipped, Errored: // not over, or not the status of a run
			continue
		}
		s.TotalRuns++
		if r.Status != Cancelled {
			sum += r.DurationMS
		}
		if s.TotalRuns == 1 || r.Compare(newest) < 0 {
			newest = r
		}
	}
	if s.TotalRuns > 0 {
		s.LastRun, s.LastResult = &newest.StartedAt, &newest.Status
	}
	if n := int64(s.PassCount + s.FailCount); n > 0 {
		s.AvgDurationMS = (sum + n/2) / n
	}
	return s
}

// Compare orders runs from the newest to the oldest, by the second of their start and then by number.
func (r Run) Compare(other Run) int {
	const second = len("2006-01-02T15:04:05") // RFC 3339 in UTC compares as text until there
	start := func(r Run) string { return r.StartedAt[:min(len(r.StartedAt), second)] }
	return cmp.Or(cmp.Compare(start(other), start(r)), cmp.Compare(other.RunNumber, r.RunNumber))
}

// PassRate returns the percentage of passed runs among those with a verdict.
func (s Statistics) PassRate() int {
	n := s.PassCount + s.FailCount
	if n == 0 {
		return 0
	}
	return (100*s.PassCount + n/2) / n
}
