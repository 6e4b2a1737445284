// Package eval implements `conclave eval`. It asks the questions of a data set in several ways, called arms,
// one of which is the team, and reports whether the team is worth its tokens.
//
// Every question is a session whose ID is derived from the evaluation's ID, so repeating a
// command continues where it stopped. Outcomes are appended to samples.jsonl in the output
// directory (output.go), and all reports are computed from them (print.go, html.go).
//
// plan.go has the commands and checks the input, meter.go runs an evaluation, unit.go has the arms
// of one question, session.go runs the session of a question and scores its answers, and
// material.go stores the files of questions. replay.go has the commands for recorded answers. Start with runEvaluation in meter.go.
package eval
