// Package approval decides by rules whether a tool call of an agent runs, waits for a person, or is refused.
//
//  1. The first rule of a list that fits a call decides. The operator's list and the team's are asked apart, and
//     the stricter of the two decisions holds: deny, ask, allow. So a team can be stricter than the operator.
//  2. Without a rule that fits, a call is allowed; but once a list exists, calls of MCP tools that are not marked
//     read-only, and of a shell without a sandbox, are asked about.
//  3. A rule fits if its tool does, its pattern is found in the canonical JSON of the arguments, and its paths
//     fit: for deny and ask one path of the call, for allow all of them.
//  4. A command is parsed into the commands that it names, those behind sh -c, env, xargs, eval, find -exec and the
//     like included, and each is decided alone: the strictest decision holds. A pattern is tried on each of
//     them, with the program as it is written and, except for allow, by its base name; except for
//     allow also on the canonical JSON. For allow, assignments before a command are part of it.
//  5. Where the word that names a program is not literal, the strictest rule of each list that concerns commands
//     holds. An argument that is not literal can be anything for deny and ask, if the match begins before it; no
//     command with one fits an allow that has a pattern.
//
// The commands that a script or a Makefile starts are not seen: a rule is a gate, the sandbox the wall. The package
// has no I/O.
package approval
