// Package generate makes questions with known answers from a seed: stories with numbers,
// multiple choice, tasks on letters and words, and small functions with hidden tests.
// Start with Questions in generate.go.
package generate
