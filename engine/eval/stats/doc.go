// Package stats has the statistics of an evaluation: intervals of shares, the comparison of two
// arms on the same questions, and the number of questions that a comparison needs. Start with
// McNemar in stats.go.
package stats
