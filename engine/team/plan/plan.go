package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// Task is one task of a plan.
type Task struct {
	ID           string   `json:"id"`
	Description  string   `json:"description"`
	Guidance     string   `json:"implementation_guidance,omitempty"`
	Verification string   `json:"verification,omitempty"`
	Preserve     []string `json:"preserve,omitempty"` // the parts that the task must find preserved
	Status       string   `json:"status"`
	Note         string   `json:"note,omitempty"`
}

// The statuses of a task.
const (
	pending    = "pending"
	inProgress = "in_progress"
	completed  = "completed"
	blocked    = "blocked"
)

var statuses = []string{pending, inProgress, completed, blocked}

// IDs of the tasks with which every plan ends.
const (
	PreserveID = "verify_preserve"
	MemoID     = "write_verification_memo"
)

// Memo is the path of the verification memo in a workspace.
const Memo = "memory/short_term/verification_latest.md"

// sections are the sections of the verification memo.
var sections = []string{"Verification Contract", "Inputs and Artifacts", "Replay Steps", "Latest Verification Result", "Stale If"}

// maxNote bounds the note of a task, in bytes.
const maxNote = 1 << 10

// New returns a plan of tasks. An agent without files writes the memo into its answer.
func New(tasks []Task, preserve []string, files bool) []Task {
	tasks = slices.Clone(tasks)
	if len(preserve) > 0 {
		tasks = append(tasks, Task{ID: PreserveID, Description: "Check that these strengths are as good as before.", Preserve: preserve})
	}
	memo := Task{
		ID: MemoID, Description: "Write " + Memo + " with the sections " + strings.Join(sections, ", ") + ".",
		Guidance: "State the environment, every command as it was run, the paths of all files involved, relative to the workspace, and when the result no longer holds.",
	}
	if !files {
		memo.Description = "End your answer with a verification memo: the sections " + strings.Join(sections, ", ") + "."
		memo.Guidance = "State briefly what the result rests on, how each claim was checked and can be checked again, and when it no longer holds."
	}
	tasks = append(tasks, memo)
	for i := range tasks {
		tasks[i].Status = pending
	}
	return tasks
}

// Update is an accepted update of a task.
type Update struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Note   string `json:"note,omitempty"`
}

// State is the progress of a plan.
type State struct{ tasks []Task }

// Begin returns the state of a plan before any update.
func Begin(tasks []Task) *State { return &State{tasks: slices.Clone(tasks)} }

// Learn folds an accepted update into the state.
func (s *State) Learn(u Update) {
	for i := range s.tasks {
		if t := &s.tasks[i]; t.ID == u.ID {
			t.Status = u.Status
			if u.Note != "" {
				t.Note = u.Note
			}
		}
	}
}

// The names of the tools.
const (
	getTaskPlan = "get_task_plan"
	updateTask  = "update_task"
)

// Offers reports whether a tool is one of the plan's.
func Offers(tool string) bool { return tool == getTaskPlan || tool == updateTask }

// Tools returns the tools of a plan.
func Tools() []llm.Tool {
	return []llm.Tool{
		llm.NewTool(getTaskPlan, "Get the tasks of your plan with their status.", map[string]llm.Property{}),
		llm.NewTool(updateTask, "Set the status of a task of your plan.", map[string]llm.Property{
			"task_id": {Type: "string", Description: "The id of the task."},
			"status":  {Type: "string", Description: "Its new status.", Enum: statuses},
			"note":    {Type: "string", Description: "What you found or did, for your own use."},
		}, "task_id", "status"),
	}
}

// result is the JSON result of update_task.
type result struct {
	Status    string `json:"status"` // either ok or error
	ErrorCode string `json:"error_code,omitempty"`
	Error     string `json:"error,omitempty"`
	Remaining int    `json:"remaining"` // tasks that are pending or in progress
}

// Evaluate returns the results of a reply's calls of the plan's tools, by call ID, where each
// call sees the effect of the earlier ones. It also returns the updates to learn. It does not
// change the state.
func (s *State) Evaluate(calls []llm.ToolCall) (texts map[string]string, updates []Update) {
	ahead := Begin(s.tasks)
	texts = make(map[string]string)
	for _, call := range calls {
		switch call.Name {
		case getTaskPlan:
			texts[call.ID] = encode(struct {
				Tasks []Task `json:"tasks"`
			}{append([]Task{}, ahead.tasks...)})
		case updateTask:
			u, bad := ahead.parse(call.Arguments)
			if bad != nil {
				texts[call.ID] = encode(bad)
				continue
			}
			ahead.Learn(u)
			updates = append(updates, u)
			texts[call.ID] = encode(result{Status: "ok", Remaining: ahead.remaining()})
		}
	}
	return texts, updates
}

func (s *State) parse(arguments string) (Update, *result) {
	var args struct {
		ID     string `json:"task_id"`
		Status string `json:"status"`
		Note   string `json:"note"`
	}
	switch err := json.Unmarshal([]byte(arguments), &args); {
	case err != nil:
		return Update{}, s.fault("arguments_invalid", fmt.Sprintf(`update_task takes {"task_id": %q, "status": %q, "note": "what was done"}.`, append(s.ids(), "t1")[0], completed))
	case len(s.tasks) == 0:
		return Update{}, s.fault("task_unknown", "You have no plan yet: a valid propose_improvements makes one.")
	case !slices.ContainsFunc(s.tasks, func(t Task) bool { return t.ID == args.ID }):
		return Update{}, s.fault("task_unknown", fmt.Sprintf("There is no task %.64q. The tasks are %s.", args.ID, strings.Join(s.ids(), ", ")))
	case !slices.Contains(statuses, args.Status):
		return Update{}, s.fault("status_invalid", "The status is one of "+strings.Join(statuses, ", ")+".")
	}
	return Update{ID: args.ID, Status: args.Status, Note: text.Truncate(args.Note, maxNote)}, nil
}

func (s *State) fault(code, why string) *result {
	return &result{Status: "error", ErrorCode: code, Error: why, Remaining: s.remaining()}
}

func (s *State) ids() []string {
	ids := make([]string, len(s.tasks))
	for i, t := range s.tasks {
		ids[i] = t.ID
	}
	return ids
}

func (s *State) remaining() int {
	n := 0
	for _, t := range s.tasks {
		if t.Status == pending || t.Status == inProgress {
			n++
		}
	}
	return n
}

// encode encodes a value that always has a JSON form.
func encode(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}
