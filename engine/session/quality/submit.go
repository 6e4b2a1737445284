package quality

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

func (r Result) bestScores() Scores {
	scores := make(Scores, len(r.Items))
	for _, i := range r.Items {
		scores[i.ID] = i.Score
	}
	return scores
}

// encodeJSON encodes a value that always has a JSON form: scores are finite.
func encodeJSON(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// judgeChecklist evaluates the arguments of a submit_checklist call. It does not change the state;
// learning the result does.
func (s *State) judgeChecklist(arguments string) Result {
	fields, _ := llm.Object([]byte(arguments))
	scores, ok := llm.Object(fields["scores"])
	switch {
	case !ok:
		return s.invalidResult(fault{code: scoresTypeInvalid, why: "scores has to be a JSON object: " + s.scoresExample()})
	case !s.hasAnswered() && !s.policy.FirstAnswer:
		return s.refusedResult(firstAnswerRequired, "The checklist is for later: first submit an answer of your own with new_answer.")
	case s.accepted >= s.policy.CallsPerRound && len(s.pending) == 0:
		return s.refusedResult(quotaUsed, "Your checklist is accepted already and counts for the rest of this turn. "+s.nextAdvice(*s.latest))
	}
	sheets, bad := s.readSheets(scores)
	if bad != nil {
		return s.invalidResult(*bad)
	}
	report := llm.Text(fields["report_path"])
	if bad := s.checkReport(report); bad != nil && s.hasAnswered() {
		return s.invalidResult(*bad)
	}
	r := s.judgeSheets(sheets)
	r.Rechecked = s.coveredLabels(sheets)
	r.ReportPath = report
	return r
}

// judgeSheets returns the result of an accepted call. The best answer determines its verdict.
func (s *State) judgeSheets(sheets []sheet) Result {
	best := sheets[0]
	for _, one := range sheets[1:] {
		if one.scoreSum() > best.scoreSum() {
			best = one
		}
	}
	r, passing := s.newResult(accepted), float64(s.policy.passingScore())
	for i, score := range best.scores {
		scored := item{ID: criterionID(i), Score: score, Passed: score >= passing}
		r.Items = append(r.Items, scored)
		if scored.Passed {
			r.TrueCount++
			continue
		}
		r.FailedCriteria = append(r.FailedCriteria, scored.ID)
		if p, ok := s.findPlateau(i, score); ok {
			r.PlateauedCriteria = append(r.PlateauedCriteria, p)
		}
	}
	r.Action = coordination.NewAnswer
	if s.hasAnswered() && r.TrueCount >= r.Required {
		r.Action = s.policy.Terminal
	}
	if best.label != "" {
		r.BestAgent = best.label
		r.PerAgentScores = s.byLabel(sheets)
	}
	r.Explanation = fmt.Sprintf("%d of %d criteria pass, %d have to. ", r.TrueCount, len(r.Items), r.Required) + s.nextAdvice(r)
	return r
}

func (s *State) byLabel(sheets []sheet) map[string]map[string]float64 {
	all := make(map[string]map[string]float64, len(sheets))
	for _, one := range sheets {
		scores := make(map[string]float64, len(one.scores))
		for i, score := range one.scores {
			scores[criterionID(i)] = score
		}
		all[one.label] = scores
	}
	return all
}

// findPlateau compares a failed criterion with the last two accepted results, including those of
// earlier steps.
func (s *State) findPlateau(index int, score float64) (plateau, bool) {
	past := slices.Concat(s.policy.Past, s.Accepted())
	if len(past) < PastNeeded {
		return plateau{}, false
	}
	c := s.policy.Criteria[index]
	p := plateau{ID: criterionID(index), Text: c.Text, Category: c.Category, CurrentScore: score}
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

// coveredLabels returns the labels that are no longer pending once sheets are accepted. These are
// all labels for a recheck, for the agent's own part, or if each of them has a sheet.
func (s *State) coveredLabels(sheets []sheet) []string {
	scored := func(label string) bool {
		return slices.ContainsFunc(sheets, func(one sheet) bool { return one.label == label })
	}
	missed := slices.ContainsFunc(s.pending, func(label string) bool { return !scored(label) })
	if missed && !s.isRecheck() && !s.policy.Decomposition {
		return nil
	}
	return slices.Clone(s.pending)
}

func (s *State) nextAdvice(r Result) string {
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

// invalidResult returns the result that asks for a corrected payload.
func (s *State) invalidResult(f fault) Result {
	r := s.newResult(validationError)
	r.ErrorCode, r.RequiresResubmission, r.IncompleteScores = f.code, true, f.missing
	r.Explanation = f.why + " Correct it and call submit_checklist again."
	return r
}

// refusedResult returns the result of a call that no payload can correct.
func (s *State) refusedResult(code, why string) Result {
	r := s.newResult(validationError)
	r.ErrorCode, r.Explanation = code, why
	return r
}

func (s *State) newResult(status string) Result {
	return Result{
		Status: status, Required: len(s.policy.Criteria),
		Items: []item{}, FailedCriteria: []string{}, PlateauedCriteria: []plateau{},
	}
}

// State is the progress of a step's checklist. It is the fold over the step's results and the
// answers shown by updates, in order.
type State struct {
	policy   Policy
	accepted int                           // number of checklists accepted in this step
	latest   *Result                       // latest checklist that is accepted or can be corrected
	history  []Result                      // accepted results
	pending  []string                      // labels shown by updates and not scored yet
	scores   map[string]map[string]float64 // scores of the latest accepted checklist, never written to
}

// New begins the checklist of a step.
func New(p Policy) *State {
	return &State{policy: p.withDefaults()}
}

// Submitted reports whether a checklist was accepted in this step.
func (s *State) Submitted() bool { return s.accepted > 0 }

// Accepted returns the scores of the checklists accepted in this step, in order.
func (s *State) Accepted() []Scores {
	var all []Scores
	for _, r := range s.history {
		all = append(all, r.bestScores())
	}
	return all
}

// Learn folds a result into the state. Errors that no payload can correct do not change the state.
func (s *State) Learn(r Result) {
	switch {
	case r.Status == accepted:
		s.accepted++
		s.latest = &r
		s.history = append(s.history, r)
		s.scores = r.PerAgentScores
		s.pending = slices.DeleteFunc(s.pending, func(label string) bool { return slices.Contains(r.Rechecked, label) })
	case r.RequiresResubmission:
		s.latest = &r
	}
}

// Injected folds in the labels of answers that an update showed. Each replaces its agent's
// older answer and is pending until it is scored.
func (s *State) Injected(labels []string) {
	for _, label := range labels {
		same := func(other string) bool { return agentOf(other) == agentOf(label) }
		s.pending = append(slices.DeleteFunc(s.pending, same), label)
		if i := slices.IndexFunc(s.policy.Labels, same); i >= 0 {
			s.policy.Labels[i] = label
		} else {
			s.policy.Labels = append(s.policy.Labels, label)
		}
	}
}

// Recheck returns a sentence about the checklist for an update. It is empty unless answers
// arrived after a checklist was accepted.
func (s *State) Recheck() string {
	if !s.isRecheck() {
		return ""
	}
	if s.policy.Decomposition {
		return "These came after your checklist. Take them in where they touch your part, then score your part once more with submit_checklist."
	}
	return "These came after your checklist. Score them with one more submit_checklist: " + strings.Join(s.pending, ", ") + ". Scores you gave to other answers still count."
}

// Evaluate returns the results of a reply's checklist calls, by call ID, where each call sees
// the effect of the earlier ones. It also returns the results to learn and the last valid
// proposal, or nil. It does not change the state.
func (s *State) Evaluate(calls []llm.ToolCall) (texts map[string]string, results []Result, proposed *Proposal) {
	ahead := s.clone()
	texts = make(map[string]string)
	for _, call := range calls {
		switch call.Name {
		case submitChecklist:
			r := ahead.judgeChecklist(call.Arguments)
			ahead.Learn(r)
			results = append(results, r)
			texts[call.ID] = encodeJSON(r)
		case proposeImprovements:
			p := ahead.judgeProposal(call.Arguments)
			if texts[call.ID] = encodeJSON(p); p.Valid {
				proposed = p.toProposal()
			}
		}
	}
	return texts, results, proposed
}

func (s *State) clone() *State {
	c := *s
	c.history = slices.Clone(s.history)
	c.pending = slices.Clone(s.pending)
	c.policy.Labels = slices.Clone(s.policy.Labels)
	return &c
}

func (s *State) isRecheck() bool { return s.accepted > 0 && len(s.pending) > 0 }

func (s *State) hasAnswered() bool { return s.policy.Own != "" }
