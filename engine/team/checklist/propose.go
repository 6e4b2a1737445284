package checklist

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	steps "conclave/engine/team/plan"
)

// Error codes of a proposal.
const (
	checklistRequired       = "checklist_required"
	iterateRequired         = "iterate_required"
	recheckRequired         = "recheck_required"
	improvementsTypeInvalid = "improvements_type_invalid"
	nothingFailed           = "nothing_failed"
	improvementsIncomplete  = "improvements_incomplete"
	preserveRequired        = "preserve_required"
	preserveUnknown         = "preserve_unknown"
	preserveEmpty           = "preserve_empty"
	impactTooSmall          = "impact_too_small"
)

// plan is the JSON result of a propose_improvements call. It has tasks if the call was valid,
// and otherwise an ErrorCode.
type plan struct {
	Valid           bool     `json:"valid"`
	ErrorCode       string   `json:"error_code,omitempty"`
	Error           string   `json:"error,omitempty"`
	MissingCriteria []string `json:"missing_criteria,omitempty"`
	EmptyCriteria   []string `json:"empty_criteria,omitempty"`
	TaskPlan        []task   `json:"task_plan,omitempty"`
	Message         string   `json:"message,omitempty"`
}

// task is one item of a plan: an improvement of a failed criterion or, at the end, the check
// that the good parts have been kept.
type task struct {
	ID            string   `json:"task_id"`
	Type          string   `json:"type"` // improve or verify_preserve
	CriterionID   string   `json:"criterion_id,omitempty"`
	CriterionText string   `json:"criterion_text,omitempty"`
	Plan          string   `json:"plan,omitempty"`
	Sources       []string `json:"sources,omitempty"`
	Impact        string   `json:"impact,omitempty"`
	Preserve      []kept   `json:"preserve,omitempty"`
}

// kept is a good part that must be kept.
type kept struct {
	CriterionID string `json:"criterion_id"`
	What        string `json:"what"`
	Source      string `json:"source,omitempty"`
}

// propose evaluates the arguments of a propose_improvements call. It does not change the
// state.
func (s *State) propose(arguments string) *plan {
	switch {
	case s.latest == nil || s.latest.Status != accepted:
		return impossible(checklistRequired, "First have a checklist accepted by submit_checklist.")
	case s.latest.Action != coordination.NewAnswer:
		return impossible(iterateRequired, "The checklist says to end, so there is nothing to improve. "+s.next(*s.latest))
	case len(s.pending) > 0:
		return impossible(recheckRequired, "First score what came since your checklist, with submit_checklist: "+strings.Join(s.pending, ", ")+".")
	}
	fields, _ := llm.Object([]byte(arguments))
	improvements, ok := llm.Object(fields["improvements"])
	if !ok {
		return impossible(improvementsTypeInvalid, "improvements has to be a JSON object: "+improvementsForm+".")
	}
	tasks, bold, bad := s.improve(improvements)
	if bad != nil {
		return bad
	}
	preserved, bad := s.preserve(fields["preserve"])
	if bad != nil {
		return bad
	}
	if !bold {
		return impossible(impactTooSmall, `All improvements are incremental. At least one has to have the impact "structural" or "transformative": change the approach, not only the details.`)
	}
	return &plan{
		Valid:    true,
		TaskPlan: append(tasks, task{ID: steps.PreserveID, Type: "verify_preserve", Preserve: preserved}),
		Message:  "Do these tasks in order and check each; they are your plan now, which ends with the verification memo. Then submit the whole with new_answer.",
	}
}

// Proposal is a valid plan of improvements.
type Proposal struct {
	Tasks    []steps.Task
	Preserve []string
}

