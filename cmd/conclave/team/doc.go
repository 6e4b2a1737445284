// Package team reads team configurations, resolves their models and keys, manages the
// default team of a data directory, checks the tools that agents need, and starts the
// workers of this process. Its command is `conclave config`. Start with team.go.
package team
