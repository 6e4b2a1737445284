// Package window keeps a conversation within the context window of its model.
//
// It estimates how large a conversation is (size.go), says what is to be done
// next so that it fits (plan.go), and does it: Elide takes the bulk out of old
// tool results (elide.go), Compact puts a summary in the place of old turns
// (compact.go), for which SummaryRequest is what a model is asked (summary.go).
// Nothing is ever left out silently: where something was, it says so.
//
// A conversation consists of what is fixed (how it began, and what was told
// since: answers of others, words of people), which stays as it is, and of
// turns: a reply of the model with everything that came of it. Turns are kept or
// replaced as a whole, so that every tool call keeps its result.
//
// Everything here is a pure function of its arguments. Who calls the model, and
// journals what was done, is engine/loop.
//
// Start with Next in plan.go.
package window
