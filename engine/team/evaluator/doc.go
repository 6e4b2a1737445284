// Package evaluator is the evaluation of an answer between two steps of its agent: the form
// of submit_evaluation, its check, and the plan that follows from it. It is pure; this file is
// the specification.
//
// # A submission
//
// packet has seven parts, each a text or a list of texts that is not empty; the file
// critique_packet.md joins them:
//
//	criteria_interpretation  the meaning of each criterion for this task
//	criterion_findings       the evidence for and against the answer, by criterion
//	cross_answer_synthesis   strengths and weaknesses of the other answers
//	preserve                 the parts to keep
//	improvement_spec         a precise description of a better answer
//	verification_plan        how the improvement is checked
//	evidence_gaps            the evidence that is missing
//
// verdict is {verdict, scores}: iterate or converged, and a score from 0 to 10 for every
// criterion, E1 to En.
//
// next_tasks is null, or an object:
//
//	objective            the one aim of the next version
//	approach_assessment  ceiling_status (ceiling_not_reached, ceiling_approaching or
//	                     ceiling_reached), ceiling_explanation, breakthroughs [{element, why,
//	                     amplification}], paradigm_shift {current_limitation,
//	                     alternative_approach, transferable_elements} or null
//	tasks                corrections within the approach: [{id, description,
//	                     implementation_guidance, verification, execution {mode: inline}}]
//	evolution_tasks      steps of another approach, in the same form
//	preserve             the parts to keep
//
// # Checks
//
// Faults of the packet or the verdict refuse the submission:
//
//	the arguments are no JSON object              arguments_invalid
//	packet is no object                           packet_invalid
//	a part of it is missing or empty              packet_incomplete
//	verdict is no object                          verdict_invalid
//	its verdict is neither iterate nor converged  verdict_unknown
//	scores is no object                           scores_invalid
//	a key of scores is no criterion               scores_unknown
//	a criterion has no score                      scores_incomplete
//	a score is no number from 0 to 10             scores_out_of_range
//
// Faults of next_tasks leave the packet without tasks. A value of a wrong type is reported
// alone, with its field and the type that it has to have; of the others all are reported:
//
//	it, or a field of it, has a wrong type        tasks_type_invalid
//	it is missing, and the verdict is iterate     tasks_missing
//	objective is empty                            objective_missing
//	ceiling_status has another value              ceiling_status_invalid
//	tasks and evolution_tasks are both empty      tasks_empty
//	a task lacks its description, guidance or
//	verification                                  task_incomplete
//	an execution mode other than inline           execution_mode_invalid
//	two tasks with one id                         task_id_repeated
//	a task with the id of one that the plan adds  task_id_reserved
//	ceiling_reached without evolution_tasks       evolution_tasks_missing
//	ceiling_reached without paradigm_shift        paradigm_shift_missing
//	a paradigm_shift without one of its parts     paradigm_shift_incomplete
//	a breakthrough without one of its parts       breakthrough_incomplete
//	preserve is empty                             preserve_missing
//
// A task without an id is numbered t1, t2, …, past the ids that are taken.
//
// With the verdict converged next_tasks is ignored, except for its ceiling_status.
//
// # The plan
//
// The tasks come first and the evolution tasks after them; with ceiling_reached it is the other way
// round. Breakthroughs follow as a task each, amplify_1, amplify_2, …: to apply their principle
// elsewhere. Package plan adds the last tasks. Start with Parse in submission.go.
package evaluator
