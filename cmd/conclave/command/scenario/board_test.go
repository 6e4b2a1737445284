package scenario

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
)

// A note that concerns several runs is printed once, and again after a worker has answered.
func TestLane_note(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := newBoard(&cli.CLI{Stderr: &out})
	buy, leave := b.newLane("buy"), b.newLane("leave")
	buy.Note("nobody polls")
	leave.Note("nobody polls")
	buy.Show(cli.Snapshot{})
	leave.Note("nobody polls")
	require.Equal(t, "nobody polls\nnobody polls\n", out.String())
	out.Reset()
	newBoard(&cli.CLI{Automation: true, Stdout: &out}).newLane("buy").Note("on stdout")
	require.Equal(t, "on stdout\n", out.String())
}
