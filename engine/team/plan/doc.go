// Package plan is the plan of a step whose work was laid out by the evaluator of rounds or by
// a valid propose_improvements, and its two tools. This file is the specification.
//
// A plan is a list of tasks in order. The last is always to write the verification memo, into
// a file, or into the answer of an agent without files; before it stands the check that the
// good parts have stayed, if any are named. A later proposal replaces the plan.
//
//	get_task_plan                       the tasks, with their status and notes
//	update_task {task_id, status, note} sets both; a note that is left out stays
//
// The statuses are pending (all, at first), in_progress, completed and blocked. An update
// that is refused changes nothing:
//
//	task_unknown       the task is unknown, or there is no plan
//	status_invalid     the status is another word
//	arguments_invalid  the arguments are not an object
//
// The tools do not bind the agent: a step can end with open tasks.
//
// A State is the fold over the accepted updates, so a restored step has the same plan.
// Start with New in plan.go.
package plan
