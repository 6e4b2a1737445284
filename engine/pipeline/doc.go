// Package pipeline is the step graph: named steps, the rules that lead from one
// to the next, and jumps and calls by which the agents themselves decide where to
// go. It knows no Temporal, no store and no model.
//
// State is the machine. It takes events (Step) and hands out commands (Drain),
// and is plain data at any point: the answer to a query, the payload of
// continue-as-new, what property tests drive. Rules are what a step of the graph
// is told and how its replies are judged (package loop). Start with State.arrive,
// where a finished step's way on is decided.
//
// # The protocol
//
// A segment is one uninterrupted stretch of a step: from its entry, or its
// resumption after a call, to its end. Every segment is one durable step with a
// number of its own. These are the rules:
//
//  1. A step that ends has a status: completed, when the model answered without
//     a tool call; max_iterations, when its model calls were used up first;
//     call_pending, when it called another step; error, when it failed and its
//     retries were exhausted; cancelled, when the run was.
//  2. Where the run goes on is decided by, in this order: the step's own action,
//     a caller that waits, the step's static rule. With none of them the run ends
//     with the status of that step.
//  3. A jump is one-way and takes effect at once: it ends the step, with the
//     status completed, and the text beside it, if any, is the step's text.
//  4. A call suspends the caller: its messages are kept as they are, with the
//     results of every tool call, in a frame of its own on the stack. The step
//     called begins with a conversation of its own.
//  5. A step that ends without an action while a caller waits returns to it: the
//     innermost frame is taken from the stack, and the caller goes on with its
//     messages and one more, which tells what the step called came to. The rule
//     of the step called is not asked.
//  6. A jump of a step that was called leaves the frames alone: whoever ends
//     without an action returns to the caller.
//  7. Iterations are model calls, counted over all segments of a step from its
//     entry to its end. A caller that has none left when it is returned to ends
//     at once, with the status max_iterations.
//  8. max_iterations leads on like completed does; a rule can tell them apart.
//  9. A step that fails ends the run with the status error, or, if the graph says
//     so, parks it until somebody retries or cancels. Nobody is returned to.
//  10. Calls are refused beyond the greatest depth, and a refusal changes nothing.
//     A run that passes control from step to step more often than its limit ends
//     with the status error.
//  11. The stack is empty when a run ends, unless it ended by error or cancel.
//  12. The text of a step that ended, and was not suspended by a call, joins the
//     history of the run. Of a called step its caller gets the note of rule 5,
//     and nothing else.
//  13. The files of a step are what the next one begins with.
//  14. Pause suspends the running step, resume and retry go on with it: they are
//     the same segment. What a person says reaches the running step at its next
//     safe point, and every later one at its beginning.
package pipeline
