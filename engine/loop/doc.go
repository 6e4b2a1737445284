// Package loop is one agent's tool-calling loop: ask the model, judge what it
// said, run the tools it asked for, ask again, until the Rules accept an action.
//
// It knows nothing of teams, graphs or scenarios. Rules says which tools are
// offered beside the ordinary ones, judges each reply, and brings updates at
// safe points: before a model call, when every tool call has its result, and
// once more before an accepted action counts. What a step means is entirely
// theirs; the loop guarantees the mechanics:
//
//   - every tool call is answered by exactly one result, in order;
//   - a reply with an accepted action still gets its ordinary tool calls run,
//     so that "write the file and submit" in one reply does both;
//   - an action counts when it is journaled; if Confirm brings news instead, the
//     news is journaled in its place, and the model goes on with it;
//   - nothing is asked of the model before what happened so far is journaled;
//   - rejections, model calls and wall-clock cancellation are bounded;
//   - a conversation that has become too long for the model's context window is made
//     to fit before the next call, as engine/window says: old results are elided,
//     then old turns are replaced by a summary that the model writes, which is a
//     model call like any other. The journal tells of both.
//
// The order of things is: a reply is journaled, learned by the rules, judged;
// its ordinary calls are run; Confirm is asked if it was accepted; one entry with
// all that came of it is journaled and learned.
//
// A Conversation is the fold of its journal entries, and so is what the rules
// know: Run continues one that was restored exactly where it stopped, without
// asking the model again for a reply it has already given, and without asking
// the rules again about an action that was confirmed.
//
// Start with Run in loop.go, then answer.go and window.go, then Rules in rules.go.
package loop
