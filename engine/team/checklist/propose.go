package checklist

import (
	"encoding/json"
	"slices"
	"strings"
)

// Why a proposal is not valid.
const (
	ChecklistRequired       = "checklist_required"
	IterateRequired         = "iterate_required"
	RecheckRequired         = "recheck_required"
	ImprovementsTypeInvalid = "improvements_type_invalid"
	NothingFailed           = "nothing_failed"
	ImprovementsIncomplete  = "improvements_incomplete"
	PreserveRequired        = "preserve_required"
	PreserveUnknown         = "preserve_unknown"
	PreserveEmpty           = "preserve_empty"
	ImpactTooSmall          = "impact_too_small"
)

// minNonIncremental is how many improvements must be more than incremental.
const minNonIncremental = 1

// The types of a Task.
const (
	Improve        = "improve"
	VerifyPreserve = "verify_preserve"
)

// Plan is what a propose_improvements call is told, as JSON. A valid one has
// tasks, any other an ErrorCode.
type Plan struct {
	Valid           bool     `json:"valid"`
	ErrorCode       string   `json:"error_code,omitempty"`
	Error           string   `json:"error,omitempty"`
	MissingCriteria []string `json:"missing_criteria,omitempty"`
	EmptyCriteria   []string `json:"empty_criteria,omitempty"`
	TaskPlan        []Task   `json:"task_plan,omitempty"`
	Message         string   `json:"message,omitempty"`
}

// Task is one piece of work of a plan: an improvement of a failed criterion, or
// at the end the check that what was good still is.
type Task struct {
	Type          string   `json:"type"`
	CriterionID   string   `json:"criterion_id,omitempty"`
	CriterionText string   `json:"criterion_text,omitempty"`
	Plan          string   `json:"plan,omitempty"`
	Sources       []string `json:"sources,omitempty"`
	Impact        string   `json:"impact,omitempty"`
	Preserve      []Kept   `json:"preserve,omitempty"`
}

// Kept is something good that must stay.
type Kept struct {
	CriterionID string `json:"criterion_id"`
	What        string `json:"what"`
	Source      string `json:"source,omitempty"`
}

// Told is the text of the tool result.
func (p Plan) Told() string { return encode(p) }

// Propose evaluates the arguments of a propose_improvements call. It changes
// nothing, and nothing of it has to be learned.
func (s *State) Propose(arguments string) Plan {
	switch {
	case s.latest == nil || s.latest.Status != Accepted:
		return invalid(ChecklistRequired, "First have a checklist accepted by submit_checklist.")
	case s.latest.Verdict != NewAnswer:
		return invalid(IterateRequired, "The checklist says to end, so there is nothing to improve. "+s.next(*s.latest))
	case len(s.pending) > 0:
		return invalid(RecheckRequired, "First score what came since your checklist, with submit_checklist: "+strings.Join(s.pending, ", ")+".")
	}
	fields, _ := object([]byte(arguments))
	improvements, ok := object(fields["improvements"])
	if !ok {
		return invalid(ImprovementsTypeInvalid, `improvements has to be a JSON object: {"E1": [{"plan": "…", "sources": ["…"], "impact": "structural"}]}.`)
	}
	tasks, bad := s.improve(improvements)
	if bad != nil {
		return *bad
	}
	kept, bad := s.preserve(fields["preserve"])
	if bad != nil {
		return *bad
	}
	if s.bold(improvements) < minNonIncremental {
		return invalid(ImpactTooSmall, `All improvements are incremental. At least one has to have the impact "structural" or "transformative": change the approach, not only the details.`)
	}
	return Plan{
		Valid:    true,
		TaskPlan: append(tasks, Task{Type: VerifyPreserve, Preserve: kept}),
		Message:  "Do these tasks in order and check each. Then submit the whole with new_answer.",
	}
}

// improve makes the tasks of the failed criteria, in their order.
func (s *State) improve(improvements map[string]json.RawMessage) ([]Task, *Plan) {
	if len(s.latest.FailedCriteria) == 0 {
		bad := invalid(NothingFailed, "No criterion failed. "+s.next(*s.latest))
		return nil, &bad
	}
	var tasks []Task
	bad := invalid(ImprovementsIncomplete, "")
	for i, c := range s.policy.Criteria {
		if !slices.Contains(s.latest.FailedCriteria, id(i)) {
			continue
		}
		raw, ok := criterion(improvements, i)
		if !ok {
			bad.MissingCriteria = append(bad.MissingCriteria, id(i))
			continue
		}
		planned := improvementsOf(raw)
		if len(planned) == 0 {
			bad.EmptyCriteria = append(bad.EmptyCriteria, id(i))
		}
		for _, p := range planned {
			tasks = append(tasks, Task{Type: Improve, CriterionID: id(i), CriterionText: c.Text, Plan: p.plan, Sources: p.sources, Impact: p.impact})
		}
	}
	if lacking := append(bad.MissingCriteria, bad.EmptyCriteria...); len(lacking) > 0 {
		bad.Error = "Every failed criterion needs at least one improvement with a plan. There is none for " + strings.Join(lacking, ", ") + "."
		return nil, &bad
	}
	return tasks, nil
}

// preserve reads what must stay as good as it is.
func (s *State) preserve(raw json.RawMessage) ([]Kept, *Plan) {
	fields, ok := object(raw)
	if !ok || len(fields) == 0 {
		bad := invalid(PreserveRequired, `preserve has to say what must stay as good as it is: {"E2": {"what": "…", "source": "agent1.1"}}.`)
		return nil, &bad
	}
	known := 0
	var kept []Kept
	for i := range s.policy.Criteria {
		for _, value := range named(fields, i) {
			known++
			all, ok := keptOf(value)
			if !ok {
				bad := invalid(PreserveEmpty, "preserve does not say what of "+id(i)+" must stay.")
				return nil, &bad
			}
			for _, k := range all {
				k.CriterionID = id(i)
				kept = append(kept, k)
			}
		}
	}
	if known < len(fields) {
		bad := invalid(PreserveUnknown, "The keys of preserve are criteria: "+strings.Join(s.policy.ids(), ", ")+".")
		return nil, &bad
	}
	return kept, nil
}

func invalid(code, why string) Plan { return Plan{ErrorCode: code, Error: why} }
