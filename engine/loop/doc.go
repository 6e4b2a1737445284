// Package loop is one agent's tool-calling loop. It calls the model, judges the reply, runs
// the tools that the reply calls, and repeats this until the Rules accept an action.
//
// The Rules determine whether a step belongs to a session, a pipeline or a scenario. They
// offer tools beside the ordinary ones, rule on each reply, and bring updates at safe points:
// before a model call, when every tool call has its result, and once more before an accepted
// action counts. The loop guarantees the mechanics:
//
//   - tool calls that a model writes as text count if the reply contains nothing else;
//   - every tool call is answered by exactly one result, in order;
//   - the ordinary tool calls in a reply with an accepted action are still run, so that
//     "write the file and submit" in one reply does both;
//   - an action counts when it is journaled; an update of Confirm is journaled in its
//     place, and the loop continues;
//   - no model call is made before everything earlier is journaled;
//   - rejections, model calls, the length of a reply and wall-clock cancellation are bounded;
//   - a conversation that outgrows the model's context window is shortened, see below.
//
// A Conversation is the fold of its journal entries, and so is the state of the rules. Run
// therefore continues a restored conversation exactly where it stopped, without repeating a
// model call or the confirmation of an action.
//
// Start with Run in loop.go, then Rules in rules.go.
//
// # The context window
//
// A History estimates its size (size.go), plans the next step to shorten it and takes it (elide.go): Elide
// removes the bulk of old tool results, Compact replaces old turns by a summary, which SummaryRequest asks a
// model for and which costs a model call (summary.go). Placeholders stand for everything removed.
//
// A history consists of fixed messages (the opening, peers' answers and human messages) and
// of turns: a reply of the model with its results. Turns are kept or replaced as a whole, so
// that every tool call keeps its result. conversation.go calls the model and journals the steps.
//
// Start with History.Next in elide.go.
package loop
