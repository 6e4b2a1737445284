// Package pipeline is the step graph as a pure state machine: named steps, static
// rules between them, and jumps and calls by which agents choose the next step.
//
// State takes events (Step) and returns commands (Drain). It is plain data at any point: it answers queries
// and is the payload of continue-as-new. Start with State.chooseNext in step.go, which also has the static
// rules and the texts for later steps; lane.go has the branches, limit.go visits and limits. Package agent runs a step.
//
// # The protocol
//
// A launch runs a step from its entry, or from its return after a call, to its end or its own call. Every
// launch is one durable step with a number of its own. These are the rules:
//
//  1. A step ends with a status: completed, when the model answers without a tool
//     call; max_iterations, when its model calls are used up first; call_pending,
//     when it calls another step; error, when it fails and its retries are
//     exhausted, or a call of a tools step with on_tool_error: fail does; cancelled,
//     when the run is cancelled.
//  2. The next step is chosen by, in this order: the step's own action, a waiting
//     caller, the step's static rule. Without any of them the run ends with the
//     status of that step.
//  3. A jump is one-way and takes effect at once: it ends the step with the status
//     completed. Text beside the jump is the step's text.
//  4. A call suspends the caller: its messages, with the results of every tool call,
//     are kept in a frame on the stack. The called step starts a conversation of its
//     own.
//  5. A step that ends without an action while a caller waits returns to it: the
//     innermost frame is popped, and the caller continues with its messages and a
//     note about the called step's result. The called step's static rule is not
//     used.
//  6. A jump of a called step keeps the stack: whichever step ends without an action
//     returns to the caller.
//  7. Iterations are model calls, counted over all launches of a step from its entry
//     to its end. A caller without iterations left ends at once on its return, with
//     the status max_iterations.
//  8. max_iterations continues as completed does; a static rule can tell them apart.
//  9. The first static rule that names the failure of a step leads on from it, even while
//     a caller waits; the caller stays on the stack. Without such a rule the failed step
//     ends the run with the status error or, if the graph says so, parks it until a person
//     retries or cancels. A failed step does not return to its caller.
//  10. Calls are refused beyond the maximum depth, without effect. A run with more
//     transitions than its limit ends with the status error.
//  11. The stack is empty when a run ends, unless it ends by error or cancel.
//  12. The text of a step that ended, unless a call suspended it, joins the history of the
//     run, with a note if the step failed or used up its model calls. A caller is only
//     told of a called step by the note of rule 5.
//  13. Each launch starts with the files of the previous one.
//  14. Pause suspends the running step; resume and retry continue it where it
//     stopped. Human messages reach the running step at its next safe point, and
//     later steps at their start.
//  15. A run that failed, was cancelled or was terminated can be reopened: its failed step
//     is retried, or the step that was cut off is resumed. The rest of the state is kept.
//     A run that reached a limit of its own cannot be reopened.
//  16. A retried or resumed session step continues its team's session, whose usage is
//     counted once. If that session cannot continue, the next retry starts a new one.
//  17. The outline of a state is recorded with every change. A recorded outline is brought
//     up to date from the claims and commits of the steps that it lacks.
//  18. Once a step has been entered as often as its max_visits allows, a rule or a jump to
//     it leads to the step that takes its place or, without one, ends the run. The step
//     can no longer be called. A return and a retry do not count as entries.
//  19. The limits of a step bound all its visits together; a person's retry resets them. A
//     step that has used up its model calls ends with max_iterations; one that has used up
//     its time or money ends with error. A run that has used up its own time or money ends
//     with error.
//  20. The rules of a step are tried in order; all conditions of a rule must fit. The
//     worker that ran the step matches text and output, because it has them in full.
//  21. A step with an output ends with data that fit its schema: an agent hands them in with
//     submit_output, and a reply without a call that has none is asked again; those of a
//     session are its decision's; those of a tools step are its text. A tools or session
//     step whose data do not fit has failed. A jump ends a step without an output.
//  22. A template names values of the run. A step is given those of the newest visits that
//     left a text when it is launched; a step that has not ended has an empty value. Values
//     are data: they stand in no system message, and are one word in a command.
//  23. The text of a run is that of its last step or, if the graph names a result, of the
//     newest visit of that step. A run that ends with a step that has an end has that end.
//  24. A step with a retry that ends with one of its statuses, and without an action, is tried
//     again before its rules are looked at, after a wait that doubles. Each try counts toward
//     the limits of the step; a new visit begins the count anew.
//  25. A parallel step opens a branch for each of its entrances, a for_each one for each
//     item of a list, at most AtOnce at a time. A branch is a line of its own: it has its
//     own stack, visits and transitions, begins with the files of the fork, and ends
//     where its line ends. The line of the fork waits. Items that are no list, are too many
//     or have not been left fail the step.
//  26. A fork is settled by the set of its ended branches alone. All join when the last
//     has ended, any when one has completed; a failed branch fails the step at once if
//     the graph says so, and any fails when all have. A branch that is parked has not
//     ended. The step that joins is a launch of its own and comes once; branches that it
//     does not need are cut off, and their work is kept.
//  27. A branch sees the texts up to its fork and its own. After the join its line sees
//     those of all branches that ended, in their order.
//  28. The join merges the files of the branches that completed. A path that they changed
//     differently is a conflict: the step fails, or a step or a rule follows it.
//  29. Pause, resume, cancel, limits of time and money and reopening concern all lanes;
//     a message and a retry concern all or those of one branch. Steps are numbered
//     in each lane anew.
//  30. A finally step runs at each end but terminate, once the outcome of the run is known
//     and while the other steps are cut off. Neither the limits of the run nor its
//     cancellation end it. Its failure makes a run with a result fail; reopening that
//     run repeats it alone.
//  31. A step that is another pipeline opens one branch, and has the text and the output of its
//     result or of its last step.
//  32. An approval step asks a person and waits. While its question is open, no step of its
//     lane runs, and the time of a run that waits for people alone stands still. The reply
//     approves, denies or chooses an option. The step then goes on with the reply as its text
//     and is completed; a pause does not close the question, but holds back that step.
//  33. A question is closed by its first reply, or withdrawn by the end of the run or of its
//     branch; a reply that comes later is refused with how it was closed. A run that is
//     reopened asks withdrawn questions anew.
package pipeline
