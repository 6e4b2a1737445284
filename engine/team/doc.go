// Package team is the loop.Rules of a team member's step: what the agent is
// told at the start and while it works, the workflow tools, and the enforcement
// that makes a step end in exactly one action.
//
// It knows agents only by anonymous numbers and labels (agent2, agent2.1). Real
// ids, models and providers are not among its inputs, so nothing it produces
// can name them; Opening refuses a label of any other form. It does not know
// when a vote is stale, who wins, or what a launch may offer: that is
// coordination's.
//
// # Kinds of steps
//
//	votes          new_answer, vote
//	divided work   new_answer, stop; every agent owns a part, nobody votes
//	a presenter    new_answer, which is the final answer
//	an evaluation  submit, restart_orchestration
//
// A launch may offer fewer of them. A team of one is told of no other agents.
//
// # How a reply is judged
//
// The first rule that applies decides. A rejected reply is refused whole: none
// of its tool calls is run, and each is told why.
//
//	no tool call at all                           no_tool_calls
//	a tool that does not exist in such a step     unknown_tool
//	vote, but no answer is shown                  vote_no_answers
//	a workflow tool that this step is not given   tool_not_offered
//	vote and new_answer together                  vote_and_answer
//	two other workflow tools together             several_actions
//	arguments not as the schema says, or blank    invalid_arguments
//	content above MaxAnswer                       answer_too_large
//	content equal to an answer that was shown     answer_duplicate
//	content too close to one, see below           answer_novelty
//	a vote for an answer that was not shown       invalid_vote_id
//	several calls that do not agree               several_actions
//	a workflow tool, once                         accepted
//	time is over: every other call                denied, and the step goes on
//	calls of the checklist                        answered, and the step goes on
//	ordinary tools only                           run, and the step goes on
//
// A tool that does not exist is none that was offered at the opening; but names
// that begin with mcp__ are left to the tools, which may have got new ones.
//
// Several calls that say the same (the same content; the same agent or status,
// whatever the reasons) count as one, the first. Ordinary tools and those of
// the checklist beside an accepted call are run, or denied, too. Arguments
// beyond the schema's are ignored.
//
// A vote may name an agent (agent2) or a revision (agent2.1). It counts for the
// newest revision that was shown, also when it names an older one of the same
// agent: the shown text is the only one that the voter can have judged. A newer
// one than was shown is nobody's.
//
// Two answers are too close when their sets of lower-cased words, split at white
// space, have a Jaccard similarity above 0.7 (novelty balanced) or above 0.5
// (strict). A new answer is held against every one that was shown, at the
// opening or by an update, the agent's own included. A presenter's is not: it
// may present an answer as it is.
//
// # What reaches a running step
//
// Before every model call the step looks for news. Admit in admit.go says which
// of the peers' answers reach it: none in mode "", at most Most over the step,
// none after the first accepted checklist with UntilChecklist, and none when the
// soft limit is nearer than the grace or the step was told to finish. Mode
// restart, and inject in a step that cannot answer, end the step instead, to
// begin again. What does not reach it now is news at the next safe point, and
// else for the agent's next step. What people say always reaches it. Several
// updates at once are one message.
//
// Before an accepted action counts, whatever its kind, the step looks once more.
// What may reach it turns the action down, once per step, to be submitted again
// or revised; the decision is never made in ignorance of what was there to be
// told. A step whose time or allowance is over is not asked again.
//
// # Time and allowance
//
// Work is the time of model calls and tools. At the soft limit, or when the
// session is about to end, the step is told once to finish. After the grace only
// calls that end it are left; every other one is denied, and the tenth denial
// ends the step. At 0.8 of the allowance the step is told once, and when it is
// spent the step ends itself before the next model call.
//
// # Restored steps
//
// All of this is a fold over the journal: Learn takes in every entry, and the
// notes of updates and results say what the rules have to remember. A step that
// is restored, on any machine, goes on as it would have gone on, and Witnessed
// tells what the agent was truly shown.
//
// # Agents' text and people's words
//
// Answers are framed by lines with the step's random delimiter and declared to
// be data. A text cannot hold the delimiter, control characters are dropped,
// and all texts of an opening together are bounded by MaxShown, or by a quarter of
// a small context window, as are those of a step's updates. A text that is cut says where the whole of it is: at
// peers/agent<N>.md, if the agent has file tools. What people say is framed by
// the same delimiter with the word message, so that no agent can speak in their
// name.
//
// Start with Task in task.go, then Judge in judge.go and Updates in rules.go; the
// words are in templates/, and as filled in testdata/.
package team
