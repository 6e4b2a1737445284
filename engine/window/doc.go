// Package window keeps a conversation within the context window of its model.
//
// A History estimates its size (size.go), plans the next step to shorten it (plan.go) and
// takes it: Elide removes the bulk of old tool results, Compact replaces old turns by a
// summary (elide.go) that SummaryRequest asks a model for (summary.go). Placeholders stand
// for everything removed.
//
// A history consists of fixed messages (the opening, peers' answers and human messages) and
// of turns: a reply of the model with its results. Turns are kept or replaced as a whole, so
// that every tool call keeps its result. engine/loop calls the model and journals the steps.
//
// Start with Next in plan.go.
package window
