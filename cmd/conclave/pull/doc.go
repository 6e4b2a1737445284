// Package pull implements `conclave pull`, which copies a session or a pipeline's
// run from a store to a directory for people and other programs.
//
// Unlike the store, the directory has unescaped paths, real links and file modes.
// Write-once files are copied only once, so an interrupted copy can be resumed and
// an old one updated.
//
// With --verify it also compares the files with their manifests and commits.
//
// Start with Command; copySession copies and verifyDir verifies.
package pull
