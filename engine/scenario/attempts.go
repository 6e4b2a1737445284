package scenario

import "slices"

// Attempt is one start of a step. In a retried run a step can have several attempts, each
// with its own directory for evidence.
type Attempt struct {
	Status        Status   `json:"status"`
	Error         *string  `json:"error"`
	EvidencePaths []string `json:"evidence_paths"`

	// Continues is set if the attempt continued the conversation of the previous one, whose
	// evidence then counts for it as well.
	Continues bool `json:"continues,omitempty"`
}

// Failed reports whether the attempt ended with a failure, rather than a pass or a
// cancellation.
func (a Attempt) Failed() bool { return a.Status == Fail || a.Status == Errored }

// made returns the attempts of a result. A result without attempts
// counts as one attempt.
func (r Result) made() []Attempt {
	if len(r.Attempts) == 0 && r.Status != Skipped && r.Status != "" {
		return []Attempt{{Status: r.Status, Error: r.Error, EvidencePaths: append([]string{}, r.EvidencePaths...)}}
	}
	return slices.Clone(r.Attempts)
}

// setAttempts adds the earlier attempts before that of the result. It marks the result as
// flaky if it passed after a failure.
func (r *Result) setAttempts(before []Attempt, continues bool) {
	r.Attempts = append(slices.Clone(before), Attempt{
		Status: r.Status, Error: r.Error, EvidencePaths: r.EvidencePaths, Continues: continues && len(before) > 0,
	})
	r.Flaky = r.Status == Pass && slices.ContainsFunc(before, Attempt.Failed)
}

// SetEvidence replaces the evidence of a result and of its last attempt.
func (r *Result) SetEvidence(paths []string) {
	r.EvidencePaths = paths
	if n := len(r.Attempts); n > 0 {
		r.Attempts = slices.Clone(r.Attempts)
		r.Attempts[n-1].EvidencePaths = paths
	}
}

// Span returns the number of a result's last attempt, and the number of the attempt in which
// its conversation began.
func (r Result) Span() (since, last int) {
	last = max(1, len(r.Attempts))
	for since = last; since > 1 && r.Attempts[since-1].Continues; since-- {
	}
	return since, last
}
