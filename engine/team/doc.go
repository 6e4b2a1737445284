// Package team is the loop.Rules of a team member's step: what the agent is
// told, the workflow tools new_answer and vote, and the enforcement that makes
// a step end in exactly one of them.
//
// It knows agents only by anonymous numbers and labels (agent2, agent2.1). Real
// ids, models and providers are not among its inputs, so nothing it produces
// can name them; Opening refuses a label of any other form. It does not know
// when a vote is stale or who wins: that is coordination's.
//
// # How a reply is judged
//
// The first rule that applies decides. A rejected reply is refused whole: none
// of its tool calls is run, and each is told why.
//
//	no tool call at all                          no_tool_calls
//	a tool that does not exist                   unknown_tool
//	vote, but no answer is shown                 vote_no_answers
//	a workflow tool that this step is not given  tool_not_offered
//	vote and new_answer together                 vote_and_answer
//	arguments not as the schema says, or blank   invalid_arguments
//	content above MaxAnswer                      answer_too_large
//	content equal to an answer that is shown     answer_duplicate
//	a vote for an agent without a shown answer   invalid_vote_id
//	several calls that do not agree              several_actions
//	new_answer or vote, once                     accepted
//	ordinary tools only                          run, and the step goes on
//
// Several calls that say the same (the same content; the same agent, whatever
// the reasons) count as one, the first. Ordinary tools beside an accepted call
// are run. Arguments beyond the schema's are ignored.
//
// A vote may name an agent (agent2) or a revision (agent2.1). It counts for the
// revision that was shown, also when it names another one of the same agent:
// the shown text is the only one that the voter can have judged.
//
// # Peers' text
//
// Answers are framed by lines with the step's random delimiter and declared to
// be data. A text cannot hold the delimiter, control characters are dropped,
// and all texts together are bounded by MaxShown.
//
// Start with Task in task.go, then Judge in rules.go; the words are in
// templates/, and as filled in testdata/.
package team
