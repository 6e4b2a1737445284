// Package storetest specifies artifact.Store by tests. The tests of every store call Run;
// the port promises only the behaviour tested here. Start with Run in storetest.go.
package storetest
