// Package quality has the means by which a team judges and plans its work: the checklist of an agent, the
// evaluation of an answer between two steps, the plan that follows from either, and the drafts that a model
// makes for a session. It is pure except for MakeDraft, which calls a model; this file is the specification.
//
// Start with Policy and State for the checklist, ParseEvaluation for an evaluation, NewPlan for a
// plan and MakeDraft for a draft.
//
// # The checklist
//
// Policy is the checklist of voting_sensitivity: checklist_gated. Before an agent votes or answers again, it
// scores the work against criteria; the verdict is either to end (vote, or stop in decomposition) or to
// continue (new_answer) with planned improvements.
//
// The policy is advice with tools: it answers the calls submit_checklist and propose_improvements, and the
// prompt asks for them. It never forbids a vote or an answer. The same policy and the same learned results
// give the same answers, so that a restored step is judged as before.
//
// # Criteria
//
// E1 to En in the order given; T1 to Tn are accepted as other names. Without criteria there are five generic
// ones; in decomposition, five about the part that the agent owns. Category, verify_by and anti_patterns
// guide the agent and do not affect the verdict.
//
// # The bar
//
// The threshold starts at 5. With at most 2 answers left it rises by 2, else with at
// most 40 % of them left by 1; with 70 % or more left it falls by 1. A score passes
// from 10 - threshold/2, rounded down, on. So fewer answers left lower the bar.
//
//	limit 5, left 5 or 4: 8    left 3: 7    left 2, 1, 0: 6
//	limit 3, left 3:      8                 left 2, 1, 0: 6
//	limit 2, left 2:      7                 left 1, 0:    6
//	limit 1, left 1:      7                 left 0:       6
//
// Every criterion must pass.
//
// # submit_checklist, in this order
//
//	arguments or scores no JSON object        scores_type_invalid    (scores may be an object as text)
//	no own answer, and FirstAnswer is off     first_answer_required
//	CallsPerRound accepted, none pending      quota_used
//	decomposition: not own, nor a sole entry  decomposition_scores_invalid
//	voting: flat, two or more answers shown   flat_scores_disallowed *
//	a score that is no number                 scores_type_invalid
//	a score below 0 or above 10               scores_out_of_range
//	an answer's entry without some criterion  incomplete_agent_criteria *
//	an answer that has to be scored is not    missing_agent_scores *
//	the only scores lack some criterion       missing_criteria_scores *
//	no report_path, though there is a packet  report_required *
//	report_path leads out of the workspace    report_outside *
//	no readable regular file is there         report_missing *
//	it has fewer than 100 characters          report_empty *
//	otherwise                                 accepted
//
// The errors marked * need an agent with an answer. Without one (FirstAnswer) flat
// scores are its draft's, a gap counts 0, and the verdict is new_answer.
//
// An error has no verdict. No payload can correct first_answer_required and quota_used,
// which have requires_resubmission false; the others have true.
// Only accepted results use up CallsPerRound and enter the history.
//
// An entry is a number, or an object with a score (default 0); other fields are ignored. Scores are flat when
// a key is the name of a criterion, else per answer: by label, or by agent2 for the revision shown of agent
// 2. Entries of answers that are not shown, and entries that are no objects, are ignored.
//
// The answer with the highest sum is the best, the first one shown on a tie; it alone decides. The verdict is
// the ending one when enough of its criteria pass and the agent has an answer. A failed criterion has
// plateaued when its score is not more than 1 above either of the last two accepted results, of this step or
// of the agent's earlier ones.
//
// report_path names a file with the findings in the agent's workspace. It may be left out.
// If an evaluation of the answer has left a packet, the packet is the report, and even an agent
// without files can give its path, evaluator/critique_packet.md.
//
// # Recheck
//
// An answer shown by an update replaces its agent's older one and is pending. While one is pending after an
// accepted checklist, one more may be submitted beyond CallsPerRound. It must score only the pending answers
// (in decomposition: the own work again); earlier scores of answers still shown remain, so that a weak
// newcomer does not overturn a strong answer. Accepting it clears the pending answers, and so does a first
// checklist that scores them.
//
// # propose_improvements, in this order
//
//	the latest submit_checklist is not accepted  checklist_required
//	its verdict is to end                        iterate_required
//	answers are pending                          recheck_required
//	improvements is no JSON object               improvements_type_invalid
//	no criterion failed                          nothing_failed
//	a failed criterion is missing or empty       improvements_incomplete
//	preserve is no object or empty               preserve_required
//	preserve names no criterion                  preserve_unknown
//	preserve has a blank entry                   preserve_empty
//	nothing structural or transformative         impact_too_small
//	otherwise                                    valid
//
// first_answer_required and quota_used leave the latest checklist as it is. An improvement is a text, or an
// object with plan, sources and impact; a text and an impact of another name are incremental. At least one
// improvement of all must be structural or transformative. Improvements of criteria that did not fail count
// there but are not planned. The plan has one improve task for each improvement of a failed criterion, in the
// order of the criteria, and one verify_preserve task at the end.
//
// judgeChecklist in submit.go and judgeProposal in propose.go decide.
//
// # An evaluation
//
// A Submission is the evaluation of an answer between two steps of its agent, from the call
// submit_evaluation. Its packet has seven parts, each a text or a list of texts that is not empty; the file
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
// verdict is {verdict, scores}: iterate or converged, and a score from 0 to 10 for every criterion, E1 to En.
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
// # Checks of an evaluation
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
// # The plan of an evaluation
//
// The tasks come first and the evolution tasks after them; with ceiling_reached it is the other way
// round. Breakthroughs follow as a task each, amplify_1, amplify_2, …: to apply their principle
// elsewhere. NewPlan adds the last tasks.
//
// # A plan
//
// A step whose work was laid out by the evaluator of rounds or by a valid propose_improvements
// has a plan and its two tools. It is a list of tasks in order. The last is always to write the verification memo, into
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
// A PlanState is the fold over the accepted updates, so a restored step has the same plan.
//
// # Drafts
//
// Drafts are the preparations that a model makes for a session, each with one structured call: evaluation
// criteria, personas and the parts of divided work. It also asks a model whether two answers are equal.
//
// A Form is a request and the check of its reply. MakeDraft makes a single request. After an invalid reply or
// a failed call it returns the form's fallback, so a preparation never ends a session. Agents have anonymous
// names in requests (agent1, agent2), in the byte order of their IDs.
package quality
