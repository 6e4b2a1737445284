package main

import (
	"os"
	"testing"

	"conclave/activities/sandbox"
	"conclave/activities/sandbox/attack"
)

// TestMain lets this binary be what the real one is to a sandbox: its child, and
// every part in an attack on it.
func TestMain(m *testing.M) {
	if sandbox.Child() {
		sandbox.Enter()
	}
	if len(os.Args) > 1 && os.Args[1] == attack.ChildCommand {
		os.Exit(attack.RunChild(os.Args[2:], os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}
