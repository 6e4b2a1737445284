package sandbox_test

import (
	"fmt"
	"os"
	"testing"

	"conclave/engine/files/overlay"
)

// holder is the variable that makes this binary a worker for a test to kill.
const holder = "sandbox-holder"

// childName is the name of the sandbox's child.
const childName = "conclave-sandbox"

func TestMain(m *testing.M) {
	overlay.RunHolder()
	if os.Getenv(holder) != "" {
		hold()
	}
	if os.Args[0] == childName {
		fmt.Println("no child")
		return
	}
	os.Exit(m.Run())
}
