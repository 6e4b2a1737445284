package checklist

import (
	"encoding/json"
	"slices"
)

// The statuses of a Result.
const (
	Accepted        = "accepted"
	ValidationError = "validation_error"
)

// Why a checklist is not accepted. The codes are stable: they are told to
// models and kept in transcripts.
const (
	ScoresTypeInvalid          = "scores_type_invalid"
	FirstAnswerRequired        = "first_answer_required"
	QuotaUsed                  = "quota_used"
	ScoresOutOfRange           = "scores_out_of_range"
	DecompositionScoresInvalid = "decomposition_scores_invalid"
	IncompleteAgentCriteria    = "incomplete_agent_criteria"
	MissingAgentScores         = "missing_agent_scores"
	FlatScoresDisallowed       = "flat_scores_disallowed"
	MissingCriteriaScores      = "missing_criteria_scores"
)

// Result is what a submit_checklist call is told, as JSON. An accepted one has a
// Verdict, any other an ErrorCode.
type Result struct {
	Status               string   `json:"status"`
	Verdict              string   `json:"verdict,omitempty"`
	ErrorCode            string   `json:"error_code,omitempty"`
	RequiresResubmission bool     `json:"requires_resubmission"`
	Explanation          string   `json:"explanation"`
	IncompleteScores     []string `json:"incomplete_scores,omitempty"` // labels, or label and criterion

	TrueCount         int       `json:"true_count"` // how many criteria pass
	Required          int       `json:"required"`   // how many must
	Items             []Item    `json:"items"`
	FailedCriteria    []string  `json:"failed_criteria"`
	PlateauedCriteria []Plateau `json:"plateaued_criteria"`

	BestAgent      string                        `json:"best_agent,omitempty"` // the label that Items are about
	PerAgentScores map[string]map[string]float64 `json:"per_agent_scores,omitempty"`
	Rechecked      []string                      `json:"rechecked,omitempty"`   // what was pending and is no more
	ReportPath     string                        `json:"report_path,omitempty"` // as given, not looked at
}

// Item is the score of one criterion of the best answer.
type Item struct {
	ID     string  `json:"id"`
	Score  float64 `json:"score"`
	Passed bool    `json:"passed"`
}

// Plateau is a failed criterion that does not get better.
type Plateau struct {
	ID           string    `json:"id"`
	Text         string    `json:"text"`
	Category     string    `json:"category,omitempty"`
	ScoreHistory []float64 `json:"score_history"` // two earlier ones and the current one
	CurrentScore float64   `json:"current_score"`
}

// Told is the text of the tool result.
func (r Result) Told() string { return encode(r) }

// Read reads back what Told gave; false for any other text.
func Read(told string) (Result, bool) {
	var r Result
	if err := json.Unmarshal([]byte(told), &r); err != nil {
		return Result{}, false
	}
	accepted := r.Status == Accepted && r.Verdict != ""
	refused := r.Status == ValidationError && r.ErrorCode != ""
	return r, accepted || refused
}

// score is what r gave the criterion, false if it did not have it.
func (r Result) score(id string) (float64, bool) {
	i := slices.IndexFunc(r.Items, func(item Item) bool { return item.ID == id })
	if i < 0 {
		return 0, false
	}
	return r.Items[i].Score, true
}

// encode is for values that always have a JSON form: no score is infinite.
func encode(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}
