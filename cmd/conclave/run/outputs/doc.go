// Package outputs implements the commands files, diff and apply, which list an answer's files,
// show them as a patch and put them into a directory. For a pipeline's run they use the files
// after a step instead of those of an answer; the files of a scenario's run are its evidence. The
// commands read the store and never run a step.
//
// Start with findAnswer in answer.go, then the command's own file.
package outputs
