// Package checklist is the policy of voting_sensitivity: checklist_gated. Before an
// agent votes or answers again, it scores the work against criteria; the verdict is
// either to end (vote, or stop in decomposition) or to continue (new_answer) with planned
// improvements. This file is the specification.
//
// The policy is advice with tools: it answers the calls submit_checklist and
// propose_improvements, and the prompt asks for them. It never forbids a vote or an
// answer. It is pure: the same policy and the same learned results give the same
// answers, so that a restored step is judged as before.
//
// # Criteria
//
// E1 to En in the order given; T1 to Tn are accepted as other names. Without
// criteria there are five generic ones; in decomposition, five about the part
// that the agent owns. Category, verify_by and anti_patterns guide the agent and
// do not affect the verdict.
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
// An entry is a number, or an object with a score (default 0); other fields are
// ignored.
// Scores are flat when a key is the name of a criterion, else per answer: by
// label, or by agent2 for the revision shown of agent 2. Entries of answers that
// are not shown, and entries that are no objects, are ignored.
//
// The answer with the highest sum is the best, the first one shown on a tie; it
// alone decides. The verdict is the ending one when enough of its criteria pass
// and the agent has an answer. A failed criterion has plateaued when its score
// is not more than 1 above either of the last two accepted results, of this step or of the
// agent's earlier ones.
//
// report_path names a file with the findings in the agent's workspace. It may be left out.
// If an evaluation of the answer has left a packet, the packet is the report, and even an agent
// without files can give its path, evaluator/critique_packet.md.
//
// # Recheck
//
// An answer shown by an update replaces its agent's older one and is pending. While one
// is pending after an accepted checklist, one more may be submitted beyond
// CallsPerRound. It must score only the pending answers (in decomposition: the own work
// again); earlier scores of answers still shown remain, so that a weak newcomer does not
// overturn a strong answer. Accepting it clears the pending answers, and so does a first
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
// first_answer_required and quota_used leave the latest checklist as it is.
// An improvement is a text, or an object with plan, sources and impact; a text
// and an impact of another name are incremental. At least one improvement of
// all must be structural or transformative. Improvements of criteria that did
// not fail count there but are not planned. The plan has one improve task for
// each improvement of a failed criterion, in the order of the criteria, and one
// verify_preserve task at the end.
//
// Start with Policy, then submit and propose.
package checklist
