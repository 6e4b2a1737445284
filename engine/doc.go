// Package engine is where the thinking of conclave lives: what a team of
// agents does, with no Temporal, no HTTP and no vendor below it.
//
// Start with coordination, the protocol between agents, whose package comment
// is its specification. Then loop, one agent's tool-calling loop and the Rules
// that decide how it ends; team, the Rules of a team member, with the checklist
// as a package of its own below it; and step, one durable run of that loop over
// the ports it needs. member makes a team's step of a launch: the one place
// where anonymous numbers and IDs meet. directory reads a session directory that
// any program may write to, and says what is on record there.
//
// pipeline is the step graph, a pure machine of jumps, calls and returns;
// scenario is the ordered steps of a user-journey test. The agent package below
// each holds the Rules of one of its steps and carries the step out on durable
// storage.
//
// artifact and llm are the nouns the others share, text shortens and cleans
// strings, and config reads what people write.
package engine
