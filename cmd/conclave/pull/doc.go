// Package pull copies a session, or the run of a pipeline, out of a store into a
// directory of its own, where people read it and other programs continue it.
//
// It is not a store: links and file modes, which a store keeps in manifests,
// are real there, and paths are unescaped. What is written once is copied once,
// so that a copy can be interrupted, resumed and brought up to date.
//
// Verify, which needs no store, tells whether such a directory agrees with
// itself.
//
// Start with Session, and with Verify in verify.go.
package pull