// proposal converts a valid plan.
func (p *plan) proposal() *Proposal {
	var all Proposal
	for _, t := range p.TaskPlan {
		for _, k := range t.Preserve {
			part := k.CriterionID + ": " + k.What
			if k.Source != "" {
				part += " (" + k.Source + ")"
			}
			all.Preserve = append(all.Preserve, part)
		}
		if t.Type != "improve" {
			continue
		}
		step := steps.Task{ID: t.ID, Description: t.Plan, Verification: t.CriterionID + ": " + t.CriterionText}
		if len(t.Sources) > 0 {
			step.Guidance = "Build on " + strings.Join(t.Sources, ", ") + "."
		}
		all.Tasks = append(all.Tasks, step)
	}
	return &all
}

// improve returns the tasks of the failed criteria, in order. It also reports whether any
// criterion has an improvement that is not incremental.
func (s *State) improve(improvements map[string]json.RawMessage) (tasks []task, bold bool, bad *plan) {
	if len(s.latest.FailedCriteria) == 0 {
		return nil, false, impossible(nothingFailed, "No criterion failed. "+s.next(*s.latest))
	}
	bad = impossible(improvementsIncomplete, "")
	for i := range s.policy.Criteria {
		raw, ok := criterion(improvements, i)
		planned := s.tasks(i, raw)
		bold = bold || slices.ContainsFunc(planned, func(t task) bool { return t.Impact != incremental })
		switch {
		case !slices.Contains(s.latest.FailedCriteria, id(i)):
		case !ok:
			bad.MissingCriteria = append(bad.MissingCriteria, id(i))
		case len(planned) == 0:
			bad.EmptyCriteria = append(bad.EmptyCriteria, id(i))
		default:
			tasks = append(tasks, planned...)
		}
	}
	if lacking := slices.Concat(bad.MissingCriteria, bad.EmptyCriteria); len(lacking) > 0 {
		bad.Error = "Every failed criterion needs at least one improvement with a plan. There is none for " + strings.Join(lacking, ", ") + "."
		return nil, false, bad
	}
	return tasks, bold, nil
}

// tasks reads the improvements of a criterion. It skips those without a plan.
func (s *State) tasks(index int, raw json.RawMessage) []task {
	var all []task
	for _, item := range list(raw) {
		fields := entry(item, "plan")
		t := task{
			ID: fmt.Sprintf("%s.%d", id(index), len(all)+1), Type: "improve", CriterionID: id(index), CriterionText: s.policy.Criteria[index].Text,
			Plan: word(fields["plan"]), Sources: words(fields["sources"]), Impact: incremental,
		}
		if impact := word(fields["impact"]); impact == "structural" || impact == "transformative" {
			t.Impact = impact
		}
		if t.Plan != "" {
			all = append(all, t)
		}
	}
	return all
}

// preserve reads the parts that must be kept.
func (s *State) preserve(raw json.RawMessage) ([]kept, *plan) {
	fields, ok := llm.Object(raw)
	if !ok || len(fields) == 0 {
		return nil, impossible(preserveRequired, "preserve has to say what must stay as good as it is: "+preserveForm+".")
	}
	known := 0
	var all []kept
	for i := range s.policy.Criteria {
		for _, value := range named(fields, i) {
			known++
			items := list(value)
			for _, item := range items {
				fields := entry(item, "what")
				all = append(all, kept{CriterionID: id(i), What: word(fields["what"]), Source: word(fields["source"])})
			}
			if len(items) == 0 || slices.ContainsFunc(all, func(k kept) bool { return k.What == "" }) {
				return nil, impossible(preserveEmpty, "preserve does not say what of "+id(i)+" must stay.")
			}
		}
	}
	if known < len(fields) {
		return nil, impossible(preserveUnknown, "The keys of preserve are criteria: "+strings.Join(s.policy.ids(), ", ")+".")
	}
	return all, nil
}

// incremental is the impact of an improvement that is neither structural nor
// transformative.
const incremental = "incremental"

func impossible(code, why string) *plan { return &plan{ErrorCode: code, Error: why} }

// words returns the strings of a list that are not blank.
func words(raw json.RawMessage) []string {
	var all []string
	for _, item := range list(raw) {
		if s := word(item); s != "" {
			all = append(all, s)
		}
	}
	return all
}
