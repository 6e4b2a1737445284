package sandbox_test

import (
	"fmt"
	"os"
	"testing"
)

// holder is the name under which the tests start themselves as a worker that is to be killed.
const holder = "sandbox-holder"

// childName is what the sandbox calls its child.
const childName = "conclave-sandbox"

func TestMain(m *testing.M) {
	if os.Getenv(holder) != "" {
		hold()
	}
	if os.Args[0] == childName {
		fmt.Println("no child")
		return
	}
	os.Exit(m.Run())
}
