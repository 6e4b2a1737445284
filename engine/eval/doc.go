// Package eval is the pure part of an evaluation: the questions, the extraction and scoring
// of answers, the vote of samples, and the summary of all arms with its verdict.
//
// Questions have the fields of inspect_ai's Sample. Every question ends with the same sentence,
// which asks for "ANSWER: …" on the last line.
//
//   - question.go reads questions; stories.go makes some with known answers from a seed: stories with
//     numbers, multiple choice, tasks on letters and words, and small functions with hidden tests.
//   - score.go extracts and scores answers; condition.go has the grades of a model.
//   - summary.go compares the arms, verdict.go says whether the team is worth its cost.
//   - recorded.go reads answers that were recorded, replay.go plays sessions with them by the rules of
//     the core, and advice.go summarizes these and advises.
//   - stats.go has the statistics: intervals of shares, the comparison of two arms on the
//     same questions, and the number of questions that a comparison needs.
//
// Start with Question.Score in score.go, then Summarize in summary.go.
package eval
