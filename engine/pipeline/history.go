package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Policy selects the texts of earlier steps that a step is shown at its start.
type Policy string

// The values of Policy.
const (
	HideTexts Policy = ""     // texts of earlier steps are not shown
	AllTexts  Policy = "all"  // the texts of every visit
	LastTexts Policy = "last" // the newest of every step
)

// UnmarshalJSON also reads the booleans of graphs before protocol 3.
func (p *Policy) UnmarshalJSON(data []byte) error {
	var all bool
	if json.Unmarshal(data, &all) == nil {
		*p = HideTexts
		if all {
			*p = AllTexts
		}
		return nil
	}
	return json.Unmarshal(data, (*string)(p))
}

// maxShown bounds the number of texts that a launch lists, because launches are stored in
// the workflow's history.
const maxShown = 100

// shown returns the texts that the policy selects, oldest first, and the number of older
// ones that it leaves out.
func (p Policy) shown(texts []Ref) (shown []Ref, omitted int) {
	if p == HideTexts {
		return nil, 0
	}
	seen := map[string]bool{}
	for _, ref := range slices.Backward(texts) {
		if p == AllTexts || !seen[ref.Step] {
			shown = append(shown, ref)
		}
		seen[ref.Step] = true
	}
	omitted = max(0, len(shown)-maxShown)
	shown = shown[:len(shown)-omitted]
	slices.Reverse(shown)
	return shown, omitted
}

// Ref names the directory of a step.
type Ref struct {
	Number int    `json:"n"`
	Step   string `json:"step"`

	// Note tells later steps that the step failed or was cut short. Textless is set if the
	// step left no text.
	Note     string `json:"note,omitempty"`
	Textless bool   `json:"textless,omitempty"`
}

// remember adds an ended step to the history of the run (rule 12).
func (s *State) remember(at Ref, said bool, note string) {
	at.Note, at.Textless = note, !said
	if said || note != "" {
		s.History = append(s.History, at)
	}
}

// remembers reports whether a step is in the history.
func (s *State) remembers(at Ref) bool {
	return slices.ContainsFunc(s.History, func(r Ref) bool { return r.Number == at.Number && r.Step == at.Step })
}

// note returns the note about a step that used up its model calls, or failed.
func (l Launch) note(status Status, cause *Failure) string {
	switch {
	case status == MaxIterations:
		return fmt.Sprintf("%s used up its model calls and was stopped", l.Step)
	case cause != nil:
		return truncate(fmt.Sprintf("%s failed, %s: %s", l.Step, cause.Type, cause.Message))
	}
	return ""
}

// final returns the reference to the text of a step, or nil if it has none.
func (s *State) final(at *Ref) *Ref {
	if at == nil || !slices.ContainsFunc(s.History, func(r Ref) bool { return r.Number == at.Number && r.Step == at.Step && !r.Textless }) {
		return nil
	}
	return &Ref{Number: at.Number, Step: at.Step}
}
