// Package project is a directory with scenarios on a person's machine: prd.md and, for each
// scenario, its definition and its runs. All access goes through an os.Root: no name and no
// link leads out of it. Files appear whole; invalid files are left out with a warning.
//
// The statistics in meta.yaml are folded from the results on disk, by one process at a time,
// after each run. Start with project.go.
package project
