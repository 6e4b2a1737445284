package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/workflows/drive"
	scenarioflow "conclave/workflows/scenario"
)

func TestKind_reopens(t *testing.T) {
	t.Parallel()
	conn := &hall.Connection{CLI: &hall.CLI{Queue: drive.TaskQueue}}
	kind := Kind()
	run := runs.Run{Kind: kind, ID: "20261121-153012-k3f9", Workflow: "scenario-buy-now-20261121-153012-k3f9", Status: "fail"}
	input, err := kind.Reopen(t.Context(), conn, run, "")
	require.NoError(t, err)
	in := input.(scenarioflow.Input)
	require.Equal(t, "buy-now", in.Plan.Slug)
	require.Equal(t, run.ID, in.RunID)
	require.True(t, in.Resume)
	require.Equal(t, "conclave scenario watch DIR buy-now 20261121-153012-k3f9", kind.Follow(conn, run))
	_, err = kind.Reopen(t.Context(), conn, run, "agent_a")
	require.ErrorContains(t, err, "leave out --agent")
	require.ErrorContains(t, kind.Adapt(conn, run, &runs.Update{Action: "retry failed steps of"}), "it is still running")
	run.Status = "pass"
	_, err = kind.Reopen(t.Context(), conn, run, "")
	require.ErrorContains(t, err, "it passed; nothing was started")
}
