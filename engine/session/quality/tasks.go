package quality

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/text"
)

// TasksForm describes next_tasks to the evaluator, with an example that can be copied.
const TasksForm = `The tasks of the next version, or null with the verdict converged: {"objective": "what to reach", ` +
	`"approach_assessment": {"ceiling_status": "ceiling_not_reached", "ceiling_explanation": "why", ` +
	`"breakthroughs": [{"element": "what is best", "why": "why", "amplification": "how to lift the rest by it"}], ` +
	`"paradigm_shift": {"current_limitation": "what limits it", "alternative_approach": "what else", "transferable_elements": ["what carries over"]}}, ` +
	`"tasks": [{"id": "t1", "description": "what to do", "implementation_guidance": "how", "verification": "how to check it", "execution": {"mode": "inline"}}], ` +
	`"evolution_tasks": [], "preserve": ["what must stay"]}. The ceiling_status is ceiling_not_reached, ceiling_approaching or ceiling_reached; evolution_tasks are tasks of another approach, in the form of tasks.`

// NextTasks is next_tasks.json.
type NextTasks struct {
	Objective      string           `json:"objective"`
	Assessment     assessment       `json:"approach_assessment"`
	Tasks          []evaluationTask `json:"tasks"`
	EvolutionTasks []evaluationTask `json:"evolution_tasks"`
	Preserve       []string         `json:"preserve"`
}

// assessment is the evaluator's judgement of the approach.
type assessment struct {
	Ceiling       ceiling        `json:"ceiling_status"`
	Explanation   string         `json:"ceiling_explanation,omitempty"`
	Breakthroughs []breakthrough `json:"breakthroughs,omitempty"`
	Shift         *shift         `json:"paradigm_shift"`
}

// ceiling is a coordination.CeilingStatus as it was submitted.
type ceiling struct{ coordination.CeilingStatus }

// MarshalText and UnmarshalText implement the JSON form.
func (c ceiling) MarshalText() ([]byte, error) { return []byte(c.CeilingStatus), nil }

// UnmarshalText accepts any text; the check of next_tasks refuses unknown ones.
func (c *ceiling) UnmarshalText(value []byte) error {
	c.CeilingStatus = coordination.CeilingStatus(strings.ToLower(strings.TrimSpace(string(value))))
	return nil
}

func (c ceiling) isValid() bool {
	return slices.Contains([]coordination.CeilingStatus{coordination.CeilingNotReached, coordination.CeilingApproaching, coordination.CeilingReached}, c.CeilingStatus)
}

// breakthrough is a part that is much better than the rest.
type breakthrough struct {
	Element       string `json:"element"`
	Why           string `json:"why"`
	Amplification string `json:"amplification"` // how its principle can lift weaker parts
}

// shift is a change of approach.
type shift struct {
	Limitation   string   `json:"current_limitation"`
	Alternative  string   `json:"alternative_approach"`
	Transferable []string `json:"transferable_elements"` // the parts that carry over
}

// evaluationTask is a task that the agent does itself.
type evaluationTask struct {
	ID           string    `json:"id"`
	Description  string    `json:"description"`
	Guidance     string    `json:"implementation_guidance"`
	Verification string    `json:"verification"`
	Execution    execution `json:"execution"`
}

// execution determines who does a task.
type execution struct {
	Mode string `json:"mode"`
}

// inline means that the agent does the task itself; it is the only mode.
const inline = "inline"

func parseTasks(raw json.RawMessage) (NextTasks, []EvaluationFault) {
	if len(raw) == 0 || string(raw) == "null" {
		return NextTasks{}, []EvaluationFault{*evaluationFault("tasks_missing", "With the verdict iterate, next_tasks has to say what the next version does.")}
	}
	fields, ok := llm.Object(raw)
	var t NextTasks
	if !ok {
		return t, []EvaluationFault{*evaluationFault("tasks_type_invalid", "next_tasks has to be a JSON object with objective, approach_assessment, tasks, evolution_tasks and preserve.")}
	}
	data, _ := json.Marshal(fields) // also where they were sent as a string
	if err := json.Unmarshal(data, &t); err != nil {
		return t, []EvaluationFault{typeFault(err)}
	}
	t.numberTasks()
	return t, t.findFaults()
}

