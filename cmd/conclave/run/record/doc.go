// Package record reads the runs in a store: sessions and the runs of pipelines and scenarios. Kind
// has the places of their files, Find returns the run with an ID, and Run lists its steps and
// outputs. A Reader reads all documents of a run for the pages and the exports; the directory may
// also be pulled, or written in step mode. The package takes no decisions: where the rules of the
// protocol matter, it reads their results from the documents.
//
// A Reader caches write-once documents, so that it fetches only new ones when it reads a run again.
// Documents are untrusted. Malformed ones are left out and listed in Session.Problems.
//
// Start with Find in run.go, then Reader.Read in reader.go.
package record
