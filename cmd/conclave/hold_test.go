package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"conclave/cmd/conclave/progress"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

func TestAHeldSessionNamesTheCommandThatReleasesIt(t *testing.T) {
	t.Parallel()
	c := &cli{queue: drive.TaskQueue, dataDir: "/data"}
	running := sessionflow.State{Status: drive.Running}
	require.Empty(t, c.holds(running, "s1"))

	paused := running
	paused.Paused = true
	require.Equal(t, []progress.Hold{{Why: "paused by a person", Release: "`conclave resume s1 --data-dir /data` goes on"}}, c.holds(paused, "s1"))

	parked := paused
	parked.Parked = new("retry, finish or cancel: agent_b failed, Overloaded: no capacity")
	require.Equal(t, []progress.Hold{
		{Why: "paused by a person", Release: "`conclave resume s1 --data-dir /data` goes on"},
		{
			Why:     "parked: retry, finish or cancel: agent_b failed, Overloaded: no capacity",
			Release: "`conclave retry s1 --data-dir /data` runs what failed again, finish decides without it",
		},
	}, c.holds(parked, "s1"))

	ended := parked
	ended.Status = "cancelled"
	require.Empty(t, c.holds(ended, "s1"), "an end needs no release")
}

func TestARevoteIsOneOfThePresentRound(t *testing.T) {
	t.Parallel()
	state := sessionflow.State{Status: drive.Running, View: coordination.View{Round: 3}}
	events := []coordination.Entry{{Kind: coordination.EntryRound, Round: 3}, {Kind: coordination.EntryRevote, Round: 2}}
	require.False(t, revote(state, events))
	events = append(events, coordination.Entry{Kind: coordination.EntryRevote, Round: 3})
	require.True(t, revote(state, events))
	state.Status = "plurality"
	require.False(t, revote(state, events))
}

func TestAListSaysWhoIsWaitedFor(t *testing.T) {
	t.Parallel()
	info := func(status string) *workflowpb.WorkflowExecutionInfo {
		return &workflowpb.WorkflowExecutionInfo{Memo: memoOf(t, map[string]any{drive.MemoStatus: status})}
	}
	require.Equal(t, "paused", heldOf(info(drive.Paused)))
	require.Equal(t, "parked", heldOf(info(drive.Parked)))
	require.Empty(t, heldOf(info(drive.Running)))
	require.Empty(t, heldOf(&workflowpb.WorkflowExecutionInfo{}))

	terminated := info(drive.Parked)
	terminated.CloseTime = timestamppb.New(time.Unix(1, 0))
	require.Empty(t, heldOf(terminated), "what was ended from outside waits for nobody")
}
