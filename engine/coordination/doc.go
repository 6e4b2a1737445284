// Package coordination is the protocol between the agents of a team: who works
// next, what they are shown, which of their actions count, and when the team
// has decided.
//
// It is a pure state machine. [State.Step] takes what happened, [State.Drain]
// says what to do about it. There is no clock, no chance, no I/O and no
// goroutine in it, and it knows neither models nor prompts nor storage: a
// driver runs the steps that are launched, keeps the ledger, watches the time,
// and feeds every outcome back as an event. Start with this page, then read a
// session in testdata, then state.go.
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
//	│ failed: votes no more, its answer can still win      │
//	└──────────────────────────────────────────────────────┘
//
// In decomposition a stop takes the place of the vote: voted is stopped then.
//
// # A session
//
//	        ┌─────────── a step is still running ──┐
//	        ▼                                      │
//	New ─▶ steps launched ─▶ events, stepped ─▶ Drain decides ─▶ final answer ─▶ done
//	        ▲                                      │                   │
//	        └── somebody has something to look at ─┘                   │
//	        │   or the vote was split: once more                       │
//	        └───────────────────────────── or it will not do: begin again
//
// # Words
//
// A step is one agent's run that ends in one action: a new answer, a vote or a
// stop; or it fails, or ends without one. Accepted means that the action counts
// and is on the ledger. Active means not failed; N is the number of active
// agents. A message is what a person says to the agents.
//
// # Agents and labels
//
//  1. An agent's anonymous number is the position of its ID in byte order,
//     from 1, however the team is configured. Its M-th accepted answer has the
//     label agent<number>.<M>; what it presents at the end, agent<number>.final.
//  2. An agent is active until one of its steps fails. It is not launched after
//     that unless somebody retries it; its vote or stop is void, and its
//     accepted answers stay electable.
//
// # Steps
//
//  3. Every launch has an ID of its own, l1, l2, …, and an agent has at most
//     one launch running. The first event that names a running launch ends it.
//     An event that names any other is noted and changes nothing.
//  4. A step is shown the latest accepted answer of every agent, its own and
//     those of failed agents included, as of its launch, in the order of the
//     anonymous numbers, and what people have said to it. Agents whom there is
//     nothing to show work out an answer of their own.
//  5. A launch says after which step number the agent goes on: that of its
//     last finished step.
//  6. An answer is accepted if its step number is above that and it was offered.
//     It withdraws the agent's own vote or stop.
//  7. A vote is accepted if its step number is above that, vote was offered,
//     and the target has an accepted answer, be it the voter's own. It takes
//     the place of the agent's earlier vote. It counts for the agent voted for;
//     the revision it names is kept beside it: the label given if that is one
//     of the target's, else the revision that it saw, else the latest. A stop is
//     accepted likewise, in decomposition.
//  8. A step that ends with an action that is not accepted, or with its
//     allowance spent, has ended without an action. The agent stays what it was,
//     an earlier vote included, and is launched again if it is its turn.
//  9. Every ended step counts towards max_steps_per_agent, whatever it ended
//     with. At the limit an agent is done: a fresh vote counts, otherwise it
//     abstains; either way it stays in N.
//  10. Usage is added up for every step that was launched: also for those that
//     failed, that were suspended, and that report after they were cancelled.
//
// # What a step may do
//
// The actions offered are settled at the launch and hold for the whole step; no
// step is launched with none.
//
//  11. A new answer, unless max_new_answers_per_agent or max_new_answers_global
//     is reached. A running step that may answer has a place under the global
//     limit reserved, so that nobody's work is refused for a limit.
//  12. A new answer also needs fairness: own answers + 1 − those of the slowest
//     peer that works or will, at most fairness_lead_cap_answers. A first answer
//     is always free; cap 0 means never ahead. Over the cap an agent may only
//     vote, and it is not launched at all while such a slower peer works.
//  13. A vote, when there is an answer. With defer_voting_until_all_answered
//     there is no vote, and agents with an answer wait, while an active agent
//     below its step limit has none and the global limit is not reached.
//  14. In decomposition a stop takes the place of the vote, and is always
//     offered. Instead of being left without new_answer an agent is stopped by
//     the session: at the global limit, or after max_new_answers_per_agent
//     answers in a row without anything new to it, of its peers or of people.
//     Something new ends the row. An agent that has not heard a message is
//     launched instead. In rounds agents are stopped only when nothing runs.
//  15. Nobody votes with skip_voting, nor when everybody may answer once and all
//     is synthesized (final_answer_strategy synthesize, one answer per agent,
//     voting not deferred, more than one agent). An answer is all that an agent
//     owes then. For a message it is launched again (rule 18), but owes nothing.
//
// # Staleness
//
//  16. A vote or stop is stale if any agent, active or failed, has an accepted
//     answer newer than the one it saw, the agent's own included; an agent it
//     did not see counts as 0. It is stale also if it has not heard a message to
//     its agent. Other votes and stops never matter, nor does what is said after
//     the team has decided, unless it begins again.
//  17. What a step saw is what it reports, at its launch and on the way, within
//     reason: agents that are unknown or have no answer are dropped, and nobody
//     has seen or heard more than there was when the event was stepped.
//
// # Pacing
//
//  18. An agent is launched only if it is active, below its step limit, and owes
//     something: it has no fresh vote, no fresh stop, or, where nobody votes, no
//     answer. An agent with a fresh vote has nothing new to look at. Where nobody
//     votes, it is launched also if it has not heard a message, unless
//     max_new_answers_per_agent or max_new_answers_global leaves it no answer.
//  19. In rounds a wave is launched when nothing runs: everybody of rule 18 for
//     whom there is an action. The next wave waits until every step of this one
//     has ended. Rounds are waves, counted from 1.
//  20. With continuous pacing an agent of rule 18 is launched as soon as it has
//     something new to look at: its first step, an answer of a peer that its
//     last step was not shown, or a message. Without anything new, as after its
//     own answer, it waits as long as anybody works or can be launched. Rounds
//     are counted by each agent; the session's is the highest.
//  21. A launched step that was suspended or restarted goes on at once, in the
//     same round, whatever the others do.
//
// # News for a running step
//
//  22. With update_mode inject or restart, running steps hear of new answers by
//     the bell. It is rung when an answer is accepted that a running step takes
//     and has not been told of, when a message is for a running step, and when
//     all are asked to wrap up, to pause, to go on or to end; never for nothing.
//  23. A step takes peers' answers if its agent has an answer (a first answer is
//     worked out alone), and unless disable_injection or
//     defer_peer_updates_until_restart is set; with the latter,
//     allow_midstream_peer_updates_before_checklist_submit lets them in up to
//     the first checklist. It takes max_midstream_injections_per_round of them
//     at most while fairness is enabled. Messages reach every step.
//  24. A step that ended itself for news is launched again with what is new. It
//     counts towards no limit if there was an answer that it was not shown at
//     its launch; otherwise it ended without an action. So restarts are bounded
//     by answers.
//
// # People
//
//  25. pause suspends what runs and holds back what would be launched, until
//     resume. A suspended step counts towards nothing and goes on from its
//     execution token. A step that acts before it can be suspended has acted.
//     As long as steps that a pause ended have not said so, the bell says why.
//  26. say puts a message on the ledger, to all agents or to one. Whoever has not
//     heard it is asked again, as rules 14, 16 and 18 say. Said after the team
//     has decided, it reaches the steps of the final answer and undoes nothing.
//  27. With on_agent_failure park a failed agent holds the session up: what runs
//     goes on, nothing else is launched or decided until every failed agent is
//     retried, or a decision is forced. With fail the session fails as soon as an
//     agent does.
//  28. retry makes a failed agent active again and goes on with its step, parked
//     or not. It is the same step: it is counted once.
//  29. A request that makes no sense now is refused with a reason; stepped all
//     the same, it is noted and changes nothing.
//
// # Deciding
//
// Drain settles these in this order; the first that holds is the outcome.
//
//  30. With on_agent_failure fail, the session fails when an agent has failed
//     before the team has decided. An answer that was decided for is not thrown
//     away: neither a failure in the finale nor one in a later attempt does that.
//  31. Consensus: nothing runs, nobody is paused or parked, no active agent below
//     its limit is without a fresh vote, and one target has more than half of N.
//     A consensus reached in the same batch as Finish or TimeUp stands, and is not
//     presented.
//  32. Finish and TimeUp force a decision at once: finished or timeout,
//     whichever came first. What runs is cancelled.
//  33. A paused session decides nothing else.
//  34. When the budget is spent nothing is launched any more; once nothing runs,
//     a decision is forced: budget; steps that still run are asked to wrap up, as
//     they are when the session's time is nearly over. Before that, what is left
//     of it is shared equally by the steps launched together, and what was
//     promised to running steps is not promised twice.
//  35. When no agent is active, and nothing is parked, a decision is forced from
//     the answers that are there: plurality.
//  36. When somebody can be launched, they are. While a step runs, nothing more
//     is decided.
//  37. When an active agent still owes something, it is at its step limit, or it
//     owes an answer that the global limit rules out: a decision is forced: limit.
//  38. Where nobody votes the session is done: presented. The answer that stands
//     is the presenter's, or else that of the first configured agent with one.
//  39. Otherwise all votes are fresh and split, and on_split decides. revote
//     launches everybody below the limit again, telling them that the vote was
//     split but not how, at most max_revotes times in a session; if nobody can
//     be, a decision is forced: limit. Then, or with plurality at once,
//     plurality. With fail the session fails. Votes from before a revote stand
//     until the agent acts.
//  40. Plurality elects the answer with most fresh votes; then most of them from
//     other agents; then that of the agent configured first.
//  41. A forced decision elects the answer with most fresh votes; then the one
//     whose latest revision was named by most votes, stale ones included; then
//     the newest; then that of the agent configured first.
//  42. What wins is an agent's latest accepted answer. Where nobody has one, the
//     session has failed, and says what asked for the decision if it was forced;
//     but see rule 47. A failed session has no winner, every other has one.
//  43. A decision cancels what still runs. Nothing follows it: later events
//     change neither the outcome nor the ledger, and bring no commands.
//
// # The final answer
//
//  44. A decision that was not forced is presented where that is asked for: with
//     final_answer_strategy winner_present or synthesize, and in decomposition;
//     not with skip_final_presentation where the strategy is winner_reuse or
//     voting is skipped. The presenter is presenter_agent; else, in decomposition,
//     the agent configured last, otherwise the winner; of those that have not
//     failed. In decomposition the next of them joins the parts when the
//     presenter's step fails, unless the session is parked for it.
//  45. It is shown all answers, told what won and why, or how the owners of the
//     parts stopped, but for stops by the session itself, and offered new_answer
//     only. Its step counts towards no limit. If it comes to nothing, the winning
//     answer stands, whatever on_agent_failure says; in decomposition it does
//     when nobody is left to stand in, or the step ended without failing. There
//     the presenter is the winner, and before one has presented, rule 38 says
//     whose part is there.
//  46. While max_orchestration_restarts allows, the same agent then judges the
//     final answer: submit, or begin again. If it comes to nothing, the answer is
//     submitted.
//  47. Beginning again is a new attempt: answers, votes and stops of the one
//     before count no longer, steps and labels count on, and every step is told
//     what the last attempt came to and why that will not do. If the new attempt
//     comes to nothing, whatever the reason, what the last one decided stands.
//  48. A decision forced meanwhile takes what is there: the presented answer, or
//     else the winning one.
//
// # Driving it
//
//  49. Events that happened together are stepped one after the other and drained
//     once, or every answer would be judged alone.
//  50. Drain returns records in ledger order, then a ring, then either launches
//     in configured order, or the cancels, and, at the end, Done. It returns
//     nothing twice.
//  51. The same events give the same commands. State may be marshalled to JSON
//     and back at any point without changing anything that follows.
//  52. After a Drain the session is done, or a step is running, or it is held:
//     paused or parked. Rules 9, 24, 25, 44 and 47 bound the launches, so a session
//     whose steps end, and that is not held for ever, is a session that ends.
//
// # On record
//
// Where somebody else launches the steps, there is no State that has followed
// them. [Recall] makes one of what is on record; its next Drain says whose turn
// it is and whether the team has decided, and [State.LaunchOf] launches one step.
//
// # A session
//
// Three agents, the numbers below are of their steps:
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
// Nothing runs, every vote is fresh, agent_c has 3 of 3: consensus on agent3.2.
// It is testdata/three_rounds.txt, command by command.
package coordination
