// Package record reads the directory of a session for the page and the exports. The
// directory may be in a bucket, pulled, or written in step mode. The package takes no
// decisions: where the rules of the protocol matter, it reads their results from the
// documents.
//
// A Reader caches write-once documents, so that it fetches only new ones when it reads the
// session again. Documents are untrusted. Malformed ones are left out and listed in
// Session.Problems.
//
// Start with Reader.Read in reader.go.
package record
