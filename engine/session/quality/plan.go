package quality

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// PlanTask is one task of a plan.
type PlanTask struct {
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

// PlanMemo is the path of the verification memo in a workspace.
const PlanMemo = "memory/short_term/verification_latest.md"

// sections are the sections of the verification memo.
var sections = []string{"Verification Contract", "Inputs and Artifacts", "Replay Steps", "Latest Verification Result", "Stale If"}

// maxNote bounds the note of a task, in bytes.
const maxNote = 1 << 10

// NewPlan returns a plan of tasks. An agent without files writes the memo into its answer.
func NewPlan(tasks []PlanTask, preserve []string, files bool) []PlanTask {
	tasks = slices.Clone(tasks)
	if len(preserve) > 0 {
		tasks = append(tasks, PlanTask{ID: PreserveID, Description: "Check that these strengths are as good as before.", Preserve: preserve})
	}
	memo := PlanTask{
		ID: MemoID, Description: "Write " + PlanMemo + " with the sections " + strings.Join(sections, ", ") + ".",
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

// PlanUpdate is an accepted update of a task.
type PlanUpdate struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Note   string `json:"note,omitempty"`
}

// PlanState is the progress of a plan.
type PlanState struct{ tasks []PlanTask }

// BeginPlan returns the state of a plan before any update.
func BeginPlan(tasks []PlanTask) *PlanState { return &PlanState{tasks: slices.Clone(tasks)} }

// Learn folds an accepted update into the state.
func (s *PlanState) Learn(u PlanUpdate) {
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

// OffersPlanTool reports whether a tool is one of the plan's.
func OffersPlanTool(tool string) bool { return tool == getTaskPlan || tool == updateTask }

// PlanTools returns the tools of a plan.
func PlanTools() []llm.Tool {
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

// Evaluate returns the results of a reply's calls of the plan's tools, by call ID, where each call sees the
// effect of the earlier ones. It also returns the updates to learn. It does not change the state.
func (s *PlanState) Evaluate(calls []llm.ToolCall) (texts map[string]string, updates []PlanUpdate) {
	ahead := BeginPlan(s.tasks)
	texts = make(map[string]string)
	for _, call := range calls {
		switch call.Name {
		case getTaskPlan:
			texts[call.ID] = encodeJSON(struct {
				Tasks []PlanTask `json:"tasks"`
			}{append([]PlanTask{}, ahead.tasks...)})
		case updateTask:
			u, bad := ahead.parseUpdate(call.Arguments)
			if bad != nil {
				texts[call.ID] = encodeJSON(bad)
				continue
			}
			ahead.Learn(u)
			updates = append(updates, u)
			texts[call.ID] = encodeJSON(result{Status: "ok", Remaining: ahead.remainingTasks()})
		}
	}
	return texts, updates
}

func (s *PlanState) parseUpdate(arguments string) (PlanUpdate, *result) {
	var args struct {
		ID     string `json:"task_id"`
		Status string `json:"status"`
		Note   string `json:"note"`
	}
	switch err := json.Unmarshal([]byte(arguments), &args); {
	case err != nil:
		return PlanUpdate{}, s.errorResult("arguments_invalid", fmt.Sprintf(`update_task takes {"task_id": %q, "status": %q, "note": "what was done"}.`, append(s.taskIDs(), "t1")[0], completed))
	case len(s.tasks) == 0:
		return PlanUpdate{}, s.errorResult("task_unknown", "You have no plan yet: a valid propose_improvements makes one.")
	case !slices.ContainsFunc(s.tasks, func(t PlanTask) bool { return t.ID == args.ID }):
		return PlanUpdate{}, s.errorResult("task_unknown", fmt.Sprintf("There is no task %.64q. The tasks are %s.", args.ID, strings.Join(s.taskIDs(), ", ")))
	case !slices.Contains(statuses, args.Status):
		return PlanUpdate{}, s.errorResult("status_invalid", "The status is one of "+strings.Join(statuses, ", ")+".")
	}
	return PlanUpdate{ID: args.ID, Status: args.Status, Note: text.Truncate(args.Note, maxNote)}, nil
}

func (s *PlanState) errorResult(code, why string) *result {
	return &result{Status: "error", ErrorCode: code, Error: why, Remaining: s.remainingTasks()}
}

func (s *PlanState) taskIDs() []string {
	ids := make([]string, len(s.tasks))
	for i, t := range s.tasks {
		ids[i] = t.ID
	}
	return ids
}

func (s *PlanState) remainingTasks() int {
	n := 0
	for _, t := range s.tasks {
		if t.Status == pending || t.Status == inProgress {
			n++
		}
	}
	return n
}
