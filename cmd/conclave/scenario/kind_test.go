package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/workflows/drive"
	scenarioflow "conclave/workflows/scenario"
)

func TestKind_reopens(t *testing.T) {
	t.Parallel()
	conn := &hall.Connection{CLI: &hall.CLI{Queue: drive.TaskQueue}}
	kind := Kind()
	run := runs.Run{Kind: kind, ID: "20261121-153012-k3f9", Workflow: "w1", Status: "fail"}
	input, err := kind.Reopen(t.Context(), conn, run, drive.Request{})
	require.NoError(t, err)
	require.Equal(t, scenarioflow.Input{Resume: true}, input, "the worker finds the run of a workflow that was never prepared")
	slug, err := converter.GetDefaultDataConverter().ToPayload("buy-now")
	require.NoError(t, err)
	run.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{scenarioflow.MemoScenario: slug}}
	input, err = kind.Reopen(t.Context(), conn, run, drive.Request{})
	require.NoError(t, err)
	in := input.(scenarioflow.Input)
	require.Equal(t, "buy-now", in.Plan.Slug)
	require.Equal(t, run.ID, in.RunID)
	require.True(t, in.Resume)
	require.Equal(t, "conclave scenario watch DIR buy-now 20261121-153012-k3f9", kind.Follow(conn, run))
	_, err = kind.Reopen(t.Context(), conn, run, drive.Request{Agent: "agent_a"})
	require.ErrorContains(t, err, "leave out --agent")
	require.ErrorContains(t, kind.Adapt(conn, run, &runs.Update{Name: drive.RetrySignal, Action: "retry failed steps of"}), "it is still running")
	require.NoError(t, kind.Adapt(conn, run, &runs.Update{Name: drive.SaySignal}))
	require.ErrorContains(t, kind.Adapt(conn, run, &runs.Update{Name: drive.SaySignal, Agent: "a"}), "leave out --agent")
	ended := run
	ended.Closed = time.Unix(1, 0)
	require.ErrorContains(t, kind.Adapt(conn, ended, &runs.Update{Name: drive.SaySignal}), "it has ended (fail)")
	run.Status = "pass"
	_, err = kind.Reopen(t.Context(), conn, run, drive.Request{})
	require.ErrorContains(t, err, "it passed; nothing was started")
}
