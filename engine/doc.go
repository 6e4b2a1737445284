// Package engine has no code: its packages are the core of conclave, in which agents answer,
// vote, follow a step graph or test a product, without Temporal, HTTP or any vendor.
//
// # The three products
//
//   - A session takes one query to a decision by a team. coordination is the protocol, and
//     its package comment is the specification: rounds, votes, consensus. team is one
//     agent's step: its prompts, its workflow tools, the ruling on every reply, and the
//     commit of its action. team/checklist is the scored checklist that
//     may gate a vote, team/evaluator the evaluation of an answer before its agent's next
//     step, and team/plan the plan that may follow from it. directory reads and writes
//     a session directory that other programs write to, too.
//   - A pipeline passes a request along a graph of steps. pipeline is the pure graph and
//     its state; pipeline/agent is the step of one agent in it.
//   - A scenario run tests a product in user journeys, with an isolated agent for each
//     step. scenario is the pure plan, state and report; scenario/agent is one step.
//
// # Shared by all of them
//
//   - llm: messages, tool calls, replies, usage and errors of language models.
//   - draft: the criteria, personas and subtasks that a model makes for a session.
//   - loop: one agent's tool-calling loop and the Rules that decide how it ends.
//   - window: keeps a long conversation within the model's context window, by elision and
//     summaries.
//   - step: one durable run of the loop: claim, journal, commit, derived documents; the
//     doorbell for running steps; the classifier of the engine's errors.
//   - artifact: keys, blobs, manifests and documents of the store; package storetest
//     specifies a store by tests.
//   - base: the directories that sessions start from: upload, packs, copies, removal.
//   - overlay: mounts in which steps change the files of a base without a copy.
//   - config: the configuration files, checked, with their schema.
//   - check: checks of answers: their definitions, and one run in a fresh copy.
//   - eval: the questions of an evaluation, the scoring of answers and the summary; package
//     stats has its statistics, package generate makes questions.
//   - builtin: the descriptions of the built-in tools, and the check of their arguments.
//   - massgen: translates the configurations of MassGen.
//   - patch: the change between two trees of files, printed as git does and applied.
//   - redact and text: removal of secrets; truncation and cleaning of text.
//   - ignore: the patterns of .gitignore and .conclaveignore.
//   - filelock: locks between processes.
//   - scratch: temporary directories, removed if their process was killed.
//
// # Reading order
//
// coordination, for the protocol; loop, for the machinery of a step; team, for the rules of
// an agent; step, for durability. To find a single rule:
//
//   - A vote is judged in team/judge.go, which parses it with team/action.go. It is accepted
//     in coordination/step.go, found fresh or stale in coordination/news.go, and counted in
//     coordination/decide.go.
//   - A step is claimed in step/claim.go.
//   - A message of `conclave say` is read in step/message.go and enters a prompt in
//     team/prompt.go and team/update.go, in pipeline/agent/rules.go (in task.go beside it for
//     the question of a team), or in scenario/agent/news.go.
//
// The pure packages (coordination, pipeline, scenario,
// loop, window, llm) do no I/O; coordination, pipeline and scenario have no clock either.
package engine
