// Package engine has no code: its packages are the core of conclave, in which agents answer,
// vote, follow a step graph or test a product, without Temporal, HTTP or any vendor.
//
// # The three products
//
//   - A session takes one query to a decision by a team. coordination is the protocol, and its package
//     comment is the specification: rounds, votes, consensus. session is one agent's step: its prompts, its
//     workflow tools, the ruling on every reply, and the commit of its action.
//   - A pipeline passes a request along a graph of steps. pipeline is the pure graph and
//     its state; pipeline/agent is the step of one agent in it.
//   - A scenario run tests a product in user journeys, with an isolated agent for each
//     step. scenario is the pure plan, state and report; scenario/agent is one step.
//
// Below session:
//
//   - session/quality: the scored checklist that may gate a vote, the evaluation of an
//     answer before its agent's next step, the plan that may follow from it, and the
//     criteria, personas and subtasks that a model makes for a session.
//   - session/check: checks of answers: their definitions, and one run in a fresh copy.
//   - session/directory: reads and writes a session directory that other programs write to, too.
//
// # Shared by all of them
//
//   - llm: messages, tool calls, replies, usage and errors of language models; the
//     descriptions of the built-in tools, and the check of their arguments. llm/wire has the
//     JSON of the three protocols in which programs ask models.
//   - loop: one agent's tool-calling loop and the Rules that decide how it ends; it keeps
//     a long conversation within the model's context window, by elision and summaries.
//   - step: one durable run of the loop: claim, journal, commit, derived documents; the
//     messages to running steps; the classifier of the engine's errors.
//   - approval: the rules by which a tool call runs, waits for a person, or is refused.
//   - config: the configuration files, checked, with their schema. config/massgen
//     translates the configurations of MassGen.
//   - eval: the questions of an evaluation, read or made, the scoring of answers, the
//     statistics and the summary; sessions played with recorded answers.
//   - text: truncation and cleaning of text; removal of secrets.
//
// Files and storage:
//
//   - files/artifact: keys, blobs, manifests and documents of the store; the patterns of .gitignore.
//   - files/storetest: specifies a store by tests; a server and a proxy for them.
//   - files/snapshot: the directories that sessions start from: upload, packs, copies, mounts, removal.
//   - files/overlay: mounts in which steps change the files of such a directory without a copy.
//   - files/patch: the change between two trees of files, printed as git does and applied.
//   - files/filelock: locks between processes; temporary directories, removed if their process was killed.
//
// # Reading order
//
// coordination, for the protocol; loop, for the machinery of a step; session, for the rules of
// an agent; step, for durability. To find a single rule:
//
//   - A vote is judged in session/judge.go, which parses it with session/action.go. It is
//     accepted in coordination/step.go, found fresh or stale in coordination/news.go, and
//     counted in coordination/tally.go.
//   - A step is claimed in step/claim.go, which also gives every error its class.
//   - The next step of a pipeline is chosen in pipeline/step.go, its limits are kept in pipeline/limit.go.
//     The verdict of a scenario's step is judged in scenario/agent/rules.go and counted in scenario/state.go.
//   - A message of `conclave say` is read in step/message.go and enters a prompt in
//     session/prompt.go and session/update.go, in pipeline/agent/rules.go (in task.go beside
//     it for the question of a team), or in scenario/agent/rules.go.
//   - A key of the configuration is a field in config/team.go or config/pipeline.go; checks
//     across keys are in config/check.go and config/graph.go.
//   - A field of a session's result is added to Result in workflows/session/result.go, with its
//     value in coordination/decision.go if the protocol decides it. A pipeline's is added to
//     Result in activities/pipeline/pipeline.go and pipeline/event.go, a scenario's in
//     activities/scenario/prepare.go, and that of one of its steps in scenario/state.go.
//   - Secrets are recognized in text/nearest.go (values and names) and text/rules.go (files).
//
// The pure packages (approval, coordination, pipeline, scenario,
// loop, llm) do no I/O; coordination, pipeline and scenario have no clock either.
package engine
