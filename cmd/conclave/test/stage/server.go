package stage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"conclave/cmd/conclave/cli"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

// Execution is a workflow on a Server. Tests set its fields before clients read them.
type Execution struct {
	ID, Type string
	Memo     map[string]any
	Started  time.Time
	Input    any
	Queue    string // empty for the default one

	State any // the answer to queries; nil if no worker answers

	// Status is set when the workflow ends, together with Result or Err.
	Status enumspb.WorkflowExecutionStatus
	Result any
	Err    error
	Last   *historypb.HistoryEvent // nil for none

	Pending  []*workflowpb.PendingActivityInfo
	Children []string

	ended chan struct{}
}

// End ends the workflow with a result or an error.
func (e *Execution) End(status enumspb.WorkflowExecutionStatus, result any, err error) {
	e.Status, e.Result, e.Err = status, result, err
	close(e.ended)
}

// Server simulates a Temporal server in memory behind the interface of its client.
type Server struct {
	client.Client

	// Starts is called with each new workflow and may end it. If it fails, the start is refused.
	Starts func(*Execution) error
	// Updates answers updates. If it is nil, all are accepted.
	Updates func(id, name string, payload any) (reply any, err error)
	// Down, unless nil, is the error of every call.
	Down error
	// NoWorker makes task queues have no poller.
	NoWorker bool

	mu  sync.Mutex
	all []*Execution
}

// Connect returns a connection to the server as if it were a cluster's, with a bucket if
// store is not nil. It also returns the buffers with the command's output and messages.
func (s *Server) Connect(store artifact.Store) (conn *cli.Connection, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	c := &cli.CLI{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Address: "h:7233", Queue: workflows.TaskQueue}
	target := cli.Target{Cluster: true}
	target.Options.HostPort, target.Options.Namespace = "h:7233", "default"
	return &cli.Connection{CLI: c, Target: target, Client: s, Store: store}, stdout, stderr
}

// Add adds a workflow.
func (s *Server) Add(e *Execution) *Execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.ended = make(chan struct{})
	if e.Status == 0 {
		e.Status = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	}
	if e.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		close(e.ended)
	}
	s.all = append(s.all, e)
	return e
}

// Find returns the newest workflow with an ID, or nil.
func (s *Server) Find(id string) *Execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(s.all) {
		if e.ID == id {
			return e
		}
	}
	return nil
}

func (s *Server) findExecution(id string) (*Execution, error) {
	if s.Down != nil {
		return nil, s.Down
	}
	if e := s.Find(id); e != nil {
		return e, nil
	}
	return nil, serviceerror.NewNotFound("workflow not found for ID: " + id)
}

// ExecuteWorkflow implements client.Client.
func (s *Server) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, kind any, args ...any) (client.WorkflowRun, error) {
	if s.Down != nil {
		return nil, s.Down
	}
	if before := s.Find(o.ID); before != nil &&
		(before.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || o.WorkflowIDReusePolicy == enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE) {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", "r")
	}
	e := &Execution{ID: o.ID, Type: kind.(string), Memo: o.Memo, Started: time.Now(), Queue: o.TaskQueue}
	if len(args) > 0 {
		e.Input = args[0]
	}
	s.Add(e)
	if s.Starts != nil {
		if err := s.Starts(e); err != nil {
			return nil, err
		}
	}
	return awaited{execution: e}, nil
}

// awaited is a workflow run that a client waits for.
type awaited struct {
	client.WorkflowRun
	execution *Execution
	err       error
}

func (a awaited) Get(ctx context.Context, into any) error {
	if a.err != nil {
		return a.err
	}
	select {
	case <-a.execution.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.execution.Err != nil {
		return a.execution.Err
	}
	return encodeValue(a.execution.Result).Get(into)
}

// GetWorkflow implements client.Client.
func (s *Server) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	e, err := s.findExecution(id)
	return awaited{execution: e, err: err}
}

// encoded is a value in its encoding for the server.
type encoded struct{ payloads *commonpb.Payloads }

func encodeValue(v any) encoded {
	payloads, _ := converter.GetDefaultDataConverter().ToPayloads(v) // values of a test can be encoded
	return encoded{payloads}
}

func (e encoded) HasValue() bool { return e.payloads != nil }

func (e encoded) Get(into any) error {
	if into == nil {
		return nil
	}
	return converter.GetDefaultDataConverter().FromPayloads(e.payloads, into)
}

// QueryWorkflow implements client.Client.
func (s *Server) QueryWorkflow(ctx context.Context, id, _, _ string, _ ...any) (converter.EncodedValue, error) {
	e, err := s.findExecution(id)
	switch {
	case err != nil:
		return nil, err
	case e.State == nil:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return encodeValue(e.State), nil
}

// UpdateWorkflow implements client.Client.
func (s *Server) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	e, err := s.findExecution(o.WorkflowID)
	if err != nil {
		return nil, err
	}
	if e.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, serviceerror.NewNotFound("workflow execution already completed")
	}
	h := updated{}
	if s.Updates != nil {
		var payload any
		if len(o.Args) > 0 {
			payload = o.Args[0]
		}
		h.reply, h.err = s.Updates(o.WorkflowID, o.UpdateName, payload)
	}
	return h, nil
}

