// Package project manages a local directory of scenarios. It contains prd.md and, for each
// scenario, its definition and its runs. All access uses an os.Root, so no name or link leads
// out of the directory. Files are written atomically; invalid files are skipped with a
// warning.
//
// After each run the statistics in meta.yaml are computed from the results on disk, by one
// process at a time. Start with project.go.
package project
