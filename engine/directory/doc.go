// Package directory reads a session directory that any program may write to:
// the step-mode layout, whose steps come from conclave, from other programs, by
// hand, or out of a bucket. It says what is on record, by the rules of
// engine/coordination what that comes to, and what a step of one of the agents
// is launched with.
//
// Start with Read. Then Directory.Check says who is where, who is next, and
// whether the team has decided; Directory.Launch and Answers make what
// engine/member needs for a step, Saving has its number taken and its documents made
// as a directory has them, and Hold is the lock by which others know that it is at
// work. Nothing here runs a step or writes a document of one.
//
// # Without trust
//
// Nothing is followed: neither links, of agents, steps, files or workspaces, nor
// paths in what a file says. Everything happens below the given root, nothing
// waits (a FIFO is not opened), and what is read is bounded. A file that is not
// what it should be costs the step that it is in, and there is a Warning that
// names it: the step keeps its number and has no action. An older answer is the
// latest one then, as if the step had come to nothing.
//
// # What counts
//
//   - An agent is a directory agents/<id>, its steps are directories named by a
//     number of at least three digits, from 001 (and no more digits than needed).
//     Names of digits that are no such number, and names that are no IDs, are
//     warned about; names that begin with a dot are somebody's litter.
//   - A step's action is action.json; where there is none, the one of
//     answer.json, vote.json and stop.json that is there. With more than one of
//     them nobody can tell. last_action.json, status.json and final/ decide nothing.
//     Whose it is, its directory says, not what is in it.
//   - An agent's latest answer is that of the highest number, with the files
//     beside it. A vote or stop stands until a later action of its agent.
//   - Where there is a ledger, the steps of the workflow that wrote it count if
//     they are on it; those that others added count as they are.
//   - A vote says by seen_steps what it saw; what it does not name it saw nothing
//     of. A number that is none, or that nobody has taken yet, is nothing, too.
//   - Labels number the agents that have a numbered directory by the byte order
//     of their IDs; With adds those that have none yet. Labels in files are not
//     looked at.
//
// # At work
//
// A step's process holds a lock for the token of its claim, from before the claim
// is there until it ends; the system takes it from one that is killed. A claim
// without an action whose lock is free was interrupted. Locks are files below
// .conclave-locks, which other programs have no use for.
//
// # Paths in a text
//
// A commit has an answer's text as its agent wrote it. In answer.json and in
// last_action.json the path of the step's workspace, wherever that lay, is the one
// in the session directory; the path of peers/agent<N> in it is that of the files of
// the answer that was shown there. Relative references to peers/agent<N> stay. Before
// a step all of these are peers/agent<N>, by the numbers that hold then, and so are
// labels: the claim says whom the numbers stood for.
//
// # Files
//
// open.go opens, document.go decodes, action.go reads what a step ended with,
// agent.go an agent's steps, ledger.go what was accepted, read.go all of it.
// rules.go makes a coordination.State of that, check.go and launch.go ask it.
// commit.go, workspace.go and paths.go bring an answer before a step; saved.go
// settles the paths in one that is saved. lock.go tells who is at work, reserve.go
// finds an ID for who has none, criteria.go reads what answers are judged by,
// usable.go looks for what would break a step off.
package directory
