package checklist

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// The statuses of a Result.
const (
	accepted        = "accepted"
	validationError = "validation_error"
)

// Error codes of a checklist. They are stable: models and transcripts see them.
const (
	scoresTypeInvalid          = "scores_type_invalid"
	firstAnswerRequired        = "first_answer_required"
	quotaUsed                  = "quota_used"
	scoresOutOfRange           = "scores_out_of_range"
	decompositionScoresInvalid = "decomposition_scores_invalid"
	incompleteAgentCriteria    = "incomplete_agent_criteria"
	missingAgentScores         = "missing_agent_scores"
	flatScoresDisallowed       = "flat_scores_disallowed"
	missingCriteriaScores      = "missing_criteria_scores"
	reportRequired             = "report_required"
	reportOutside              = "report_outside"
	reportMissing              = "report_missing"
	reportEmpty                = "report_empty"
)

// Result is the JSON result of a submit_checklist call. It has an Action if the call was
// accepted, and otherwise an ErrorCode.
type Result struct {
	Status               string              `json:"status"`
	Action               coordination.Action `json:"verdict,omitempty"`
	ErrorCode            string              `json:"error_code,omitempty"`
	RequiresResubmission bool                `json:"requires_resubmission"`
	Explanation          string              `json:"explanation"`
	IncompleteScores     []string            `json:"incomplete_scores,omitempty"` // labels, or label and criterion

	TrueCount         int       `json:"true_count"` // number of criteria that pass
	Required          int       `json:"required"`   // number of criteria that must pass
	Items             []item    `json:"items"`
	FailedCriteria    []string  `json:"failed_criteria"`
	PlateauedCriteria []plateau `json:"plateaued_criteria"`

	BestAgent      string                        `json:"best_agent,omitempty"` // the label that Items score
	PerAgentScores map[string]map[string]float64 `json:"per_agent_scores,omitempty"`
	Rechecked      []string                      `json:"rechecked,omitempty"`   // labels no longer pending
	ReportPath     string                        `json:"report_path,omitempty"` // path as the agent gave it
}

// item is the score of one criterion of the best answer.
type item struct {
	ID     string  `json:"id"`
	Score  float64 `json:"score"`
	Passed bool    `json:"passed"`
}

// plateau is a failed criterion that has stopped improving.
type plateau struct {
	ID           string    `json:"id"`
	Text         string    `json:"text"`
	Category     string    `json:"category,omitempty"`
	ScoreHistory []float64 `json:"score_history"` // two earlier ones and the current one
	CurrentScore float64   `json:"current_score"`
}

// scores returns the scores of the best answer.
func (r Result) scores() Scores {
	scores := make(Scores, len(r.Items))
	for _, i := range r.Items {
		scores[i.ID] = i.Score
	}
	return scores
}

// encode encodes a value that always has a JSON form: scores are finite.
func encode(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// submit evaluates the arguments of a submit_checklist call. It does not change the state;
// learning the result does.
func (s *State) submit(arguments string) Result {
	fields, _ := llm.Object([]byte(arguments))
	scores, ok := llm.Object(fields["scores"])
	switch {
	case !ok:
		return s.invalid(fault{code: scoresTypeInvalid, why: "scores has to be a JSON object: " + s.form()})
	case !s.answered() && !s.policy.FirstAnswer:
		return s.refused(firstAnswerRequired, "The checklist is for later: first submit an answer of your own with new_answer.")
	case s.accepted >= s.policy.CallsPerRound && len(s.pending) == 0:
		return s.refused(quotaUsed, "Your checklist is accepted already and counts for the rest of this turn. "+s.next(*s.latest))
	}
	sheets, bad := s.sheets(scores)
	if bad != nil {
		return s.invalid(*bad)
	}
	report := word(fields["report_path"])
	if bad := s.report(report); bad != nil && s.answered() {
		return s.invalid(*bad)
	}
	r := s.judged(sheets)
	r.Rechecked = s.covered(sheets)
	r.ReportPath = report
	return r
}

// judged returns the result of an accepted call. The best answer determines its verdict.
func (s *State) judged(sheets []sheet) Result {
	best := sheets[0]
	for _, one := range sheets[1:] {
		if one.sum() > best.sum() {
			best = one
		}
	}
	r, passing := s.result(accepted), float64(s.policy.passing())
	for i, score := range best.scores {
		scored := item{ID: id(i), Score: score, Passed: score >= passing}
		r.Items = append(r.Items, scored)
		if scored.Passed {
			r.TrueCount++
			continue
		}
		r.FailedCriteria = append(r.FailedCriteria, scored.ID)
		if p, ok := s.plateau(i, score); ok {
			r.PlateauedCriteria = append(r.PlateauedCriteria, p)
		}
	}
	r.Action = coordination.NewAnswer
	if s.answered() && r.TrueCount >= r.Required {
		r.Action = s.policy.Terminal
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

// past returns the accepted checklists, starting with those of earlier steps.
func (s *State) past() []Scores { return slices.Concat(s.policy.Past, s.Accepted()) }

// plateau compares a failed criterion with the last two accepted results, including those of
// earlier steps.
func (s *State) plateau(index int, score float64) (plateau, bool) {
	past := s.past()
	if len(past) < PastNeeded {
		return plateau{}, false
	}
	c := s.policy.Criteria[index]
	p := plateau{ID: id(index), Text: c.Text, Category: c.Category, CurrentScore: score}
	for _, earlier := range past[len(past)-PastNeeded:] {
		before, ok := earlier[p.ID]
		if !ok || score > before+1 {
			return plateau{}, false
		}
		p.ScoreHistory = append(p.ScoreHistory, before)
	}
	p.ScoreHistory = append(p.ScoreHistory, score)
	return p, true
}

// covered returns the labels that are no longer pending once sheets are accepted. These are
// all labels for a recheck, for the agent's own part, or if each of them has a sheet.
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

// next returns the advice after an accepted result.
func (s *State) next(r Result) string {
	switch {
	case r.Action == coordination.Vote && r.BestAgent != "":
		return "End with vote, for " + r.BestAgent + "."
	case r.Action != coordination.NewAnswer:
		return "End with " + string(r.Action) + "."
	case len(r.FailedCriteria) == 0:
		return "Submit your work with new_answer."
	}
	return "Failed: " + strings.Join(r.FailedCriteria, ", ") + ". Call propose_improvements next, do what it plans, then call new_answer."
}

// invalid returns the result that asks for a corrected payload.
func (s *State) invalid(f fault) Result {
	r := s.result(validationError)
	r.ErrorCode, r.RequiresResubmission, r.IncompleteScores = f.code, true, f.missing
	r.Explanation = f.why + " Correct it and call submit_checklist again."
	return r
}

// refused returns the result of a call that no payload can correct.
func (s *State) refused(code, why string) Result {
	r := s.result(validationError)
	r.ErrorCode, r.Explanation = code, why
	return r
}

func (s *State) result(status string) Result {
	return Result{
		Status: status, Required: len(s.policy.Criteria),
		Items: []item{}, FailedCriteria: []string{}, PlateauedCriteria: []plateau{},
	}
}
