package scenario

import (
	"time"

	"conclave/engine/llm"
)

// Result is how a step ended, with the JSON of result.json.
type Result struct {
	ID            string    `json:"id"`
	Title         string    `json:"title"`
	File          string    `json:"file"`
	Part          Part      `json:"part,omitempty"`
	Status        Status    `json:"status"`
	Flaky         bool      `json:"flaky"` // it passed after a failure
	DurationMS    int64     `json:"duration_ms"`
	EvidencePaths []string  `json:"evidence_paths"`
	Error         *string   `json:"error"`
	Summary       string    `json:"summary"`
	Cost          llm.Usage `json:"cost"` // cost of all attempts
	Attempts      []Attempt `json:"attempts"`
	Warnings      []string  `json:"warnings,omitempty"`
}

// next returns the first step that has no result yet, or false if all have one.
func (s *State) next() (step StepRef, part Part, ok bool) {
	all, i := s.Plan.All(), len(s.Results)
	if i >= len(all) {
		return StepRef{}, "", false
	}
	return all[i], s.Plan.part(i), true
}

// addResult adds the result of the next step. After the first result that is not a pass, only
// the steps of Plan.After run.
func (s *State) addResult(r Result) {
	step, part, ok := s.next()
	if !ok {
		return
	}
	r.ID, r.Title, r.File, r.Part = step.ID, step.Title, step.File, part
	if r.EvidencePaths == nil {
		r.EvidencePaths = []string{}
	}
	earlier := s.Earlier[step.ID]
	r.Cost = earlier.Cost.Add(s.Carried).Add(r.Cost)
	r.setAttempts(earlier.made(), s.Continues == step.ID)
	if s.RestStep == "" || s.RestStep == step.ID {
		s.Rest, s.RestStep, s.AwaySince = "", "", time.Time{}
	}
	s.Carried, s.CarriedMS, s.Heard = llm.Usage{}, 0, s.Announced
	s.Worked += r.DurationMS
	s.Results = append(s.Results, r)
	s.Unrecorded = true
	s.Halted = s.Halted || r.Status != Pass && part != PartAfter
	s.skip()
}

// skip adds the results of the next steps that do not run: steps after one that did not pass,
// steps that are not selected, and steps that passed in the resumed run.
func (s *State) skip() {
	for {
		step, part, ok := s.next()
		if !ok {
			s.Over = true
			return
		}
		skipped := Result{
			ID: step.ID, Title: step.Title, File: step.File, Part: part, Status: Skipped, EvidencePaths: []string{}, Attempts: []Attempt{},
		}
		switch earlier := s.Earlier[step.ID]; {
		case part == PartAfter:
			return
		case part == "" && s.keeps(earlier):
			earlier.File, earlier.Attempts = step.File, earlier.made()
			skipped = earlier
		case s.Halted || part == "" && !s.Plan.Selects(step.ID):
			skipped.Attempts, skipped.Cost = append(skipped.Attempts, earlier.made()...), earlier.Cost
		default:
			return
		}
		s.Results = append(s.Results, skipped)
	}
}

// keeps reports whether a result of the resumed run is kept. Results after a step that did
// not pass are dropped, and so are all results if the steps shared a browser, because the
// browser has ended.
func (s *State) keeps(earlier Result) bool {
	return !s.Halted && earlier.Status == Pass && s.Plan.Browser != BrowserRun
}
