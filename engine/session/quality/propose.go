package quality

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
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

// judgeProposal evaluates the arguments of a propose_improvements call. It does not change the state.
func (s *State) judgeProposal(arguments string) *plan {
	switch {
	case s.latest == nil || s.latest.Status != accepted:
		return refuseProposal(checklistRequired, "First have a checklist accepted by submit_checklist.")
	case s.latest.Action != coordination.NewAnswer:
		return refuseProposal(iterateRequired, "The checklist says to end, so there is nothing to improve. "+s.nextAdvice(*s.latest))
	case len(s.pending) > 0:
		return refuseProposal(recheckRequired, "First score what came since your checklist, with submit_checklist: "+strings.Join(s.pending, ", ")+".")
	}
	fields, _ := llm.Object([]byte(arguments))
	improvements, ok := llm.Object(fields["improvements"])
	if !ok {
		return refuseProposal(improvementsTypeInvalid, "improvements has to be a JSON object: "+improvementsForm+".")
	}
	tasks, bold, bad := s.readImprovements(improvements)
	if bad != nil {
		return bad
	}
	preserved, bad := s.readPreserved(fields["preserve"])
	if bad != nil {
		return bad
	}
	if !bold {
		return refuseProposal(impactTooSmall, `All improvements are incremental. At least one has to have the impact "structural" or "transformative": change the approach, not only the details.`)
	}
	return &plan{
		Valid:    true,
		TaskPlan: append(tasks, task{ID: PreserveID, Type: "verify_preserve", Preserve: preserved}),
		Message:  "Do these tasks in order and check each; they are your plan now, which ends with the verification memo. Then submit the whole with new_answer.",
	}
}

// Proposal is a valid plan of improvements.
type Proposal struct {
	Tasks    []PlanTask
	Preserve []string
}

func (p *plan) toProposal() *Proposal {
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
		step := PlanTask{ID: t.ID, Description: t.Plan, Verification: t.CriterionID + ": " + t.CriterionText}
		if len(t.Sources) > 0 {
			step.Guidance = "Build on " + strings.Join(t.Sources, ", ") + "."
		}
		all.Tasks = append(all.Tasks, step)
	}
	return &all
}

// readImprovements returns the tasks of the failed criteria, in order. It also reports whether any
// criterion has an improvement that is not incremental.
func (s *State) readImprovements(improvements map[string]json.RawMessage) (tasks []task, bold bool, bad *plan) {
	if len(s.latest.FailedCriteria) == 0 {
		return nil, false, refuseProposal(nothingFailed, "No criterion failed. "+s.nextAdvice(*s.latest))
	}
	bad = refuseProposal(improvementsIncomplete, "")
	for i := range s.policy.Criteria {
		raw, ok := criterionValue(improvements, i)
		planned := s.improvementTasks(i, raw)
		bold = bold || slices.ContainsFunc(planned, func(t task) bool { return t.Impact != incremental })
		switch {
		case !slices.Contains(s.latest.FailedCriteria, criterionID(i)):
		case !ok:
			bad.MissingCriteria = append(bad.MissingCriteria, criterionID(i))
		case len(planned) == 0:
			bad.EmptyCriteria = append(bad.EmptyCriteria, criterionID(i))
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

// improvementTasks skips improvements without a plan.
func (s *State) improvementTasks(index int, raw json.RawMessage) []task {
	var all []task
	for _, item := range llm.Items(raw) {
		fields := itemFields(item, "plan")
		t := task{
			ID: fmt.Sprintf("%s.%d", criterionID(index), len(all)+1), Type: "improve", CriterionID: criterionID(index), CriterionText: s.policy.Criteria[index].Text,
			Plan: llm.Text(fields["plan"]), Sources: llm.Texts(fields["sources"]), Impact: incremental,
		}
		if impact := llm.Text(fields["impact"]); impact == "structural" || impact == "transformative" {
			t.Impact = impact
		}
		if t.Plan != "" {
			all = append(all, t)
		}
	}
	return all
}

// readPreserved reads the parts that must be kept.
func (s *State) readPreserved(raw json.RawMessage) ([]kept, *plan) {
	fields, ok := llm.Object(raw)
	if !ok || len(fields) == 0 {
		return nil, refuseProposal(preserveRequired, "preserve has to say what must stay as good as it is: "+preserveForm+".")
	}
	known := 0
	var all []kept
	for i := range s.policy.Criteria {
		for _, value := range criterionValues(fields, i) {
			known++
			items := llm.Items(value)
			for _, item := range items {
				fields := itemFields(item, "what")
				all = append(all, kept{CriterionID: criterionID(i), What: llm.Text(fields["what"]), Source: llm.Text(fields["source"])})
			}
			if len(items) == 0 || slices.ContainsFunc(all, func(k kept) bool { return k.What == "" }) {
				return nil, refuseProposal(preserveEmpty, "preserve does not say what of "+criterionID(i)+" must stay.")
			}
		}
	}
	if known < len(fields) {
		return nil, refuseProposal(preserveUnknown, "The keys of preserve are criteria: "+strings.Join(criterionIDs(len(s.policy.Criteria)), ", ")+".")
	}
	return all, nil
}

// incremental is the impact of an improvement that is neither structural nor transformative.
const incremental = "incremental"

func refuseProposal(code, why string) *plan { return &plan{ErrorCode: code, Error: why} }
