// Package window keeps a conversation within the context window of its model.
//
// It estimates the size of a conversation (size.go), plans the next step to shorten it
// (plan.go) and applies it: Elide removes the bulk of old tool results, Compact replaces old
// turns by a summary (elide.go) that SummaryRequest asks a model for (summary.go). A
// placeholder marks everything left out.
//
// A conversation consists of fixed messages (the opening, and later answers of others and
// words of people), which stay as they are, and of turns: a reply of the model with its
// results. Turns are kept or replaced as a whole, so that every tool call keeps its
// result.
//
// Everything here is a pure function of its arguments. engine/loop calls the model and
// journals the changes.
//
// Start with Next in plan.go.
package window
