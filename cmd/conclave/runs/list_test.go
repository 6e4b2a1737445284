package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"conclave/workflows/drive"
)

func TestAListSaysWhoIsWaitedFor(t *testing.T) {
	t.Parallel()
	info := func(status string) *workflowpb.WorkflowExecutionInfo {
		return &workflowpb.WorkflowExecutionInfo{Memo: memoOf(t, map[string]any{drive.MemoStatus: status})}
	}
	require.Equal(t, "paused", waitingOf(info(drive.Paused)))
	require.Equal(t, "parked", waitingOf(info(drive.Parked)))
	require.Empty(t, waitingOf(info(drive.Running)))
	require.Empty(t, waitingOf(&workflowpb.WorkflowExecutionInfo{}))

	terminated := info(drive.Parked)
	terminated.CloseTime = timestamppb.New(time.Unix(1, 0))
	require.Empty(t, waitingOf(terminated), "what was ended from outside waits for nobody")
}
