package outputs

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
)

// The files of a scenario's run are its evidence, which changes nothing.
func TestScenario(t *testing.T) {
	t.Parallel()
	dir, _ := stage.Scenario(t)
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	var out bytes.Buffer
	conn := &cli.Connection{Store: store, CLI: &cli.CLI{Stdout: &out, Stderr: &out}}
	for _, id := range []string{"sign-in/r1", "r1"} {
		f, err := findAnswer(t.Context(), conn, id, "")
		require.NoError(t, err)
		out.Reset()
		require.NoError(t, printList(conn, f, f.filesBelow("step-02")))
		require.Equal(t, "100644  18 bytes  step-02/evidence/console.log\n100644  3 bytes   step-02/evidence/trace.zip\n", out.String())
		require.Len(t, f.filesBelow(""), 3)
	}
	f, err := findAnswer(t.Context(), conn, "r1", "")
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, printFile(t.Context(), conn, f, "step-02/evidence/console.log"))
	require.Equal(t, "POST /sign-in 500\n", out.String())
	require.ErrorContains(t, printFile(t.Context(), conn, f, "secret.txt"), "scenario run sign-in/r1 has no file secret.txt; it has step-01/")
	_, err = f.readChanges(t.Context())
	require.EqualError(t, err, "scenario run sign-in/r1 changes no files; `conclave files sign-in/r1` lists its evidence")
	_, err = findAnswer(t.Context(), conn, "r1", "agent1.1")
	require.EqualError(t, err, "scenario run sign-in/r1 has evidence and no answers; leave out agent1.1")
}
