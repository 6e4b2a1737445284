// Package session is one agent's step in a session: its prompts, the news that reaches it, the
// workflow tools, the ruling on every reply, and the commit and documents of its action.
// Step turns a coordination.Launch into a step.Spec, under Temporal and by hand alike.
//
// # Anonymity
//
// The rules (task.go and rules.go) name agents only by anonymous numbers and labels:
// agent2, agent2.1. IDs, models and providers are not among their inputs, so no
// prompt can name them; Opening refuses labels of any other form. Numbers and IDs meet
// in step.go, opening.go and review.go only.
//
// # Kinds of steps
//
//	voting         new_answer, vote
//	divided work   new_answer, stop; every agent owns a part, nobody votes
//	a presenter    new_answer, which is the final answer
//	an evaluation  submit, restart_orchestration
//
// A launch may offer fewer of them. The prompts of a team of one mention no other
// agents.
//
// # How a reply is judged
//
// The first rule that applies decides. A rejected reply is refused whole: none of its
// tool calls is run, and each gets the reason as its result.
//
//	text that counts, see below                   accepted
//	no tool call at all                           no_tool_calls
//	a tool that this kind of step does not have   unknown_tool
//	vote, but no answer is shown                  vote_no_answers
//	a workflow tool that this step is not offered tool_not_offered
//	vote and new_answer together                  vote_and_answer
//	two other workflow tools together             several_actions
//	arguments against the schema, or blank        invalid_arguments
//	data that do not fit the answer's schema      invalid_arguments
//	content above maxAnswer                       answer_too_large
//	a vote for an answer that was not shown       invalid_vote_id
//	a vote for a replaced answer, once            vote_replaced
//	an evaluation whose next tasks are malformed  invalid_tasks
//	several calls that do not agree               several_actions
//	content equal to an answer that was shown     answer_duplicate, once the tools have run
//	content too close to one, see below           answer_novelty, once the tools have run
//	a workflow tool, once                         accepted
//	time is over: every other call                denied, and the step continues
//	calls of the checklist                        answered, and the step continues
//	ordinary tools only                           run, and the step continues
//
// Unknown tools are those not offered at the opening, except names that begin with
// mcp__: MCP servers may add tools later.
//
// Several equal calls (the same content, or the same agent or status with any reasons)
// count as one, the first. Calls of ordinary tools and of the checklist beside an accepted
// call are run, or denied, too. Arguments beyond the schema's are ignored.
//
// A vote may name an agent (agent2) or a revision (agent2.1), also by its numbers alone: 2.1, or
// 2 unless the second answer is another agent's. One that names a revision
// newer than those shown is rejected; one that names a replaced revision is rejected once,
// with the newest label. After that it is accepted, and records the revision named.
//
// Unless text_answers is never, text without a call counts in two cases. A label alone is
// a vote, and so are its numbers where only a vote is open. Where only a new answer is open, the
// text is the answer, unless it only names a tool; with auto, only after a reply without calls
// was rejected and if the model has called nothing since.
//
// With text_answers always, a step is plain (isPlain in judge.go) if the agent has no other
// tools and a single action is open, an answer or a vote. Its prompt asks for text and offers no
// tool; a text that names a single agent is a vote for it, and the text is its reason.
//
// # Answers with a schema
//
// With an answer_schema a new answer is data, with words beside them if it needs any; its text has
// both. Where it is open, a text with a fenced block of JSON, or a JSON object alone, is one, whatever
// text_answers says: some models and services know no other way. Parts of divided work are texts.
// With agree data, answers with equal data are equal, except that other files make a new answer.
//
// # Agreement
//
// An agent may agree with an answer by repeating it. If one reply has both a vote and a
// new answer equal to the answer voted for, only the vote counts. After answer_duplicate
// only the vote is offered (in divided work, the stop); if the agent submits the same text
// again, it votes for the equal answer with the lowest number. News offers both actions
// again.
//
// An answer whose files differ from those of the answer shown is always new; an answer
// without files is compared by its text alone. Two answers are too close when their sets
// of lower-cased words, split at white space, have a Jaccard similarity above 0.7 (novelty
// balanced) or above 0.5 (strict). A new answer is compared with every one that was shown,
// at the opening or by an update, the agent's own included. A presenter may present an
// answer unchanged.
//
// # News
//
// Before every model call the step reads its inbox. admit in update.go decides which of the
// peers' answers reach it: none in mode "", at most Most over the step, none after the
// first accepted checklist with UntilChecklist, and none when the soft limit is nearer
// than the grace or the step was asked to finish. Mode restart, and inject in a step that
// cannot answer, end the step instead, to begin again. The rest is news at the next safe
// point or for the agent's next step. Human messages always reach it.
//
// The step reads its inbox once more before an accepted action counts. News withdraws the
// action, once per step, to be submitted again or revised. A step out of time or allowance
// reads no news.
//
// # Time and allowance
//
// Work is the time of model calls and tools. At the soft limit, or when the session is
// about to end, the step is asked once to finish. After the grace only calls that end
// it are open; every other one is denied, and the tenth denial ends the step. At 0.8 of
// the allowance the step is warned once, and when it is spent the step ends itself
// before the next model call.
//
// # Restored steps
//
// The rules are a fold over the journal: Learn adds every entry to their memory. A restored
// step continues in the same way on any machine, and its commit names exactly the answers
// and messages that were shown.
//
// # Agents' texts and human messages
//
// Answers stand between lines with a mark and are declared to be data. digest.go derives
// the marks from execution tokens, which no agent sees. All agents that are shown the same
// answers have the same mark in their openings; every update has a mark of its own. Human
// messages (`conclave say`, in prompt.go and update.go) have a mark that frames no answer,
// so that no agent can forge one. Marks are replaced in all texts and tool results that
// their reader is shown. Control characters are removed. The texts of an opening together
// are bounded by maxShown, or by a quarter of a small context window, and so are those of
// a step's updates. If the agent has file tools, the note under a truncated text names the
// file with the full text, peers/agent<N>.md.
//
// # Shared prompts
//
// Servers charge less for a prompt that begins like an earlier one. Therefore the system
// message depends only on the team's configuration, the purpose of the step, the kinds of
// the agent's tools and whether there is a base, and the user message begins with the
// material that the agents of a wave share: query, further material, criteria, answers, open
// actions. The agent's own material follows: its part, its system_message, human messages,
// its checklist, and the mark of human messages. In a plain step, human messages and their mark
// precede the open action, so that a weak model reads that last. The list of tools ends with the vote, whose
// values are the answers shown.
//
// Start with Step in step.go, then Judge in judge.go and Updates in rules.go. A vote is judged in
// judge.go, as are replies in plain text; its arguments are checked in action.go. Messages of
// `conclave say` are read by opening.go; prompt.go puts them into the opening prompt, update.go into
// a running step. Prompts are in templates/ and, filled in, in testdata/.
package session
