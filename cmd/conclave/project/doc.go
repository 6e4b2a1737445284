// Package project is a directory with scenarios on a person's machine: prd.md and, for each
// scenario, its definition and its runs. All access goes through an os.Root, so that no
// name or link leads out of the directory. Files are written atomically; invalid files are
// skipped with a warning.
//
// After each run, one process at a time computes the statistics in meta.yaml from the results
// on disk. Start with project.go.
package project
