// Package pull copies a session, or the run of a pipeline, from a store to a
// directory, where people read it and other programs continue it.
//
// Unlike the store, the directory has unescaped paths, real links and file
// modes. Write-once files are copied once, so that an interrupted copy can be
// resumed and an old one brought up to date.
//
// With --verify it also checks that such a directory agrees with itself.
//
// Start with Command; copySession copies, and verifyDir verifies.
package pull
