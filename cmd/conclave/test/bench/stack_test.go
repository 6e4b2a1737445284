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

	"conclave/activities/s3store"
	"conclave/engine/files/artifact"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// stack is an embedded stack that `conclave dev` serves, with a client.
type stack struct {
	*shell
	serves
	team     string   // the path of its file
	dev      *process // the command, with a worker in it
	client   client.Client
	sessions int
}

// serves is the part of stack.json that benchmarks use.
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
	s.team = s.file("team.yaml", m.team(deaf))
	s.dev = s.background(nil, s.serve())
	s.connect()
	s.awaitWorker(workflows.TaskQueue)
	return s
}

// serve are the arguments of the command that serves the stack.
func (s *stack) serve() []string { return []string{"dev", "--config", s.team} }

// connect waits until the stack serves.
func (s *stack) connect() {
	b := s.b
	b.Helper()
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
}

// work is the environment and the arguments of a worker on another queue, with the
// store at a URL.
func (s *stack) work(queue, store string) (env, args []string) {
	env = []string{
		"AWS_ENDPOINT_URL_S3=" + store, "AWS_REGION=" + s.S3Region,
		"AWS_ACCESS_KEY_ID=" + s.S3AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.S3SecretKey,
	}
	args = []string{
		"worker", "--address", s.TemporalAddress, "--task-queue", queue, "--bucket", s.Bucket, "--config", s.team,
	}
	return env, args
}

// store is the store of the stack, at a URL.
func (s *stack) store(b *testing.B, url string) artifact.Store {
	b.Helper()
	store, err := s3store.New(b.Context(), s3store.Options{
		Bucket: s.Bucket, Endpoint: url, Region: s.S3Region, AccessKeyID: s.S3AccessKey, SecretAccessKey: s.S3SecretKey,
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, store.Close()) })
	return store
}

// awaitWorker waits until a worker polls the task queue for workflows and that for
// steps.
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

// session runs one session and returns its duration.
func (s *stack) session(queue string) time.Duration {
	s.b.Helper()
	began := time.Now()
	s.decided(s.begin(queue, sessionflow.Input{}))
	return time.Since(began)
}

// begin starts a session.
func (s *stack) begin(queue string, in sessionflow.Input) client.WorkflowRun {
	s.b.Helper()
	s.sessions++
	in.Query = "Which of us is right?"
	run, err := s.client.ExecuteWorkflow(s.b.Context(), client.StartWorkflowOptions{ID: s.name(), TaskQueue: queue},
		sessionflow.Type, in)
	require.NoError(s.b, err)
	return run
}

// decided waits for a session, which must end with a consensus.
func (s *stack) decided(run client.WorkflowRun) {
	s.b.Helper()
	var result sessionflow.Result
	require.NoError(s.b, run.Get(s.b.Context(), &result))
	require.Equal(s.b, "consensus", result.Status)
}

// name is the workflow ID of the newest session.
func (s *stack) name() string { return fmt.Sprintf("session-%d", s.sessions) }

// describe is the description of the newest session by the server.
func (s *stack) describe() *workflowpb.WorkflowExecutionInfo {
	s.b.Helper()
	d, err := s.client.DescribeWorkflowExecution(s.b.Context(), s.name(), "")
	require.NoError(s.b, err)
	return d.GetWorkflowExecutionInfo()
}
