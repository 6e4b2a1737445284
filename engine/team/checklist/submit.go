package checklist

import (
	"fmt"
	"slices"
	"strings"
)

// Submit evaluates the arguments of a submit_checklist call. It changes nothing:
// what the model is told has to be learned.
func (s *State) Submit(arguments string) Result {
	fields, _ := object([]byte(arguments))
	scores, ok := object(fields["scores"])
	switch {
	case !ok:
		return s.invalid(fault{code: ScoresTypeInvalid, why: "scores has to be a JSON object: " + s.form()})
	case !s.answered() && !s.policy.FirstAnswer:
		return s.refused(FirstAnswerRequired, "The checklist is for later: first submit an answer of your own with new_answer.")
	case s.accepted >= s.policy.CallsPerRound && len(s.pending) == 0:
		return s.refused(QuotaUsed, "Your checklist is accepted already and counts for the rest of this turn. "+s.next(*s.latest))
	}
	sheets, bad := s.sheets(scores)
	if bad != nil {
		return s.invalid(*bad)
	}
	r := s.judged(sheets)
	r.Rechecked = s.covered(sheets)
	r.ReportPath = word(fields["report_path"])
	return r
}

// judged is the verdict by the strongest answer.
func (s *State) judged(sheets []sheet) Result {
	best := sheets[0]
	for _, one := range sheets[1:] {
		if one.sum() > best.sum() {
			best = one
		}
	}
	r := s.result(Accepted)
	for i, score := range best.scores {
		item := Item{ID: id(i), Score: score, Passed: s.policy.passes(score)}
		r.Items = append(r.Items, item)
		if item.Passed {
			r.TrueCount++
			continue
		}
		r.FailedCriteria = append(r.FailedCriteria, item.ID)
		if plateau, ok := s.plateau(i, score); ok {
			r.PlateauedCriteria = append(r.PlateauedCriteria, plateau)
		}
	}
	r.Verdict = NewAnswer
	if s.answered() && r.TrueCount >= r.Required {
		r.Verdict = s.policy.Terminal
	}
	if best.label != "" {
		r.BestAgent = best.label
		r.PerAgentScores = s.byLabel(sheets)
	}
	r.Explanation = fmt.Sprintf("%d of %d criteria pass, %d have to. ", r.TrueCount, len(r.Items), r.Required) + s.next(r)
	return r
}

func (s *State) byLabel(sheets []sheet) map[string]map[string]float64 {
	all := make(map[string]map[string]float64, len(sheets))
	for _, one := range sheets {
		scores := make(map[string]float64, len(one.scores))
		for i, score := range one.scores {
			scores[id(i)] = score
		}
		all[one.label] = scores
	}
	return all
}

// plateau compares a failed criterion with the last two accepted results.
func (s *State) plateau(index int, score float64) (Plateau, bool) {
	if len(s.history) < 2 {
		return Plateau{}, false
	}
	c := s.policy.Criteria[index]
	p := Plateau{ID: id(index), Text: c.Text, Category: c.Category, CurrentScore: score}
	for _, earlier := range s.history[len(s.history)-2:] {
		before, ok := earlier.score(p.ID)
		if !ok || score > before+1 {
			return Plateau{}, false
		}
		p.ScoreHistory = append(p.ScoreHistory, before)
	}
	p.ScoreHistory = append(p.ScoreHistory, score)
	return p, true
}

// covered is what is no longer pending when sheets are accepted: all of it when
// they are a recheck or about the agent's own part, or when nothing is left out.
func (s *State) covered(sheets []sheet) []string {
	scored := func(label string) bool {
		return slices.ContainsFunc(sheets, func(one sheet) bool { return one.label == label })
	}
	missed := slices.ContainsFunc(s.pending, func(label string) bool { return !scored(label) })
	if missed && !s.recheck() && !s.policy.Decomposition {
		return nil
	}
	return slices.Clone(s.pending)
}

// next is what to do after an accepted result.
func (s *State) next(r Result) string {
	switch {
	case r.Verdict == Vote && r.BestAgent != "":
		return "End with vote, for " + r.BestAgent + "."
	case r.Verdict != NewAnswer:
		return "End with " + r.Verdict + "."
	case len(r.FailedCriteria) == 0:
		return "Submit your work with new_answer."
	}
	return "Failed: " + strings.Join(r.FailedCriteria, ", ") + ". Call propose_improvements next, do what it plans, then call new_answer."
}

// invalid asks for another payload.
func (s *State) invalid(f fault) Result {
	r := s.result(ValidationError)
	r.ErrorCode, r.RequiresResubmission, r.IncompleteScores = f.code, true, f.missing
	r.Explanation = f.why + " Mend it and call submit_checklist again."
	return r
}

// refused is for a call that no other payload would make right.
func (s *State) refused(code, why string) Result {
	r := s.result(ValidationError)
	r.ErrorCode, r.Explanation = code, why
	return r
}

func (s *State) result(status string) Result {
	return Result{
		Status: status, Required: s.policy.required(),
		Items: []Item{}, FailedCriteria: []string{}, PlateauedCriteria: []Plateau{},
	}
}

// form is an example of the scores that are wanted, as JSON.
func (p Policy) form() string {
	scores := `{"E1": 7, "E2": 5}`
	if len(p.Criteria) == 1 {
		scores = `{"E1": 7}`
	}
	if p.Decomposition || p.Own == "" || len(p.Labels) < 2 {
		return fmt.Sprintf(`{"scores": %s}`, scores)
	}
	return fmt.Sprintf(`{"scores": {%q: %s, %q: %s}}`, p.Labels[0], scores, p.Labels[1], scores)
}
