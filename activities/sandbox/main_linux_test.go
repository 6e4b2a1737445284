package sandbox_test

import (
	"os"
	"testing"

	"conclave/activities/sandbox"
)

// holder is the name under which the tests start themselves as a worker that is to be killed.
const holder = "sandbox-holder"

func TestMain(m *testing.M) {
	if sandbox.Child() {
		sandbox.Enter()
	}
	if os.Getenv(holder) != "" {
		hold()
	}
	os.Exit(m.Run())
}
