package checklist

import (
	"encoding/json"
	"slices"
	"strings"

	"conclave/engine/coordination"
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

// minNonIncremental is the least number of structural or transformative improvements.
const minNonIncremental = 1

// plan is the JSON result of a propose_improvements call. A valid one has tasks, any
// other an ErrorCode.
type plan struct {
	Valid           bool     `json:"valid"`
	ErrorCode       string   `json:"error_code,omitempty"`
	Error           string   `json:"error,omitempty"`
	MissingCriteria []string `json:"missing_criteria,omitempty"`
	EmptyCriteria   []string `json:"empty_criteria,omitempty"`
	TaskPlan        []task   `json:"task_plan,omitempty"`
	Message         string   `json:"message,omitempty"`
}

// task is one item of a plan: an improvement of a failed criterion or, at the end, the
// check that the good parts stayed.
type task struct {
	Type          string   `json:"type"` // improve or verify_preserve
	CriterionID   string   `json:"criterion_id,omitempty"`
	CriterionText string   `json:"criterion_text,omitempty"`
	Plan          string   `json:"plan,omitempty"`
	Sources       []string `json:"sources,omitempty"`
	Impact        string   `json:"impact,omitempty"`
	Preserve      []kept   `json:"preserve,omitempty"`
}

// kept is a good part that must stay.
type kept struct {
	CriterionID string `json:"criterion_id"`
	What        string `json:"what"`
	Source      string `json:"source,omitempty"`
}

// propose evaluates the arguments of a propose_improvements call. It has no effect on
// the state.
func (s *State) propose(arguments string) *plan {
	switch {
	case s.latest == nil || s.latest.Status != accepted:
		return impossible(checklistRequired, "First have a checklist accepted by submit_checklist.")
	case s.latest.Verdict != coordination.NewAnswer:
		return impossible(iterateRequired, "The checklist says to end, so there is nothing to improve. "+s.next(*s.latest))
	case len(s.pending) > 0:
		return impossible(recheckRequired, "First score what came since your checklist, with submit_checklist: "+strings.Join(s.pending, ", ")+".")
	}
	fields, _ := object([]byte(arguments))
	improvements, ok := object(fields["improvements"])
	if !ok {
		return impossible(improvementsTypeInvalid, `improvements has to be a JSON object: {"E1": [{"plan": "…", "sources": ["…"], "impact": "structural"}]}.`)
	}
	tasks, bad := s.improve(improvements)
	if bad != nil {
		return bad
	}
	preserved, bad := s.preserve(fields["preserve"])
	if bad != nil {
		return bad
	}
	if s.bold(improvements) < minNonIncremental {
		return impossible(impactTooSmall, `All improvements are incremental. At least one has to have the impact "structural" or "transformative": change the approach, not only the details.`)
	}
	return &plan{
		Valid:    true,
		TaskPlan: append(tasks, task{Type: "verify_preserve", Preserve: preserved}),
		Message:  "Do these tasks in order and check each. Then submit the whole with new_answer.",
	}
}

// improve builds the tasks of the failed criteria, in order.
func (s *State) improve(improvements map[string]json.RawMessage) ([]task, *plan) {
	if len(s.latest.FailedCriteria) == 0 {
		return nil, impossible(nothingFailed, "No criterion failed. "+s.next(*s.latest))
	}
	var tasks []task
	bad := impossible(improvementsIncomplete, "")
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
			tasks = append(tasks, task{Type: "improve", CriterionID: id(i), CriterionText: c.Text, Plan: p.plan, Sources: p.sources, Impact: p.impact})
		}
	}
	if lacking := append(bad.MissingCriteria, bad.EmptyCriteria...); len(lacking) > 0 {
		bad.Error = "Every failed criterion needs at least one improvement with a plan. There is none for " + strings.Join(lacking, ", ") + "."
		return nil, bad
	}
	return tasks, nil
}

// preserve reads the parts that must stay.
func (s *State) preserve(raw json.RawMessage) ([]kept, *plan) {
	fields, ok := object(raw)
	if !ok || len(fields) == 0 {
		return nil, impossible(preserveRequired, `preserve has to say what must stay as good as it is: {"E2": {"what": "…", "source": "agent1.1"}}.`)
	}
	known := 0
	var all []kept
	for i := range s.policy.Criteria {
		for _, value := range named(fields, i) {
			known++
			some, ok := keptOf(value)
			if !ok {
				return nil, impossible(preserveEmpty, "preserve does not say what of "+id(i)+" must stay.")
			}
			for _, k := range some {
				k.CriterionID = id(i)
				all = append(all, k)
			}
		}
	}
	if known < len(fields) {
		return nil, impossible(preserveUnknown, "The keys of preserve are criteria: "+strings.Join(s.policy.ids(), ", ")+".")
	}
	return all, nil
}

func impossible(code, why string) *plan { return &plan{ErrorCode: code, Error: why} }

// The impacts of an improvement, from small to large.
const (
	incremental    = "incremental"
	structural     = "structural"
	transformative = "transformative"
)

// improvement is one proposed way to make a criterion pass.
type improvement struct {
	plan    string
	sources []string
	impact  string
}

// improvementsOf reads the improvements of a criterion and skips those without a plan.
func improvementsOf(raw json.RawMessage) []improvement {
	var all []improvement
	for _, item := range list(raw) {
		fields := entry(item, "plan")
		one := improvement{plan: word(fields["plan"]), sources: words(fields["sources"]), impact: incremental}
		if impact := word(fields["impact"]); impact == structural || impact == transformative {
			one.impact = impact
		}
		if one.plan != "" {
			all = append(all, one)
		}
	}
	return all
}

// words lists the strings of a list that are not blank.
func words(raw json.RawMessage) []string {
	var all []string
	for _, item := range list(raw) {
		if s := word(item); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// bold counts the structural and transformative improvements.
func (s *State) bold(improvements map[string]json.RawMessage) int {
	count := 0
	for i := range s.policy.Criteria {
		raw, ok := criterion(improvements, i)
		if !ok {
			continue
		}
		for _, one := range improvementsOf(raw) {
			if one.impact != incremental {
				count++
			}
		}
	}
	return count
}

// keptOf reads the parts of a criterion that must stay; false if one is blank.
func keptOf(raw json.RawMessage) ([]kept, bool) {
	var all []kept
	for _, item := range list(raw) {
		fields := entry(item, "what")
		all = append(all, kept{What: word(fields["what"]), Source: word(fields["source"])})
	}
	blank := slices.ContainsFunc(all, func(k kept) bool { return k.What == "" })
	return all, len(all) > 0 && !blank
}
