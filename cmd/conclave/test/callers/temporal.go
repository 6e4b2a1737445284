package callers

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	hall "conclave/cmd/conclave/cli"
	"conclave/engine/files/artifact"
	sessionflow "conclave/workflows/session"
)

// Temporal is a client of a simulated server with sessions. Methods that it does not
// override panic.
type Temporal struct {
	client.Client
	Store *artifact.Dir

	mu       sync.Mutex
	away     error
	leaves   chan struct{} // closed when it leaves
	sessions map[string]*Session
	begun    chan *Session
	queries  map[string]int
	waits    int
}

// New returns a server without sessions, and an empty store.
func New(t *testing.T) *Temporal {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	const most = 100 // sessions of a test
	return &Temporal{Store: store, leaves: make(chan struct{}), sessions: map[string]*Session{}, queries: map[string]int{}, begun: make(chan *Session, most)}
}

// Desk returns a desk for the teams default and reviewers. Several desks may share a
// server, like several processes behind one address.
func (s *Temporal) Desk(t *testing.T) *gateway.Desk {
	t.Helper()
	teams := []gateway.Team{gateway.WorkersTeam("default"), gateway.WorkersTeam("reviewers")}
	return gateway.New(s.Connection(t), teams, "127.0.0.1:8333")
}

// Connection returns a connection to the server as if it were a cluster's.
func (s *Temporal) Connection(t *testing.T) *hall.Connection {
	t.Helper()
	cli := &hall.CLI{Stdout: t.Output(), Stderr: t.Output(), DataDir: t.TempDir(), Queue: "conclave"}
	return &hall.Connection{CLI: cli, Target: hall.Target{Cluster: true}, Client: s, Store: s.Store}
}

// Leave makes every request fail with an error, including waiting ones. Leave(nil) makes the server
// available again.
func (s *Temporal) Leave(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away = err; err != nil {
		close(s.leaves)
		s.leaves = make(chan struct{})
	}
}

// CheckHealth fails while the server is away.
func (s *Temporal) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &client.CheckHealthResponse{}, s.away
}

func (s *Temporal) leavingChannel() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaves
}

// Begun waits for the next session that a desk starts.
func (s *Temporal) Begun(t *testing.T) *Session {
	t.Helper()
	select {
	case begun := <-s.begun:
		return begun
	case <-t.Context().Done():
		require.Fail(t, "no session was started")
		return nil
	}
}

// Count returns the number of sessions that were started.
func (s *Temporal) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Asked returns the number of queries of a type.
func (s *Temporal) Asked(query string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries[query]
}

// Waits returns the number of requests for the end of a session.
func (s *Temporal) Waits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits
}

// ExecuteWorkflow starts a session unless its ID is taken.
func (s *Temporal) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, kind any, args ...any) (client.WorkflowRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case s.away != nil:
		return nil, s.away
	case s.sessions[o.ID] != nil:
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("taken", "", "")
	}
	memo, err := encodeMemo(o.Memo)
	if err != nil {
		return nil, err
	}
	begun := &Session{ID: o.ID, Kind: kind.(string), Input: args[0].(sessionflow.Input), server: s, memo: memo, ended: make(chan struct{})}
	begun.state.SessionID, begun.state.Query = o.ID, begun.Input.Query
	s.sessions[o.ID] = begun
	s.begun <- begun
	return begun.asRun(), nil
}

func (s *Temporal) findSession(id string) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return nil, s.away
	}
	found := s.sessions[id]
	if found == nil {
		return nil, serviceerror.NewNotFound("no workflow " + id)
	}
	return found, nil
}

// DescribeWorkflowExecution describes a session.
func (s *Temporal) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	found, err := s.findSession(id)
	if err != nil {
		return nil, err
	}
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Type: &commonpb.WorkflowType{Name: found.Kind},
		Memo: found.memo, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}
	if found.hasEnded() {
		info.Status, info.CloseTime = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, timestamppb.Now()
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
}

// QueryWorkflow answers the queries state and timeline.
func (s *Temporal) QueryWorkflow(_ context.Context, id, _, query string, _ ...any) (converter.EncodedValue, error) {
	s.mu.Lock()
	s.queries[query]++
	s.mu.Unlock()
	found, err := s.findSession(id)
	if err != nil {
		return nil, err
	}
	data, err := found.answerQuery(query)
	if err != nil {
		return nil, err
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(json.RawMessage(data))
	return client.NewValue(payloads), err
}

// UpdateWorkflow records an update, which the session accepts unless it refuses all.
func (s *Temporal) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	found, err := s.findSession(o.WorkflowID)
	if err != nil {
		return nil, err
	}
	return found.acceptUpdate(o)
}

// GetWorkflow returns the run of a session, which may not exist.
func (s *Temporal) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	s.mu.Lock()
	s.waits++
	s.mu.Unlock()
	found, err := s.findSession(id)
	if err != nil {
		return workflowRun{id: id, err: err}
	}
	return found.asRun()
}

func encodeMemo(fields map[string]any) (*commonpb.Memo, error) {
	memo := &commonpb.Memo{Fields: map[string]*commonpb.Payload{}}
	for name, value := range fields {
		payload, err := converter.GetDefaultDataConverter().ToPayload(value)
		if err != nil {
			return nil, err
		}
		memo.Fields[name] = payload
	}
	return memo, nil
}

// Alice is a caller whose key is limited to the team reviewers.
var Alice = access.Caller{Name: "alice", Teams: []string{"reviewers"}}

// Gate returns a handler behind a gate that admits the caller, and the caller's key.
func Gate(t *testing.T, by access.Caller, next http.Handler) (handler http.Handler, key string) {
	t.Helper()
	key, line := access.NewKey(by)
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(line+"\n"), 0o600))
	keys, err := access.LoadKeys(file)
	require.NoError(t, err)
	gate, err := access.New("127.0.0.1:0", keys)
	require.NoError(t, err)
	return gate.Handler(next), key
}
