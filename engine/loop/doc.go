// Package loop is one agent's tool-calling loop: ask the model, judge what it
// said, run the tools it asked for, ask again, until the Rules accept an action.
//
// It knows nothing of teams, graphs or scenarios. Rules says which tools are
// offered beside the ordinary ones, judges each reply, and brings updates at
// safe points (before a model call, when every tool call has its result). What
// a step means is entirely theirs; the loop guarantees the mechanics:
//
//   - every tool call is answered by exactly one result, in order;
//   - a reply with an accepted action still gets its ordinary tool calls run,
//     so that "write the file and submit" in one reply does both;
//   - nothing is asked of the model before what happened so far is journaled;
//   - rejections, model calls and wall-clock cancellation are bounded.
//
// A Conversation is the fold of its journal entries: Run continues one that was
// restored exactly where it stopped, without asking the model again for a reply
// it has already given.
//
// Start with Run in loop.go, then Rules in rules.go.
package loop