// forms are the types of the fields of next_tasks that are not strings.
var forms = map[string]string{
	"approach_assessment": "an object", "paradigm_shift": "an object or null", "execution": "an object",
	"breakthroughs": "a list of objects", "tasks": "a list of objects", "evolution_tasks": "a list of objects",
	"preserve": "a list of strings", "transferable_elements": "a list of strings",
}

// typeFault describes the first value of a wrong type.
func typeFault(err error) EvaluationFault {
	bad, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return *evaluationFault("tasks_type_invalid", "next_tasks cannot be read: %v.", err)
	}
	name := bad.Field[strings.LastIndex(bad.Field, ".")+1:]
	return *evaluationFault("tasks_type_invalid", "next_tasks.%s has to be %s; a value of type %s was found.", bad.Field, cmp.Or(forms[name], "a string"), bad.Value)
}

func (t *NextTasks) listTasks() []*evaluationTask {
	var all []*evaluationTask
	for _, list := range [][]evaluationTask{t.Tasks, t.EvolutionTasks} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// numberTasks sets missing IDs and modes of tasks.
func (t *NextTasks) numberTasks() {
	taken := t.reservedIDs()
	for _, one := range t.listTasks() {
		one.ID = strings.TrimSpace(one.ID)
		taken[one.ID] = true
		one.Execution.Mode = cmp.Or(one.Execution.Mode, inline)
	}
	for i, one := range t.listTasks() {
		for n := i + 1; one.ID == ""; n++ {
			if id := fmt.Sprintf("t%d", n); !taken[id] {
				one.ID, taken[id] = id, true
			}
		}
	}
}

func (t *NextTasks) reservedIDs() map[string]bool {
	ids := map[string]bool{PreserveID: true, MemoID: true}
	for i := range t.Assessment.Breakthroughs {
		ids[amplifyID(i)] = true
	}
	return ids
}

// amplifyID returns the ID of the task for the i-th breakthrough, counted from 0.
func amplifyID(i int) string { return fmt.Sprintf("amplify_%d", i+1) }

func (t NextTasks) findFaults() []EvaluationFault {
	var all []EvaluationFault
	add := func(bad bool, code, format string, args ...any) {
		if bad {
			all = append(all, *evaluationFault(code, format, args...))
		}
	}
	reached := t.Assessment.Ceiling.CeilingStatus == coordination.CeilingReached
	add(isBlank(t.Objective), "objective_missing", "objective has to name the one aim of the next version.")
	add(!t.Assessment.Ceiling.isValid(), "ceiling_status_invalid", "approach_assessment.ceiling_status is ceiling_not_reached, ceiling_approaching or ceiling_reached.")
	add(len(t.Tasks)+len(t.EvolutionTasks) == 0, "tasks_empty", "There is no task under tasks or evolution_tasks.")
	seen, reserved := map[string]bool{}, t.reservedIDs()
	for _, task := range t.listTasks() {
		add(isBlank(task.Description, task.Guidance, task.Verification), "task_incomplete", "The task %.32q needs description, implementation_guidance and verification.", task.ID)
		add(task.Execution.Mode != inline, "execution_mode_invalid", "The execution mode of the task %.32q has to be inline: there is nobody to delegate to.", task.ID)
		add(seen[task.ID], "task_id_repeated", "Two tasks have the id %.32q.", task.ID)
		seen[task.ID] = true
		add(reserved[task.ID], "task_id_reserved", "The plan adds a task with the id %.32q; give yours another.", task.ID)
	}
	add(reached && len(t.EvolutionTasks) == 0, "evolution_tasks_missing", "With ceiling_reached, evolution_tasks have to take another approach.")
	s := t.Assessment.Shift
	add(reached && s == nil, "paradigm_shift_missing", "With ceiling_reached, paradigm_shift has to name the other approach.")
	add(s != nil && (isBlank(s.Limitation, s.Alternative) || len(s.Transferable) == 0), "paradigm_shift_incomplete",
		"paradigm_shift needs current_limitation, alternative_approach and transferable_elements.")
	for _, b := range t.Assessment.Breakthroughs {
		add(isBlank(b.Element, b.Why, b.Amplification), "breakthrough_incomplete", "Every breakthrough needs element, why and amplification.")
	}
	add(!slices.ContainsFunc(t.Preserve, func(s string) bool { return !isBlank(s) }), "preserve_missing", "preserve has to name what must stay.")
	return all
}

func isBlank(texts ...string) bool {
	return slices.ContainsFunc(texts, func(s string) bool { return strings.TrimSpace(s) == "" })
}

// Plan returns the plan of the agent's next step.
func (t NextTasks) Plan(files bool) []PlanTask {
	lists := [][]evaluationTask{t.Tasks, t.EvolutionTasks}
	if t.Assessment.Ceiling.CeilingStatus == coordination.CeilingReached {
		slices.Reverse(lists)
	}
	var tasks []PlanTask
	for _, one := range slices.Concat(lists...) {
		tasks = append(tasks, PlanTask{ID: one.ID, Description: one.Description, Guidance: one.Guidance, Verification: one.Verification})
	}
	for i, b := range t.Assessment.Breakthroughs {
		tasks = append(tasks, PlanTask{
			ID: amplifyID(i), Description: "Apply the principle of " + b.Element + " to weaker parts: " + b.Amplification, Guidance: b.Why,
		})
	}
	return NewPlan(tasks, t.Preserve, files)
}

// Shift describes the change of approach in three lines, or is empty without a change.
func (t NextTasks) Shift() string {
	s := t.Assessment.Shift
	if s == nil {
		return ""
	}
	return fmt.Sprintf("- Limit: %s\n- Other approach: %s\n- Keep: %s",
		text.OneLine(s.Limitation), text.OneLine(s.Alternative), text.OneLine(strings.Join(s.Transferable, "; ")))
}

// EvaluationParts are the names of the parts of a packet, in order.
var EvaluationParts = []string{
	"criteria_interpretation", "criterion_findings", "cross_answer_synthesis", "preserve",
	"improvement_spec", "verification_plan", "evidence_gaps",
}

// Submission is an evaluation as it was submitted.
type Submission struct {
	Packet []string   `json:"packet"` // parts in the order of EvaluationParts
	Rating Rating     `json:"verdict"`
	Tasks  *NextTasks `json:"next_tasks"` // nil without valid ones

	// Ceiling is the status that next_tasks states, even if next_tasks is not valid.
	Ceiling coordination.CeilingStatus `json:"ceiling_status,omitempty"`

	// Faults are the faults of next_tasks. They are empty if next_tasks is valid or not needed.
	Faults []EvaluationFault `json:"faults,omitempty"`
}

// Rating is verdict.json: the verdict with its reasons in numbers.
type Rating struct {
	Verdict coordination.RoundVerdict `json:"verdict"`
	Scores  map[string]float64        `json:"scores"` // scores by criterion
}

// EvaluationFault is an error of a submission: a stable code and a sentence for the model.
type EvaluationFault struct {
	Code string `json:"code"`
	Why  string `json:"why"`
}

func (f *EvaluationFault) Error() string { return f.Why }

func evaluationFault(code, format string, args ...any) *EvaluationFault {
	return &EvaluationFault{Code: code, Why: fmt.Sprintf(format, args...)}
}

// ParseEvaluation reads the arguments of submit_evaluation for an answer that is judged by the given
// number of criteria. It returns a fault only if it refuses the submission.
func ParseEvaluation(arguments string, criteria int) (Submission, *EvaluationFault) {
	fields, ok := llm.Object([]byte(arguments))
	if !ok {
		return Submission{}, evaluationFault("arguments_invalid", "submit_evaluation takes a JSON object with packet, verdict and next_tasks.")
	}
	var s Submission
	var bad *EvaluationFault
	if s.Packet, bad = parsePacket(fields["packet"]); bad != nil {
		return Submission{}, bad
	}
	if s.Rating, bad = parseRating(fields["verdict"], criteria); bad != nil {
		return Submission{}, bad
	}
	s.readTasks(fields["next_tasks"])
	return s, nil
}

func (s *Submission) readTasks(raw json.RawMessage) {
	tasks, faults := parseTasks(raw)
	if ceiling := tasks.Assessment.Ceiling; ceiling.isValid() {
		s.Ceiling = ceiling.CeilingStatus
	}
	switch {
	case s.Rating.Verdict == coordination.Converged:
	case len(faults) > 0:
		s.Faults = faults
	default:
		s.Tasks = &tasks
	}
}

func parsePacket(raw json.RawMessage) ([]string, *EvaluationFault) {
	fields, ok := llm.Object(raw)
	if !ok {
		return nil, evaluationFault("packet_invalid", "packet has to be a JSON object with %s.", strings.Join(EvaluationParts, ", "))
	}
	packet := make([]string, len(EvaluationParts))
	var missing []string
	for i, name := range EvaluationParts {
		if packet[i] = readProse(fields[name]); packet[i] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, evaluationFault("packet_incomplete", "packet has nothing under %s.", strings.Join(missing, ", "))
	}
	return packet, nil
}

func parseRating(raw json.RawMessage, criteria int) (Rating, *EvaluationFault) {
	fields, ok := llm.Object(raw)
	if !ok {
		return Rating{}, evaluationFault("verdict_invalid", `verdict has to be a JSON object: {"verdict": "iterate", "scores": {"E1": 7}}.`)
	}
	v := Rating{Verdict: coordination.RoundVerdict(strings.ToLower(llm.Text(fields["verdict"]))), Scores: map[string]float64{}}
	if v.Verdict != coordination.Iterate && v.Verdict != coordination.Converged {
		return Rating{}, evaluationFault("verdict_unknown", "The verdict is iterate or converged.")
	}
	scores, ok := llm.Object(fields["scores"])
	if !ok {
		return Rating{}, evaluationFault("scores_invalid", `scores has to be a JSON object: {"E1": 7, "E2": 5}.`)
	}
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		if !slices.Contains(criterionIDs(criteria), name) {
			return Rating{}, evaluationFault("scores_unknown", "There is no criterion %.32q; they are E1 to E%d.", name, criteria)
		}
	}
	for _, name := range criterionIDs(criteria) {
		value, given := scores[name]
		if !given {
			return Rating{}, evaluationFault("scores_incomplete", "scores has no score for %s.", name)
		}
		var score *float64
		if json.Unmarshal(value, &score) != nil || score == nil || *score < 0 || *score > 10 {
			return Rating{}, evaluationFault("scores_out_of_range", "The score of %s has to be a number from 0 to 10.", name)
		}
		v.Scores[name] = *score
	}
	return v, nil
}

func criterionIDs(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = criterionID(i)
	}
	return names
}

// RoundScores returns the scores in the order of the criteria.
func (v Rating) RoundScores() []coordination.RoundScore {
	var scores []coordination.RoundScore
	for _, name := range criterionIDs(len(v.Scores)) {
		scores = append(scores, coordination.RoundScore{ID: name, Score: v.Scores[name]})
	}
	return scores
}

// Document returns the packet as critique_packet.md.
func (s Submission) Document(label string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Evaluation of %s\n", label)
	for i, name := range EvaluationParts {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", name, s.Packet[i])
	}
	return b.String()
}

// readProse reads a text, or a list of texts as a Markdown list. It returns "" for other values.
func readProse(raw json.RawMessage) string {
	if s := llm.Text(raw); s != "" {
		return s
	}
	lines := text.Each(llm.Texts(raw), func(s string) string { return "- " + s })
	return strings.Join(lines, "\n")
}
