// Package project is a directory with scenarios on a person's machine: prd.md and,
// for each scenario, its definition and its runs, in the layout of the contract.
// It reads and writes files and copies runs from the store. It starts nothing and
// knows no Temporal; what a scenario is, package scenario says.
//
// Everything goes through an os.Root of the directory: no name and no link in it
// leads out of it. Files appear whole. What others may have written, results above
// all, is checked and then believed or left out with a warning.
//
// The statistics in a scenario's meta.yaml are folded from the results in its
// folder, by one process at a time, each time a run is over: of runs that end at
// the same moment none is lost. Start with project.go; copy.go brings a run from
// the store.
package project
