package sandbox

import (
	"os"
	"testing"

	"conclave/activities/sandbox/attack"
)

// TestMain lets this binary act as the child processes of attacks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == attack.ChildCommand {
		os.Exit(attack.RunChild(os.Args[2:], os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}
