package evaluator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/team/plan"
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
	Objective      string     `json:"objective"`
	Assessment     assessment `json:"approach_assessment"`
	Tasks          []task     `json:"tasks"`
	EvolutionTasks []task     `json:"evolution_tasks"`
	Preserve       []string   `json:"preserve"`
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

func (c ceiling) valid() bool {
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

// task is a task that the agent does itself.
type task struct {
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

// parseTasks reads next_tasks and returns all of its faults.
func parseTasks(raw json.RawMessage) (NextTasks, []Fault) {
	if len(raw) == 0 || string(raw) == "null" {
		return NextTasks{}, []Fault{*fault("tasks_missing", "With the verdict iterate, next_tasks has to say what the next version does.")}
	}
	fields, ok := llm.Object(raw)
	var t NextTasks
	if !ok {
		return t, []Fault{*fault("tasks_type_invalid", "next_tasks has to be a JSON object with objective, approach_assessment, tasks, evolution_tasks and preserve.")}
	}
	data, _ := json.Marshal(fields) // also where they were sent as a string
	if err := json.Unmarshal(data, &t); err != nil {
		return t, []Fault{mistyped(err)}
	}
	t.number()
	return t, t.faults()
}

// forms are the types of the fields of next_tasks that are not strings.
var forms = map[string]string{
	"approach_assessment": "an object", "paradigm_shift": "an object or null", "execution": "an object",
	"breakthroughs": "a list of objects", "tasks": "a list of objects", "evolution_tasks": "a list of objects",
	"preserve": "a list of strings", "transferable_elements": "a list of strings",
}

// mistyped describes the first value of a wrong type.
func mistyped(err error) Fault {
	bad, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return *fault("tasks_type_invalid", "next_tasks cannot be read: %v.", err)
	}
	name := bad.Field[strings.LastIndex(bad.Field, ".")+1:]
	return *fault("tasks_type_invalid", "next_tasks.%s has to be %s; a value of type %s was found.", bad.Field, cmp.Or(forms[name], "a string"), bad.Value)
}

// all returns the tasks of both lists.
func (t *NextTasks) all() []*task {
	var all []*task
	for _, list := range [][]task{t.Tasks, t.EvolutionTasks} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// number sets missing IDs and modes of tasks.
func (t *NextTasks) number() {
	taken := t.reserved()
	for _, one := range t.all() {
		one.ID = strings.TrimSpace(one.ID)
		taken[one.ID] = true
		one.Execution.Mode = cmp.Or(one.Execution.Mode, inline)
	}
	for i, one := range t.all() {
		for n := i + 1; one.ID == ""; n++ {
			if id := fmt.Sprintf("t%d", n); !taken[id] {
				one.ID, taken[id] = id, true
			}
		}
	}
}

// reserved returns the IDs of the tasks that Plan adds.
func (t *NextTasks) reserved() map[string]bool {
	ids := map[string]bool{plan.PreserveID: true, plan.MemoID: true}
	for i := range t.Assessment.Breakthroughs {
		ids[amplifyID(i)] = true
	}
	return ids
}

// amplifyID returns the ID of the task for the i-th breakthrough, counted from 0.
func amplifyID(i int) string { return fmt.Sprintf("amplify_%d", i+1) }

func (t NextTasks) faults() []Fault {
	var all []Fault
	add := func(bad bool, code, format string, args ...any) {
		if bad {
			all = append(all, *fault(code, format, args...))
		}
	}
	reached := t.Assessment.Ceiling.CeilingStatus == coordination.CeilingReached
	add(blank(t.Objective), "objective_missing", "objective has to name the one aim of the next version.")
	add(!t.Assessment.Ceiling.valid(), "ceiling_status_invalid", "approach_assessment.ceiling_status is ceiling_not_reached, ceiling_approaching or ceiling_reached.")
	add(len(t.Tasks)+len(t.EvolutionTasks) == 0, "tasks_empty", "There is no task under tasks or evolution_tasks.")
	seen, reserved := map[string]bool{}, t.reserved()
	for _, task := range t.all() {
		add(blank(task.Description, task.Guidance, task.Verification), "task_incomplete", "The task %.32q needs description, implementation_guidance and verification.", task.ID)
		add(task.Execution.Mode != inline, "execution_mode_invalid", "The execution mode of the task %.32q has to be inline: there is nobody to delegate to.", task.ID)
		add(seen[task.ID], "task_id_repeated", "Two tasks have the id %.32q.", task.ID)
		seen[task.ID] = true
		add(reserved[task.ID], "task_id_reserved", "The plan adds a task with the id %.32q; give yours another.", task.ID)
	}
	add(reached && len(t.EvolutionTasks) == 0, "evolution_tasks_missing", "With ceiling_reached, evolution_tasks have to take another approach.")
	s := t.Assessment.Shift
	add(reached && s == nil, "paradigm_shift_missing", "With ceiling_reached, paradigm_shift has to name the other approach.")
	add(s != nil && (blank(s.Limitation, s.Alternative) || len(s.Transferable) == 0), "paradigm_shift_incomplete",
		"paradigm_shift needs current_limitation, alternative_approach and transferable_elements.")
	for _, b := range t.Assessment.Breakthroughs {
		add(blank(b.Element, b.Why, b.Amplification), "breakthrough_incomplete", "Every breakthrough needs element, why and amplification.")
	}
	add(!slices.ContainsFunc(t.Preserve, func(s string) bool { return !blank(s) }), "preserve_missing", "preserve has to name what must stay.")
	return all
}

// blank reports whether one of the texts is empty.
func blank(texts ...string) bool {
	return slices.ContainsFunc(texts, func(s string) bool { return strings.TrimSpace(s) == "" })
}

// Plan returns the plan of the agent's next step.
func (t NextTasks) Plan(files bool) []plan.Task {
	lists := [][]task{t.Tasks, t.EvolutionTasks}
	if t.Assessment.Ceiling.CeilingStatus == coordination.CeilingReached {
		slices.Reverse(lists)
	}
	var tasks []plan.Task
	for _, one := range slices.Concat(lists...) {
		tasks = append(tasks, plan.Task{ID: one.ID, Description: one.Description, Guidance: one.Guidance, Verification: one.Verification})
	}
	for i, b := range t.Assessment.Breakthroughs {
		tasks = append(tasks, plan.Task{
			ID: amplifyID(i), Description: "Apply the principle of " + b.Element + " to weaker parts: " + b.Amplification, Guidance: b.Why,
		})
	}
	return plan.New(tasks, t.Preserve, files)
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
