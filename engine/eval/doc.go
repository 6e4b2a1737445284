// Package eval is the pure part of an evaluation: the questions, the extraction and scoring
// of answers, the vote of samples, and the summary of all arms with its verdict.
//
// Questions have the fields of inspect_ai's Sample. Every question ends with the same sentence,
// which asks for "ANSWER: …" on the last line. Package stats has the statistics; package generate
// makes questions. Start with Question.Score in score.go, then Summarize in summary.go.
package eval
