// Package coordination is the protocol between the agents of a team. It decides who
// works next, which answers they are shown, which of their actions count, and when the
// team has decided.
//
// It is a pure state machine: [State.Step] applies an event, [State.Drain] returns the
// commands that follow. It has no clock, no randomness, no I/O and no goroutines, and
// does not depend on models, prompts or storage: a driver runs the launched steps,
// writes the ledger, keeps the time, and passes every outcome to Step as an event. Start
// with this page, then read a session in testdata, then facts.go and decide.go. A heading
// below names the file that has its rules; the first line of a file lists the numbers.
//
// # Floors
//
// A State is built in floors. Each embeds the one below it and calls nothing above:
//
//	State     events, requests, the questions of "Deciding"   state.go, decide.go
//	finale    the final answer                                finale.go
//	steps     the ends of steps                               step.go
//	waves     launches                                        launch.go, outage.go, critique.go
//	offers    who needs a step, who can run, open actions     offer.go
//	tally     stale votes, the election, its support          news.go, tally.go
//	facts     all that has happened                           facts.go
//
// The facts are in parts with rules of their own: roster (team.go), checks, caller, waits
// (outage.go), staging (staged.go), ledger and timeline (timeline.go), people and conclusion
// (facts.go). In JSON they are one object.
//
// # An agent
//
//	               answer                     vote
//	┌───────────┐ ───────▶ ┌──────────┐ ───────────▶ ┌───────┐
//	│ no_action │          │ answered │              │ voted │
//	└───────────┘          └──────────┘ ◀─────────── └───────┘
//	   │     │ vote                       answer      ▲ │   │ vote
//	   │     └────────────────────────────────────────┘ │ ◀─┘ (it was stale,
//	   │                      │                         │      or split)
//	   │ step fails           │ step fails              │ step fails
//	   ▼                      ▼                         ▼
//	┌──────────────────────────────────────────────────────┐
//	│ failed: no longer votes, its answer can still win    │
//	└──────────────────────────────────────────────────────┘
//
// In decomposition a stop replaces the vote, and stopped replaces voted.
//
// # A session
//
//	        ┌─────────── a step is still running ──┐
//	        ▼                                      │
//	New ─▶ steps launched ─▶ events, stepped ─▶ Drain decides ─▶ final answer ─▶ done
//	        ▲                                      │                   │
//	        └──── an agent has something to do ────┘                   │
//	        │   or the vote was split: once more                       │
//	        └───────────────────────────── or the team begins again
//
// # Words
//
// A step is one run of one agent. It ends in one action: a new answer, a vote or a
// stop; or it fails, or ends without an action. An accepted action counts and is in the
// ledger. An active agent has not failed; N is the number of active agents. A message
// is text that a person sends to the agents.
//
// # Agents and labels (team.go, decision.go)
//
//  1. An agent's anonymous number is the position of its ID in byte order, from 1,
//     independent of the configured order. Its M-th accepted answer has the label
//     agent<number>.<M>; a final answer that it presents, agent<number>.final.
//  2. An agent is active until one of its steps fails. After that it is launched
//     again only if a person retries it, or after an outage; its vote or stop is void,
//     and its accepted answers stay electable.
//
// # Steps (step.go)
//
//  3. Every launch has its own ID, l1, l2, …, and an agent has at most one running
//     launch. The first event that names a running launch ends it. Any other event
//     of a step is noted and changes nothing.
//  4. At its launch a step is shown the latest accepted answer of every agent,
//     including its own agent's and those of failed agents, in the order of the
//     anonymous numbers, each with its place in the ledger. It is also shown the
//     messages to its agent. Rule 69 makes an exception. A step that is shown no
//     answers works out its own.
//  5. A launch names the number of the agent's last finished step. The new step takes
//     a higher number.
//  6. An answer is accepted if its step number is above that of rule 5 and new_answer
//     was offered. It withdraws the agent's own vote or stop.
//  7. A vote is accepted if its step number is above that of rule 5, vote was offered,
//     and the target has an accepted answer; an agent may vote for itself. It replaces
//     the agent's earlier vote. It counts for the target and names a revision of the
//     target's answer: the label given, if that is one of the target's; else the
//     revision that the step saw; else the latest. In decomposition a stop is accepted
//     likewise.
//  8. A step whose action is not accepted, or whose allowance is spent, ends without an
//     action. The agent keeps its status and its earlier vote, and is launched again
//     when its turn comes.
//  9. Every ended step counts towards max_steps_per_agent, with or without an action.
//     At the limit the agent is done: a fresh vote counts, otherwise it abstains;
//     either way it stays in N. Rule 103 makes an exception.
//  10. The usage of every launched step counts, including steps that failed, were
//     suspended, or report after they were cancelled.
//
// # Offered actions (offer.go)
//
// The offered actions are fixed at the launch and hold for the whole step. No step is
// launched without one.
//
//  11. A new answer is offered unless max_new_answers_per_agent or
//     max_new_answers_global is reached. A running step that may answer reserves a
//     place under the global limit, so that no finished work is refused for a limit.
//  12. Fairness also limits new answers. With one more answer, an agent may have at
//     most fairness_lead_cap_answers more than the slowest peer that runs or can still
//     be launched. A first answer is always allowed; with a cap of 0 no agent gets
//     ahead. Over the cap an agent may only vote, and it is not launched while such a
//     slower peer runs.
//  13. A vote is offered when there is an answer. With defer_voting_until_all_answered
//     no vote is offered, and agents with an answer wait, as long as an active agent
//     has no answer, but a step in progress that may answer or limits that allow one, and
//     the global limit is not reached.
//  14. In decomposition a stop replaces the vote and is always offered. The session
//     stops an agent that has reached a limit of answers: the global limit, or
//     max_new_answers_per_agent answers in a row without news from peers or people.
//     News restarts that count. An agent with an unread message is launched instead. In
//     rounds, agents are stopped only when nothing runs.
//  15. Nobody votes with skip_voting, nor if each of several agents may answer once and
//     all answers are synthesized (final_answer_strategy synthesize, one answer per
//     agent, voting not deferred). Then an agent owes only an answer. It is launched
//     again for a message (rule 18), but does not owe another answer for it.
//
// # Staleness (news.go)
//
//  16. A vote or stop is stale if any agent, active or failed, has an accepted answer
//     newer than the one that the vote saw. The agent's own answers count, and a vote
//     that saw no answer of a peer saw answer 0 of that peer. It is also stale if its
//     step did not receive a message to its agent. Other votes and stops never make it
//     stale, nor do messages sent after the team has decided, unless the team begins
//     again. Rule 69 makes an exception.
//  17. The answers that a step saw are those that it reports, from its launch and
//     later, within bounds: unknown agents and agents without an answer are dropped,
//     and no step has seen an answer or received a message that did not exist when the
//     event was stepped.
//
// # Pacing (launch.go; 18 in offer.go)
//
//  18. An agent is launched only if it is active, below its step limit, and owes
//     something: a fresh vote, a fresh stop, or, where nobody votes, an answer. An
//     agent with a fresh vote owes nothing. Where nobody votes, an agent is also
//     launched for an unread message, unless max_new_answers_per_agent or
//     max_new_answers_global leaves it no answer.
//  19. In rounds, a wave is launched when nothing runs: every agent of rule 18 with an
//     action to offer. The next wave waits until every step of this one has ended.
//     Rounds are waves, counted from 1.
//  20. With continuous pacing an agent of rule 18 is launched as soon as it has news:
//     its first step, an answer of a peer that its last step was not shown, or a
//     message. Without news, as after its own answer, it waits as long as any agent
//     runs or can be launched. Each agent counts its own rounds; the session's round
//     is the highest.
//  21. A suspended or restarted step is resumed or launched again at once, in the same
//     round, independently of the other agents.
//
// # News for a running step (news.go)
//
//  22. With update_mode inject or restart, the doorbell tells running steps about new
//     answers. It rings when an answer is accepted that a running step takes (rule 23)
//     and has not seen, when there is a message for a running step, and when all steps are
//     asked to wrap up, pause, resume or end. It never rings without cause.
//  23. A step takes peers' answers if its agent has an answer (a first answer is worked
//     out alone), unless disable_injection or defer_peer_updates_until_restart is set;
//     with the latter, allow_midstream_peer_updates_before_checklist_submit admits
//     them until the first checklist. It takes at most
//     max_midstream_injections_per_round of them while fairness is enabled. Messages
//     reach every step.
//  24. A step that ended itself for news is launched again. It counts towards no limit
//     if there was an answer that it was not shown at its launch; otherwise it ended
//     without an action. The number of answers therefore bounds the restarts.
//
// # People (state.go)
//
//  25. pause suspends running steps and holds back launches until resume. A suspended
//     step counts towards no limit and is resumed from its execution token. If a step
//     acts before it is suspended, its action counts. The bell says pause until every
//     suspended step has reported.
//  26. say puts a message into the ledger, to all agents or to one. An agent that has
//     not received it is launched again, as rules 14, 16 and 18 say. After the team has
//     decided, a message reaches the steps of the final answer and undoes nothing.
//  27. With on_agent_failure park, a failed agent parks the session: running steps
//     continue, but nothing else is launched or decided until every failed agent is retried
//     or a decision is forced. With fail, the session fails as soon as an agent does.
//  28. retry makes a failed agent active again and resumes its step, parked or
//     not. It is the same step and is counted once.
//  29. A request that makes no sense now is refused with a reason. If it is stepped
//     anyway, it is noted and changes nothing. A request that follows Finish, TimeUp or
//     CancelRequested in a batch is refused as it would be after the batch.
//
// # Deciding (decide.go; the majority and from 40 on tally.go)
//
// Drain tries rules 30 to 39 in order, and the first that applies takes effect. Rules 40 to
// 43 name the winner and the effects of a decision.
//
//  30. With on_agent_failure fail, the session fails if an agent has failed before the
//     team has decided. A failure in the finale or in a later attempt never loses the
//     answer that was decided for.
//  31. Consensus: nothing runs, the session is neither paused nor parked, every active
//     agent below its limit has a fresh vote, and one target has more than half of N.
//     Rules 68 and 69 make exceptions. A consensus reached in the same batch as Finish
//     or TimeUp is decided, but not presented.
//  32. Finish and TimeUp force a decision at once. The first of them gives its status:
//     finished or timeout. Running steps are cancelled.
//  33. A paused session decides nothing else.
//  34. When the budget is spent, nothing more is launched and running steps are asked
//     to wrap up, as they are when the session's time is nearly over; once nothing
//     runs, a decision is forced: budget. Until then, steps that are launched together
//     share the rest equally, and no allowance is granted twice.
//  35. When no agent is active and the session is neither parked nor waiting (rule 55), the
//     session fails, unless Finish or TimeUp forces a decision. It keeps, without a winner,
//     the answer that rule 41 would elect.
//  36. Agents that can be launched are launched. While a step runs, nothing more is
//     decided, except by rule 76.
//  37. If an active agent still owes something, a decision is forced: limit. Such an
//     agent is at its limit of steps or rounds, or the global limit rules out the answer that
//     it owes.
//  38. Where nobody votes, the session is decided: presented. The winner is the
//     presenter if it has an answer, or else the first configured agent with one. Rule 110
//     makes an exception.
//  39. Otherwise all votes are fresh and split, and on_split decides. With revote, all
//     agents below their limit are launched again and told that the vote was split, but
//     not how. This happens at most max_revotes times in a session; if nobody can be
//     launched, a decision is forced: limit. After the last revote, or at once with
//     plurality, rule 40 applies: plurality. With fail the session fails. A vote from
//     before a revote counts until its agent acts.
//  40. Plurality elects the answer with the most fresh votes. Ties go to the answer
//     with the most fresh votes from other agents, then to that of the agent configured
//     first. Rule 74 joins equal answers; rule 110 makes an exception.
//  41. A forced decision elects the answer with the most fresh votes. Ties go to the
//     answer whose latest revision was named by the most votes, stale ones included;
//     then to the one whose agent's last evaluation (rule 86) has the highest total score,
//     none being the lowest; then to the newest; then to that of the agent configured first.
//     Rule 74 joins equal answers; rule 110 makes an exception.
//  42. The winner is an agent's latest accepted answer. If nobody has one, the session
//     has failed, and the decision names the status that forced it, if any. Rule 47
//     makes an exception. Only a failed or cancelled session has no winner.
//  43. A decision cancels running steps. It is final: later events change neither the
//     outcome nor the ledger, and lead to no commands, unless the session is reopened
//     (rule 62).
//
// # The final answer (finale.go)
//
//  44. A decision that was not forced is presented if the team asks for it: with
//     final_answer_strategy winner_present or synthesize, and in decomposition; not
//     with skip_final_presentation where the strategy is winner_reuse or voting is
//     skipped. The presenter is presenter_agent, if it has not failed; else, in
//     decomposition, the last configured active agent; otherwise the winner. In
//     decomposition, if the presenter's step fails, the next such agent joins the
//     parts, unless the session is parked for it.
//  45. The presenter is shown all answers and an account of the decision: the winner and
//     the reasons of its voters, or how the owners of the parts stopped, except those
//     that the session stopped. It is offered new_answer only, and its step counts
//     towards no limit. If the step fails or ends without an action, the winning answer
//     is final, for every value of on_agent_failure; in decomposition, a failed step
//     leads to this only if no other agent can present. In decomposition the winner is the agent
//     that presented; until one has presented, it is the winner of rule 38.
//  46. While max_orchestration_restarts allows another attempt, the same agent then
//     judges the final answer: submit, or begin again. Without a judgement the answer
//     is submitted.
//  47. Beginning again starts a new attempt. Answers, votes and stops of the attempt
//     before no longer count, step numbers and labels continue, and every step is shown
//     the last attempt's answer and the reason for its rejection. If the new attempt
//     decides nothing, the last attempt's decision is final.
//  48. A decision forced during the finale takes the presented answer, or else the
//     winning one.
//
// # Driving it (decide.go)
//
//  49. Events that happened together are stepped one after the other and drained once;
//     otherwise every answer would be judged alone.
//  50. Drain returns records in ledger order, then a ring, then either launches in
//     configured order or cancels, and at the end Done. It returns each once.
//  51. The same events give the same commands. A State may be marshalled to JSON and
//     back at any point without changing a later command.
//  52. After a Drain the session is done, or a step is running, or a wait is pending, or
//     the session is paused or parked. Rules 9, 24, 25, 44 and 47 bound the launches, so
//     a session ends if its steps, outages, pauses and parks end.
//
// # Outages (outage.go)
//
//  53. An agent whose step failed because its model's server was away has failed, but
//     on_agent_failure does not apply, and the agent tries again by itself: its step is
//     resumed, and counted once. Unless a person retries it, its launch says since when
//     the server has been away, so that an outage is waited out once and not by every
//     launch.
//  54. It tries again with every wave, whose other steps are launched as if it had
//     failed for good. An outage of one server therefore does not hold up the agents of
//     another.
//  55. When no agent is active and the server of one in an outage has replied earlier
//     in this session, nothing is decided: the session waits, and then every agent in
//     an outage tries again. The first of several consecutive waits takes 60 s, each
//     further one 60 s longer, at most 600 s. After a step that ends without an outage,
//     the next wait takes 60 s again. Requests, the session's time and its budget apply
//     as if a step were running.
//  56. If none of these servers has ever replied in this session, the session is parked
//     instead, for every value of on_agent_failure.
//  57. An outage of the presenter is waited out likewise, unless another agent can join
//     the parts. If its server has never replied, the presenter has failed.
//
// # Usage (team.go)
//
//  58. A step that was cancelled while it waited for its next attempt, or whose worker
//     was lost, reports nothing. The driver reads its usage from the store and steps
//     the step's end with it, so that every model call counts, in the cost and in the
//     budget.
//  59. A resumed step reports the usage of its predecessor if no event has counted it
//     because the predecessor ended without a known model call.
//  60. A step that ended without a token left nothing to resume. Its replacement resumes
//     its predecessor.
//  61. A new step that replaces a suspended or failed one starts with its files, even if
//     the agent had no open action in between.
//
// # Going on after an end (reopen.go)
//
//  62. A new run can reopen a session that failed, was cancelled, is undecided, or whose run
//     ended before a decision. It cannot reopen another session with a winner, nor one that
//     the next Drain would end in this way again.
//  63. Reopening withdraws the decision and the request that forced it, and ends a pause
//     and a wait. Rounds, limits, spending, votes and the ledger continue.
//  64. It retries all failed agents, as rule 28 says, including those in an outage; if it
//     names an agent, it retries that agent only.
//  65. Steps that were running are resumed from the tokens of the run that ended, and
//     counted once. A step that had claimed no number is resumed from its predecessor.
//     The steps that the end of the session cancelled are resumed in the same way.
//
// # Cancellation (facts.go)
//
//  66. CancelRequested ends a session that has no decision yet, with the status cancelled
//     and without a winner. It takes precedence over all other events of its batch, and
//     over a pause, a park and a wait. Answers and votes stay; running steps are
//     cancelled.
//  67. A final answer in progress also stays: if the session is reopened, it continues
//     with that answer.
//
// # Few agents (staged.go)
//
//  68. While fewer than min_active_agents agents are active, nothing is decided by vote.
//     If so many agents have failed for good that the rest cannot reach that number, the
//     session fails, unless on_agent_failure parks it. If the missing agents are in an
//     outage, it waits for them as rule 55 says, or parks as rule 56 says, once nothing
//     else can be launched. A person, the time and the budget can still force a decision.
//
// # Refinement alone (news.go)
//
//  69. With peer_visibility none, unless the work is divided, a step is shown only the
//     answer of its own agent. Answers of other agents do not reach it and make no vote
//     stale. An agent votes for its own answer when it is satisfied with it.
//  70. Until the answers are shown (rule 71), an agent at its limit of answers is not
//     launched.
//  71. When nothing runs and no agent can be launched, all answers are shown to all agents
//     for the rest of the attempt. Earlier votes become stale.
//  72. With continuous pacing, an agent without news is launched if it may answer and
//     either allow_solo_refinement is set or rule 69 applies. Rule 12 limits its lead.
//
// # Equal answers (tally.go)
//
//  73. An answer is a copy if, by its digest, it equals the newest answer of a peer that
//     its author was shown.
//  74. In rules 40 and 41, votes for equal answers are pooled: each of these answers has
//     the votes of all, except that copies are left out. If votes tie, the answer that
//     more agents have given wins, then the one with more votes of its own. If every
//     agent's newest answer ends with an "ANSWER: …" line, only those lines are compared. With
//     agree data, answers with data are compared by these alone, without files.
//
// # Rounds (staged.go)
//
//  75. max_rounds limits the rounds of an attempt: the waves, or with continuous pacing
//     the rounds of each agent. In its last round, and for this limit in no other, an agent
//     that has an answer is not offered another. After that it is treated as at its step limit
//     (rules 9 and 37), but its step can be resumed. A split vote is not repeated if an active
//     agent has no round left. When an agent joins a staged team, the rounds of all agents are
//     counted anew, from that of its first step: it may answer, and everybody votes.
//
// # Quorum (decide.go)
//
//  76. With decide_when quorum the session decides as soon as more than half of N have
//     a fresh vote for one target and none of these agents has a step that runs or will
//     be resumed: consensus. No outstanding vote can overturn it. Rules 31 to 33, 68
//     and 69 take precedence. As long as these votes are less than min_support of N, and
//     the votes of the agents at work or still to be launched could make them enough, it does
//     not decide, and the session goes on.
//  77. While a step is in progress that may give its agent's first answer, that
//     decision waits, at most for quorum_grace_seconds and once for each majority.
//     During the wait no step begins; interrupted ones resume. If the majority is lost,
//     the wait ends without a decision.
//  78. The steps that still run are cancelled. After that only their usage counts. A final
//     answer begins when they have ended.
//
// # Staged teams (staged.go; from 80 on decide.go)
//
//  79. With team_size the team begins with fewer places than agents: as many as start,
//     and at least min_active_agents. The first agents in configured order take them.
//     The others are absent: neither active nor failed. In decomposition everybody
//     joins.
//  80. When fewer agents are active than the team has places, absent ones join. Their
//     first steps begin at once, in the present round, unless rule 27, 32, 33 or 34
//     holds them back.
//  81. When nothing runs, nobody owes anything and no majority agrees, as many agents
//     join as step says, each with a new place, before a split vote is repeated or
//     decided. Where nobody votes, a majority agrees if more than half of N gave equal
//     answers. Agents join only if they can be launched.
//
// # Early agreement (offer.go)
//
//  82. With early_agreement, consensus also needs no votes: nothing runs, every active
//     agent has an answer and has received every message to it, no vote of this attempt
//     is in force, and more than half of N gave equal answers that are not copies. The
//     winner is the first configured of these agents. Where nobody votes, this takes
//     precedence over rule 38. If these answers are less than min_support of N, the agents
//     that can be launched are asked to vote instead.
//  83. Until somebody has voted, votes are deferred as rule 13 says. Rules 82 and 83 have no
//     effect in decomposition and with peer_visibility none.
//
// # Support (tally.go)
//
//  84. A decision by vote or early agreement has a support: the share
//     of the joined agents that have not failed, away or not, that has a fresh vote for
//     the winner or an equal answer; the mean confidence
//     of these voters; the share of the other agents' first answers that equal the winner's,
//     among those whose authors were shown no other answer; and the spread, by how much more of
//     these first answers, the winner's among them, equal it than equal the most frequent other.
//  85. If the first share is below min_support, or the promise of rule 111 is not kept, the
//     session is undecided and its winner is not presented, unless Finish or TimeUp forced
//     the decision.
//
// # Evaluated answers (critique.go)
//
//  86. With evaluations, an agent's newest answer is evaluated once, by a separate step,
//     before the agent's next step, if that step may answer. The evaluation sees the
//     same answers as the agent's step would. It is not a step of the agent and counts
//     towards no limit; its usage counts as the agent's. In rounds the next wave waits
//     for all evaluations.
//  87. If the evaluation has tasks, the agent's next step accepts a new answer only. The
//     tool vote is listed all the same, since all agents of a wave have the same tools,
//     but a call of it is refused.
//  88. An evaluation that fails is not repeated, and the agent continues without one.
//     It is suspended and resumed like any other step.
//  89. An answer is at a plateau if its evaluation and the one before both say that the
//     approach has reached its ceiling, and its total score is at most 1 higher. With
//     stop_at_ceiling a decision is forced once the newest answer of every active agent
//     is at a plateau: finished.
//
// # Preparations (facts.go)
//
//  90. The usage of a preparation before the first step counts in the session's cost and
//     budget, but not in any agent's.
//  91. A step that ended itself without an action, for news or because its allowance was
//     spent, leaves its files to the agent's next step.
//
// # Checks (checks.go)
//
//  92. Unless ballot is text or the work is divided, the checks of the user and those
//     that come with answers run on the newest answer of every agent. A new answer is
//     checked at once. Checks that came after an answer run on it when no step runs or
//     a quorum is about to decide. A wave waits for checks in progress, and so does a
//     decision in continuous pacing, unless it is forced. Outcomes make no vote stale.
//  93. An answer brings at most 10 checks, and a session has at most 100. A check that
//     its author hands in again does not count twice.
//  94. A check of the user counts for every answer. A check of an agent counts for the
//     answer of another agent if its author had been shown no answer of that agent when
//     it handed the check in. A check that fails on every answer on which it has run is
//     left out. Checks that could not be run are unknown and do not count.
//  95. Answers rank by the share of the user's counting checks that they pass; among
//     equals, an answer that another of them beats ranks below the others. An agent's
//     voice on an answer, its own included, is the share of its counting checks that the
//     answer passes, multiplied by the number of agents that came by themselves to answers
//     that are alike: every check of agents has the same outcome on them. One answer beats
//     another if the sum of its voices is higher, over the agents whose checks count for both.
//     Unless the voices of agents other than the two authors say so by themselves, votes count
//     against voices: the other answer may not be ahead by more fresh votes (rule 74), nor,
//     if by as many, have more of them from agents that gave no equal answer.
//  96. With checks_break_ties this rank comes after the fresh votes in rules 40 and 41,
//     with checks_decide before them; where nobody votes, it comes before the
//     configured order in rule 38. With checks_decide, if another answer ranks above
//     that of rule 31, 76 or 82, rules 31 and 76 decide for the highest: plurality;
//     rule 82 does not apply.
//  97. A voter is shown the outcomes for the answers that it is shown: the columns are the
//     agents' checks that are not left out, and the user's with show_checks, ordered by their
//     IDs, which name no author.
//
// # The caller's tools (caller.go)
//
//  98. A step that calls tools of the session's caller ends its activity and waits. For
//     every other rule it is still running: no wave begins and nothing is decided
//     without it. The wait counts towards no limit; the usage so far counts at once.
//  99. Calls of the same tool with the same arguments that wait at the same time count
//     as one: the result of one is the result of all.
//  100. Once all calls of a step have results, it is resumed as rule 21 says. A result
//     of an unknown call is refused. Of repeated results the first counts.
//  101. When nothing else runs, the session waits for the caller and its clock is
//     stopped. If the caller does not return in client_tools_timeout_seconds, the
//     session fails. It can be reopened: the step then asks for the same calls again.
//  102. A pause ends the caller's time, which begins anew with resume. A forced
//     decision does not wait for the caller.
//
// # Messages at the end (offer.go, state.go, reopen.go)
//
//  103. An agent at its limit of steps or rounds that has not received a message to it is
//     launched once more, with everything but a new answer open to it, if it votes or stops
//     and owes that. So a message leaves nobody without a vote, whenever it is sent.
//  104. A message to one agent is refused if that agent takes no further step: while the
//     final answer is made, unless the agent makes it or the team may begin again; if it has
//     failed for good, until it is retried, unless the session is parked; and where nobody
//     votes, if it is idle and its limits allow it no answer. An absent agent gets none either.
//  105. A reopening can bring a message to all agents or to one, which is news as rule 26
//     says, and retries all failed agents. If an undecided session is reopened without a
//     message and no agent has failed, every active agent is launched once more, whatever its
//     limits of steps and rounds; rule 39 applies to its prompt and its vote.
//
// # Away (outage.go)
//
//  106. A running step reports when its model is in an outage, and when the model is back.
//     It is in an outage when, for away_seconds, calls have failed and none has been
//     answered; or when the present call has brought no byte for the longer of that and
//     four times the longest call of the session. Rate limits and queues are no outage.
//  107. Unless the work is divided, the agents of such steps are away if the other active agents with an answer are
//     more than half of the agents that have joined, and at least min_active_agents, and
//     the budget affords a step. That is decided when no other step runs or will be
//     resumed, no check is in progress, and the session is neither paused, parked nor
//     deciding. An agent ceases to be away if it is decided otherwise, when its model is
//     back, and when its step ends.
//  108. The others go on without an agent that is away as without one that has failed: it
//     is not active, and its vote or stop is void. But its step is neither cancelled nor
//     resumed: it keeps its allowance and its place under the global limit, and its action
//     is accepted when it comes. A decision cancels it, as rule 78 says; one that is not forced names the agent.
//  109. A step of the final answer is never away; rule 57 applies.
//
// # Skill and promises (tally.go, promise.go)
//
//  110. If agents have a skill, it comes before the configured order in rules 38 and 40, and
//     before the newest answer in rule 41: a tie goes to the answer that the agent with the
//     greatest skill has given, or given equally, and among equal answers to its own.
//     Agents without one come last. A decision in which only skill told different answers
//     apart is decided by skill.
//  111. A calibration promises that at most a given share of the decisions on which the team
//     acts is wrong. Its score is the mean of the parts of the support that all calibrated
//     decisions had, and a decision that lacks one of them has the lowest score. A session
//     whose score is below the threshold of the promise is undecided. [Calibration.Promise]
//     chooses the threshold before the session begins.
//
// # Questions to people (caller.go)
//
//  112. A step that asks a person waits as one that calls the caller's tools, as rules 98 and 100 say. An
//     approval belongs to one call of one step and is never given for another.
//  113. Agents ask at most max_questions questions in a session. One more is answered at once: the agent
//     decides. Approvals, and questions about calls that may have happened, do not count.
//  114. Equal questions of agents, with equal options, that are open at the same time count as one: the reply
//     to one is the reply to all.
//  115. If nobody replies in ask_timeout_seconds, the session parks until somebody does. With on_ask_timeout
//     deny an approval is refused, and a question gets the reply that nobody answered.
//  116. A reply to a question that is not open is refused with the decision about it and its author. So is one of
//     another kind: an approval takes no text, a question no permission.
//  117. The end of the session, and that of a step by a decision of the others, withdraws open questions. If
//     the session is reopened, the step asks again, and the question is not counted twice.
//  118. When nothing else runs and nobody waits for the caller, the session waits for people and its clock is
//     stopped.
//
// # On record (restore.go)
//
// If another program launches the steps, [Recall] builds a State from the record of each
// agent. Its next Drain returns the agents whose turn it is, or the decision;
// [State.LaunchOf] launches one step. [State.CatchUp] applies the later
// events of the session to a saved State.
//
// # Three rounds
//
// Three agents; the numbers are those of their steps:
//
//	round 1   agent_a answers     001 → agent1.1     sees nothing
//	          agent_b answers     001 → agent2.1
//	          agent_c answers     001 → agent3.1
//	round 2   agent_a votes       002 → agent_b      saw a:1 b:1 c:1
//	          agent_b votes       002 → agent_b      saw a:1 b:1 c:1
//	          agent_c answers     002 → agent3.2     both votes are now stale:
//	                                                 they saw c:1, not c:2
//	round 3   agent_a votes       003 → agent_c      saw a:1 b:1 c:2
//	          agent_b votes       003 → agent_c      saw a:1 b:1 c:2
//	          agent_c votes       003 → agent_c      saw a:1 b:1 c:2
//
// Nothing runs, every vote is fresh, agent_c has 3 of 3: consensus on agent3.2. The
// package example runs this session; testdata/three_rounds.txt has every command.
package coordination
