package sandbox

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The spec may end exactly at the end of one of the child's reads, which is not the end of the worker.
func TestSpec_ofAnyLength(t *testing.T) {
	t.Parallel()
	host := Probe(t.Context())
	for _, level := range []Level{Full, Landlock} {
		s, err := Open(Options{Workspace: t.TempDir(), Temp: t.TempDir(), Level: level, Host: host})
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		command := Command{Args: []string{"/bin/true", ""}}
		least, err := json.Marshal(s.childSpec(command, nil))
		require.NoError(t, err)
		for _, length := range []int{1536, 3584, 4096, 7680, 8192, 15872} { // where a decoder's buffer, or a page, is full
			for off := -1; off <= 1; off++ {
				command.Args[1] = strings.Repeat("x", max(0, length-len(least)+off))
				exit, err := s.Run(t.Context(), command)
				require.NoError(t, err, "%s, %d bytes", level, length+off)
				require.Zero(t, exit.Code)
			}
		}
	}
}

// The kernel's limit on processes covers all processes of the user outside of a user namespace; the sandbox
// must not set it there.
func TestSpec_kernelLimitOnlyWithSeparateCounts(t *testing.T) {
	t.Parallel()
	limits := Limits{Processes: 10}
	for _, test := range []struct {
		level          Level
		landlock, user int
		group          bool
		kernel, ask    bool
	}{
		{level: Full, landlock: 7, user: 1000, kernel: true},
		{level: Full, landlock: 7, user: 1000, group: true, kernel: true},
		{level: Full, landlock: 1, user: 1000, ask: true},
		{level: Full, landlock: 7, user: 0, ask: true},
		{level: Landlock, landlock: 7, user: 1000, ask: true},
		{level: Landlock, landlock: 7, user: 1000, group: true},
	} {
		s := &Sandbox{options: Options{Level: test.level, Limits: limits, Host: Host{Landlock: test.landlock}}, host: hostState{outer: test.user}}
		sp := s.childSpec(Command{}, nil)
		sp.AskThreads = sp.AskThreads && !test.group // as confinedRun.group does
		_, kernel := sp.forkLimits()[unix.RLIMIT_NPROC]
		require.Equal(t, test.kernel, kernel, "%+v", test)
		require.Equal(t, test.ask, sp.AskThreads, "%+v", test)
	}
}
