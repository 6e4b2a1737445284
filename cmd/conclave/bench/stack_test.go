//go:build bench

package bench

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"conclave/workflows"
)

// stack is an embedded stack that `conclave dev` keeps up, and a client of it.
type stack struct {
	*shell
	serves
	dev      *process // the command, with a worker in it
	client   client.Client
	sessions int
}

// serves is the part of stack.json that is used here.
type serves struct {
	PID             int    `json:"pid"`
	TemporalAddress string `json:"temporal_address"`
	Namespace       string `json:"namespace"`
	S3Endpoint      string `json:"s3_endpoint"`
	S3Region        string `json:"s3_region"`
	S3AccessKey     string `json:"s3_access_key"`
	S3SecretKey     string `json:"s3_secret_key"`
	Bucket          string `json:"bucket"`
}

// newStack waits until the worker of the command polls.
func newStack(b *testing.B, m *modelServer) *stack {
	b.Helper()
	s := &stack{shell: newShell(b, m.setting())}
	s.dev = s.background(nil, "dev", "--config", s.file("team.yaml", m.team()))
	require.Eventually(b, func() bool {
		data, err := os.ReadFile(filepath.Join(s.home, ".local", "share", "conclave", "stack.json"))
		return err == nil && json.Unmarshal(data, &s.serves) == nil
	}, time.Minute, 20*time.Millisecond, "the stack does not start")
	var err error
	s.client, err = client.DialContext(b.Context(), client.Options{
		HostPort: s.TemporalAddress, Namespace: s.Namespace,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	require.NoError(b, err)
	b.Cleanup(s.client.Close)
	s.awaitWorker(workflows.TaskQueue)
	return s
}

// awaitWorker waits until somebody polls the task queue for workflows and the
// one of its steps.
func (s *stack) awaitWorker(queue string) {
	s.b.Helper()
	polled := func(queue string, kind enumspb.TaskQueueType) bool {
		reply, err := s.client.DescribeTaskQueue(s.b.Context(), queue, kind)
		return err == nil && len(reply.GetPollers()) > 0
	}
	require.Eventually(s.b, func() bool {
		return polled(queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW) && polled(queue+workflows.StepsSuffix, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	}, time.Minute, 20*time.Millisecond, "nobody polls %s", queue)
}

// session takes one session to its end and returns how long that took.
func (s *stack) session(queue string) time.Duration {
	s.b.Helper()
	s.sessions++
	began := time.Now()
	run, err := s.client.ExecuteWorkflow(s.b.Context(), client.StartWorkflowOptions{ID: s.name(), TaskQueue: queue},
		workflows.SessionType, workflows.SessionInput{Query: "Which of us is right?"})
	require.NoError(s.b, err)
	var result workflows.SessionResult
	require.NoError(s.b, run.Get(s.b.Context(), &result))
	took := time.Since(began)
	require.Equal(s.b, "consensus", result.Status)
	return took
}

// name is the workflow ID of the newest session.
func (s *stack) name() string { return fmt.Sprintf("session-%d", s.sessions) }

// describe is what the server knows of the newest session.
func (s *stack) describe() *workflowpb.WorkflowExecutionInfo {
	s.b.Helper()
	d, err := s.client.DescribeWorkflowExecution(s.b.Context(), s.name(), "")
	require.NoError(s.b, err)
	return d.GetWorkflowExecutionInfo()
}
