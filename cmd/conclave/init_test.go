package main

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The child of a sandbox runs before most packages of the program are initialized,
// because each sandboxed command pays for the packages before it.
func TestSandboxChild_initialisedEarly(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the sandbox needs Linux")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	var before, all int
	for _, line := range regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(string(out), -1) {
		if line[1] == "conclave/activities/sandbox" {
			before = all
		}
		bytes, err := strconv.Atoi(line[2])
		require.NoError(t, err)
		all += bytes
	}
	require.NotZero(t, before)
	require.Less(t, 100*before/all, 15, "per cent of the memory that packages take; see what package sandbox imports")
}
