// Package massgen translates the team configurations of MassGen into those of conclave.
//
// Every key of a configuration is either carried over, under its own name or another, or named in a note with
// the reason: table.go says which, and Import in import.go applies it. backend.go and server.go have the
// translations that are more than a new name; kinds.go is the table of model services. The end of table.go removes
// optional values that this version of conclave refuses, so that the translation is valid.
//
// The package reads no files and no environment.
package massgen
