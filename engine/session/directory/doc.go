// Package directory reads a session directory that any program may write to: the step-mode layout, with steps
// from conclave, from other programs, by hand, or from a bucket. It derives the state of the team from the
// steps on record by the rules of engine/coordination, and builds the launch of an agent's next step.
//
// Start with Read. Directory.Check reports the agents, those to launch next, and whether the team has
// decided. Directory.Launch, Directory.Answers and AdaptSpec provide the inputs of a step, and Hold is the
// lock that marks it as running. This package runs no step and writes none of its documents.
//
// # Untrusted input
//
// Reading follows no links and no paths in documents, stays below the given root, never blocks on a FIFO, and
// is bounded. A malformed file invalidates only its own step and gives a Warning: the step keeps its number
// and has no action, as if it had failed.
//
// # Counting
//
//   - An agent is a directory agents/<id>; its steps are directories named by a number of at least three
//     digits, from 001, without further leading zeros. Other names of digits, and names that are no IDs, give
//     warnings; names that begin with a dot are ignored.
//   - The action of a step is action.json, or else the only one of answer.json, vote.json and stop.json. A
//     step with more than one of them is ignored, and so are last_action.json, status.json and final/. The
//     directory, not the document, names the agent.
//   - An agent's latest answer is the one with the highest step number; its files are beside it. A vote or
//     stop stands until its agent's next action.
//   - Where there is a ledger, the steps of its workflow count if they are on it;
//     steps of other programs count as they are.
//   - A vote names the steps that it saw in seen_steps. Agents missing from it count
//     as unseen; so do invalid or unclaimed step numbers.
//   - Labels number the agents that have a numbered directory by the byte order of
//     their IDs; With adds agents that have none yet. Labels in files are ignored.
//
// # Running steps
//
// The process of a step holds a lock for the token of its claim from before the claim is written until the
// step ends; the system releases the lock of a killed process. A claim without an action and with a free lock
// was interrupted. The locks are files below .conclave-locks, which other programs can ignore.
//
// # Paths in texts
//
// A commit holds an answer's text as its agent wrote it. In answer.json and last_action.json the path of the
// step's workspace becomes the path in the session directory, and peers/agent<N>, relative or below the
// workspace, becomes the path of the answer shown there. A step reads all of these as peers/agent<N> by its
// own numbers, and labels likewise: the claim records the agents behind the numbers of the step that wrote
// the text.
package directory
