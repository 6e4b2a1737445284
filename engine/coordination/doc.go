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
// # A session
//
//	        ┌─────────── a step is still running ──┐
//	        ▼                                      │
//	New ─▶ wave of steps ─▶ events, stepped ─▶ Drain decides ─▶ done
//	        ▲                                      │
//	        └── somebody has something to look at ─┘
//	            or the vote was split: once more
//
// # Words
//
// A step is one agent's run that ends in one action, a new answer or a vote, or
// fails. Accepted means that the action counts and is on the ledger. Active
// means not failed; N is the number of active agents.
//
// # Agents and labels
//
//  1. An agent's anonymous number is the position of its ID in byte order,
//     from 1, however the team is configured. Its M-th accepted answer has the
//     label agent<number>.<M>.
//  2. An agent is active until one of its steps fails. It is never launched
//     after that, its vote is void, and its accepted answers stay electable.
//
// # Steps
//
//  3. Every launch has an ID of its own, l1, l2, …, and an agent has at most
//     one launch running. The first event that names a running launch ends it.
//     An event that names any other is noted and changes nothing.
//  4. A step is shown the latest accepted answer of every agent, its own and
//     those of failed agents included, as of its launch, in the order of the
//     anonymous numbers. It is offered new_answer, and vote if it is shown
//     anything. In the first wave agents therefore see nothing and answer.
//  5. A launch says after which step number the agent goes on: that of its
//     last finished step.
//  6. An answer is accepted if its step number is above that. It withdraws the
//     agent's own vote.
//  7. A vote is accepted if its step number is above that, vote was offered,
//     and the target has an accepted answer, be it the voter's own. It takes
//     the place of the agent's earlier vote. It counts for the agent voted for;
//     the revision it names is kept beside it: the label given if that is one
//     of the target's, else the revision that it saw, else the latest.
//  8. A step that ends with an action that is not accepted has ended without an
//     action. The agent stays what it was, an earlier vote included, and is
//     launched again if a wave needs it.
//  9. Every ended step counts towards max_steps_per_agent, whatever it ended
//     with. At the limit an agent is done: a fresh vote counts, otherwise it
//     abstains; either way it stays in N.
//  10. Usage is added up for every step that was launched: also for those that
//     failed, that were stopped, and that report after they were cancelled. A
//     step stopped from outside changes nothing else: it counts towards no
//     limit, and the agent is launched again if a wave needs it.
//
// # Staleness
//
//  11. A vote is stale if any agent, active or failed, has an accepted answer
//     newer than the one the vote saw; an agent it did not see counts as 0.
//     The voter's own newer answer is one of these. Other votes never matter.
//  12. What a vote saw is what its step reports, within reason: agents that are
//     unknown or have no answer are dropped, and nobody has seen more than was
//     accepted when the event was stepped.
//
// # Waves
//
//  13. A wave is launched when nothing runs. It is every active agent below its
//     step limit without a fresh vote: one with no action, a new answer or a
//     stale vote. An agent with a fresh vote has nothing new to look at and is
//     left alone.
//  14. The next wave waits until every step of this one has ended. Rounds are
//     waves, counted from 1.
//
// # Deciding
//
// Drain settles these in this order; the first that holds is the outcome.
//
//  15. With on_agent_failure fail, the session fails as soon as an agent does.
//  16. Consensus: nothing runs, no active agent below its limit is without a
//     fresh vote, and one target has more than half of N. A consensus reached
//     in the same batch as Finish or TimeUp stands.
//  17. Finish and TimeUp force a decision at once: finished or timeout,
//     whichever came first.
//  18. While a step runs, nothing is decided.
//  19. When no agent is active, a decision is forced from the answers that are
//     there: plurality.
//  20. When somebody can be launched by rule 13, that wave is launched.
//  21. When an active agent is at its limit without a fresh vote, a decision is
//     forced: limit.
//  22. Otherwise all votes are fresh and split, and on_split decides. revote
//     launches everybody below the limit again, telling them that the vote was
//     split but not how, at most max_revotes times in a session; if nobody is
//     below the limit, a decision is forced: limit. Then, or with plurality at
//     once, plurality. With fail the session fails. Votes from before a revote
//     stand until the agent acts.
//  23. Plurality elects the answer with most fresh votes; then most of them from
//     other agents; then that of the agent configured first.
//  24. A forced decision elects the answer with most fresh votes; then the one
//     whose latest revision was named by most votes, stale ones included; then
//     the newest; then that of the agent configured first.
//  25. What wins is an agent's latest accepted answer. Where nobody has one, the
//     session has failed, whatever asked for the decision. A failed session has
//     no winner, every other has one.
//  26. A decision cancels what still runs. Nothing follows it: later events
//     change neither the outcome nor the ledger, and bring no commands.
//
// # Driving it
//
//  27. Events that happened together are stepped one after the other and drained
//     once, or every answer would be judged alone.
//  28. Drain returns records in ledger order, then either the launches of a wave
//     in configured order, or the cancels and then Done. It returns nothing
//     twice.
//  29. The same events give the same commands. State may be marshalled to JSON
//     and back at any point without changing anything that follows.
//  30. After a Drain the session is done or a step is running. Rules 8 and 9
//     bound the launches by N times max_steps_per_agent, so a session whose
//     steps end is a session that ends.
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