type updated struct {
	client.WorkflowUpdateHandle
	reply any
	err   error
}

func (u updated) Get(_ context.Context, into any) error {
	if u.err != nil {
		return u.err
	}
	return encodeValue(u.reply).Get(into)
}

// CancelWorkflow implements client.Client. It ends the workflow at once.
func (s *Server) CancelWorkflow(_ context.Context, id, _ string) error {
	e, err := s.findExecution(id)
	if err != nil {
		return err
	}
	if e.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	e.End(enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, nil, e.Err)
	return nil
}

func (e *Execution) executionInfo() *workflowpb.WorkflowExecutionInfo {
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: e.ID, RunId: "r-" + e.ID}, Type: &commonpb.WorkflowType{Name: e.Type}, Status: e.Status,
		StartTime: timestamppb.New(e.Started), TaskQueue: cmp.Or(e.Queue, workflows.TaskQueue), Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{}},
	}
	for name, v := range e.Memo {
		info.Memo.Fields[name] = encodeValue(v).payloads.GetPayloads()[0]
	}
	if e.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		info.CloseTime = timestamppb.New(e.Started.Add(time.Minute))
	}
	return info
}

// DescribeWorkflowExecution implements client.Client.
func (s *Server) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	e, err := s.findExecution(id)
	if err != nil {
		return nil, err
	}
	reply := &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: e.executionInfo(), PendingActivities: e.Pending}
	for _, child := range e.Children {
		reply.PendingChildren = append(reply.PendingChildren, &workflowpb.PendingChildExecutionInfo{WorkflowId: child})
	}
	return reply, nil
}

// ListWorkflow implements client.Client. It lists the workflows whose type or ID the query
// names.
func (s *Server) ListWorkflow(_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if s.Down != nil {
		return nil, s.Down
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, e := range s.all {
		_, since, _ := strings.Cut(request.GetQuery(), "StartTime >= '")
		since, _, _ = strings.Cut(since, "'")
		from, _ := time.Parse(time.RFC3339, since) // zero without a bound
		named := strings.Contains(request.GetQuery(), "'"+e.Type+"'") || request.GetQuery() == "WorkflowId = '"+e.ID+"'"
		if named && !e.Started.Before(from) {
			reply.Executions = append(reply.Executions, e.executionInfo())
		}
	}
	return reply, nil
}

// DescribeTaskQueue implements client.Client.
func (s *Server) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	reply := &workflowservice.DescribeTaskQueueResponse{}
	if !s.NoWorker {
		reply.Pollers = []*taskqueuepb.PollerInfo{{Identity: "7@vm", LastAccessTime: timestamppb.Now()}}
	}
	return reply, s.Down
}

// WorkflowService implements client.Client.
func (s *Server) WorkflowService() workflowservice.WorkflowServiceClient { return service{server: s} }

type service struct {
	workflowservice.WorkflowServiceClient
	server *Server
}

func (s service) GetWorkflowExecutionHistoryReverse(_ context.Context, in *workflowservice.GetWorkflowExecutionHistoryReverseRequest, _ ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryReverseResponse, error) {
	e, err := s.server.findExecution(in.GetExecution().GetWorkflowId())
	switch {
	case err != nil:
		return nil, err
	case e.Last == nil:
		return nil, errors.New("the history is gone")
	}
	return &workflowservice.GetWorkflowExecutionHistoryReverseResponse{History: &historypb.History{Events: []*historypb.HistoryEvent{e.Last}}}, nil
}

func (s service) DeleteWorkflowExecution(_ context.Context, in *workflowservice.DeleteWorkflowExecutionRequest, _ ...grpc.CallOption) (*workflowservice.DeleteWorkflowExecutionResponse, error) {
	e, err := s.server.findExecution(in.GetWorkflowExecution().GetWorkflowId())
	if err != nil {
		return nil, err
	}
	if in.GetWorkflowExecution().GetRunId() != e.executionInfo().GetExecution().GetRunId() || e.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, serviceerror.NewInvalidArgument("a delete names a closed run")
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.all = slices.DeleteFunc(s.server.all, func(other *Execution) bool { return other == e })
	return &workflowservice.DeleteWorkflowExecutionResponse{}, nil
}

// Terminated returns the last event of a workflow that a person terminated.
func Terminated(identity, reason string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{
		EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
			WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Identity: identity, Reason: reason},
		},
	}
}

// sent is the error of a failed workflow whose cause was encoded and decoded.
type sent struct {
	*temporal.WorkflowExecutionError
	cause error
}

func (s sent) Unwrap() []error { return []error{s.cause, s.WorkflowExecutionError} }

// Failed returns the error that a client receives when a workflow fails with err.
func Failed(t *testing.T, err error) error {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(workflow.Context) error { return err })
	require.Error(t, env.GetWorkflowError())
	failures := temporal.GetDefaultFailureConverter() // this converter encodes the details
	var wrapped *temporal.WorkflowExecutionError
	require.ErrorAs(t, env.GetWorkflowError(), &wrapped)
	cause := failures.FailureToError(failures.ErrorToFailure(errors.Unwrap(wrapped)))
	return sent{wrapped, cause}
}
