package scenario

// Statistics are what became of a scenario's runs that are over. They are folded
// from results each time, never counted on.
type Statistics struct {
	TotalRuns      int     `json:"total_runs" yaml:"total_runs"`
	PassCount      int     `json:"pass_count" yaml:"pass_count"`
	FailCount      int     `json:"fail_count" yaml:"fail_count"`
	CancelledCount int     `json:"cancelled_count" yaml:"cancelled_count"`
	LastRun        *string `json:"last_run" yaml:"last_run"`       // when the newest one began
	LastResult     *Status `json:"last_result" yaml:"last_result"` // of the newest one
	AvgDurationMS  int64   `json:"avg_duration_ms" yaml:"avg_duration_ms"`
}

// Fold makes the statistics of runs, in any order. Runs that were cancelled say
// nothing of how long one takes.
func Fold(runs []Run) Statistics {
	var s Statistics
	var newest Run
	var sum int64
	for _, r := range runs {
		switch r.Status {
		case Pass:
			s.PassCount++
		case Fail:
			s.FailCount++
		case Cancelled:
			s.CancelledCount++
		case Running, Skipped, Errored: // not over, or no status of a run
			continue
		}
		s.TotalRuns++
		if r.Status != Cancelled {
			sum += r.DurationMS
		}
		if s.TotalRuns == 1 || newer(r, newest) {
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

// newer orders runs by when they began, to the second: RFC 3339 in UTC compares as
// text up to there. Within a second the numbers tell.
func newer(a, b Run) bool {
	const second = len("2006-01-02T15:04:05")
	began, other := a.StartedAt[:min(len(a.StartedAt), second)], b.StartedAt[:min(len(b.StartedAt), second)]
	if began != other {
		return began > other
	}
	return a.RunNumber > b.RunNumber
}

// Newer orders runs, the newest first.
func Newer(a, b Run) int {
	switch {
	case newer(a, b):
		return -1
	case newer(b, a):
		return 1
	}
	return 0
}

// PassRate is how many of the runs that came to a verdict passed, 0 to 100.
func (s Statistics) PassRate() int {
	n := s.PassCount + s.FailCount
	if n == 0 {
		return 0
	}
	return (100*s.PassCount + n/2) / n
}
