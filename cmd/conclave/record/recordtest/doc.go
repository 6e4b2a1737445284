// Package recordtest writes directories of sessions for tests. A script sets the outcomes of steps;
// the core of the protocol decides everything else, as in a session run by workers. Start with New
// in play.go; scripts.go has the sessions that tests share.
package recordtest
