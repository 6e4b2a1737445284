package sandbox

import (
	"testing"

	"conclave/cmd/conclave/hall/halltest"
)

// newShell is a shell with the commands of this package.
func newShell(t *testing.T) halltest.Shell {
	t.Helper()
	return halltest.New(t, Commands)
}
