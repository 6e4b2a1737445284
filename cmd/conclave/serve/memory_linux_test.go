package serve

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const table = `00400000-03c4b000 r-xp 00000000 fe:00 1                            /usr/bin/conclave
Rss:               33260 kB
Anonymous:             0 kB
VmFlags: rd ex
03c4b000-08212000 r--p 0384b000 fe:00 1                            /usr/bin/conclave
Anonymous:             0 kB
08212000-08412000 r--p 07e12000 fe:00 1                            /usr/bin/conclave
Anonymous:             4 kB
08412000-08612000 rw-p 08012000 fe:00 1                            /usr/bin/conclave
Anonymous:             0 kB
08612000-0a7bb000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7fe0bac1b000-7fe0bad71000 r-xp 00026000 fe:00 2                    /usr/lib/libc.so.6
Anonymous:             0 kB
`

// Only those pages of the program are released that can be read again.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	require.Equal(t, []mapping{{0x400000, 0x3c4b000}, {0x3c4b000, 0x8212000}}, unchanged(table, "/usr/bin/conclave"))
	require.Empty(t, unchanged(table, "conclave"))
	require.Empty(t, unchanged("", "/usr/bin/conclave"))
}

// residentFiles returns the resident memory of this process that is backed by files, in KiB.
func residentFiles(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "RssFile:")
	if !found {
		t.Skip("this kernel does not count the pages of files apart")
	}
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return n
}

// The test is not parallel: other tests would map pages again.
func TestDropProgram(t *testing.T) {
	before := residentFiles(t)
	dropProgram()
	require.Less(t, residentFiles(t), before)
}
