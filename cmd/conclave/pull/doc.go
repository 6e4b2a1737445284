// Package pull copies a session, or the run of a pipeline, from a store to a
// directory for people and other programs.
//
// Unlike the store, the directory has unescaped paths, real links and file
// modes. Write-once files are copied once, so that an interrupted copy can be
// resumed and an old one brought up to date.
//
// With --verify it also compares the files with their manifests and commits.
//
// Start with Command; copySession copies, and verifyDir verifies.
package pull
