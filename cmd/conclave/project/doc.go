// Package project is a directory with scenarios on a person's machine: prd.md and,
// for each scenario, its definition and its runs, in the layout of the contract.
//
// All access goes through an os.Root of the directory: no name and no link leads out
// of it. Files appear whole. Files of others, results above all, are checked, and
// invalid ones are left out with a warning.
//
// The statistics in meta.yaml are folded from the results on disk, by one process at
// a time, after each run. Start with project.go.
package project
