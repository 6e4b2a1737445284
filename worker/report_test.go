package worker

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"

	"conclave/activities"
)

// temporalServer is Temporal as a client of it sees activities that end.
type rosterServer struct {
	client.Client

	mu             sync.Mutex
	failures       map[string]error // of a completion, by token
	details        map[string]any   // of heartbeats, by activity ID
	unknown        bool             // no run can be described
	reset          []string         // run IDs whose sticky queue was reset
	asked          []string         // run IDs that were described
	reports        map[string]*lost // by token
	calls          int              // completions
	inFlight, most int              // completions at a time
}

type lost struct {
	kind    string
	delay   time.Duration
	benign  bool
	details json.RawMessage
	final   bool
}

func (s *rosterServer) WorkflowService() workflowservice.WorkflowServiceClient {
	return service{server: s}
}

type service struct {
	workflowservice.WorkflowServiceClient
	server *rosterServer
}

func (s service) ResetStickyTaskQueue(_ context.Context, in *workflowservice.ResetStickyTaskQueueRequest, _ ...grpc.CallOption) (*workflowservice.ResetStickyTaskQueueResponse, error) {
	s.server.reset = append(s.server.reset, in.GetExecution().GetRunId())
	return nil, errors.New("no such queue") // it helps, but is not needed
}

func (s *rosterServer) DescribeWorkflowExecution(_ context.Context, _, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.asked = append(s.asked, run)
	if s.unknown {
		return nil, serviceerror.NewNotFound("no such run")
	}
	reply := &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{{ActivityId: "agent_z-l9"}}}
	for id, details := range s.details {
		payloads, err := converter.GetDefaultDataConverter().ToPayloads(details)
		if err != nil {
			return nil, err
		}
		reply.PendingActivities = append(reply.PendingActivities, &workflowpb.PendingActivityInfo{ActivityId: id, HeartbeatDetails: payloads})
	}
	return reply, nil
}

func (s *rosterServer) CompleteActivityByID(ctx context.Context, namespace, workflowID, runID, activityID string, _ any, err error) error {
	return s.CompleteActivity(ctx, []byte(strings.Join([]string{namespace, workflowID, runID, activityID}, "/")), nil, err)
}

func (s *rosterServer) CompleteActivity(_ context.Context, token []byte, _ any, err error) error {
	s.mu.Lock()
	s.calls++
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	s.mu.Unlock()
	time.Sleep(time.Millisecond) // the way to the server and back, in the bubble of a test
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	application, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return errors.New("a task is reported as failed")
	}
	l := &lost{
		kind: application.Type(), delay: application.NextRetryDelay(), final: application.NonRetryable(),
		benign: application.Category() == temporal.ApplicationErrorCategoryBenign,
	}
	if application.HasDetails() {
		if err := application.Details(&l.details); err != nil {
			return err
		}
	}
	if s.reports == nil {
		s.reports = map[string]*lost{}
	}
	s.reports[string(token)] = l
	return s.failures[string(token)]
}

// A lost task fails with a retryable error and the details of its last heartbeat.
func TestReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &rosterServer{details: map[string]any{"agent_a-l1": map[string]int{"calls": 3}}}
		other := task(3)
		other.RunID = "r2"
		require.NoError(t, ReportDead(t.Context(), s)(DeadWorker{Identity: "1@here", Tasks: []RosterTask{task(1), task(2), other}}))
		require.Len(t, s.reports, 3)
		for _, l := range s.reports {
			require.Equal(t, activities.WorkerLost, l.kind)
			require.True(t, l.benign, "the death of a worker is no fault of the step")
			require.False(t, l.final)
			require.Positive(t, l.delay)
			require.LessOrEqual(t, l.delay, 4*pace+time.Millisecond)
		}
		require.JSONEq(t, `{"calls":3}`, string(s.reports["token 1"].details))
		require.Nil(t, s.reports["token 2"].details)
		slices.Sort(s.asked)
		require.Equal(t, []string{"r1", "r2"}, s.asked, "a run is described once")
		slices.Sort(s.reset)
		require.Equal(t, []string{"r1", "r2"}, s.reset)
	})
}

// A task that its worker could not record has no token and is reported by its ID.
func TestReport_withoutToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &rosterServer{details: map[string]any{"agent_a-l1": map[string]int{"calls": 3}}}
		require.NoError(t, ReportDead(t.Context(), s)(DeadWorker{Tasks: []RosterTask{{Namespace: "default", WorkflowID: "session-1", RunID: "r1", ActivityID: "agent_a-l1"}}}))
		require.Len(t, s.reports, 1)
		require.JSONEq(t, `{"calls":3}`, string(s.reports["default/session-1/r1/agent_a-l1"].details))
	})
}

// The tasks of a run that cannot be described are reported nevertheless.
func TestReport_withoutProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &rosterServer{unknown: true}
		require.NoError(t, ReportDead(t.Context(), s)(DeadWorker{Tasks: []RosterTask{task(1)}}))
		require.Nil(t, s.reports["token 1"].details)
		require.NoError(t, ReportDead(t.Context(), s)(DeadWorker{}), "a worker may die without tasks")
		require.Equal(t, 1, s.calls)
	})
}

// A task that has ended is not an error; a server that is away is one.
func TestReport_failures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &rosterServer{failures: map[string]error{"token 1": serviceerror.NewNotFound("the activity has ended")}}
		require.NoError(t, ReportDead(t.Context(), s)(DeadWorker{Tasks: []RosterTask{task(1), task(2)}}))
		require.Len(t, s.reports, 2)
		s.failures["token 2"] = serviceerror.NewUnavailable("connection refused")
		err := ReportDead(t.Context(), s)(DeadWorker{Tasks: []RosterTask{task(1), task(2)}})
		require.ErrorContains(t, err, "report the tasks of a lost worker: connection refused")
	})
}

// The tasks of a large worker are reported a few at a time, and their retries are spread over
// seconds.
func TestReport_many(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &rosterServer{}
		var tasks []RosterTask
		for n := range 2000 {
			tasks = append(tasks, task(n))
		}
		require.NoError(t, ReportDead(t.Context(), s)(DeadWorker{Tasks: tasks}))
		require.Len(t, s.reports, len(tasks))
		require.LessOrEqual(t, s.most, reporters)
		late := 0
		for _, l := range s.reports {
			require.LessOrEqual(t, l.delay, maxSpread+time.Millisecond)
			if l.delay > maxSpread/2 {
				late++
			}
		}
		require.InDelta(t, len(tasks)/2, late, float64(len(tasks))/8)
		require.Len(t, s.asked, 1)
	})
}

// Watch looks at once and at each interval, and goes on when the server is away.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := open(t, dir, "")
	require.NoError(t, dead.Begin(task(1)))
	dead.kill()
	synctest.Test(t, func(t *testing.T) {
		s := &rosterServer{failures: map[string]error{"token 1": serviceerror.NewUnavailable("away")}}
		ctx, stop := context.WithCancel(t.Context())
		ended, looked := make(chan struct{}), atomic.Int64{}
		go func() {
			defer close(ended)
			WatchRosters(ctx, dir, "", ReportDead(ctx, s), func() { looked.Add(1) })
		}()
		calls := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.calls
		}
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, 1, calls())
		time.Sleep(2 * interval)
		require.Equal(t, 3, calls())
		require.EqualValues(t, 3, looked.Load())
		require.FileExists(t, dead.path)
		s.mu.Lock()
		s.failures = nil
		s.mu.Unlock()
		time.Sleep(interval)
		require.NoFileExists(t, dead.path)
		time.Sleep(time.Minute)
		require.Equal(t, 4, calls(), "a reported task is not reported again")
		stop()
		<-ended
	})
}

// The remains of a worker that died while it wrote its file are removed after a day.
func TestReap_remains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"old" + suffix + fresh: foreign + time.Hour, "new" + suffix + fresh: time.Minute, "notes.txt": 9 * foreign} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, at, at))
	}
	require.Empty(t, reaped(t, dir, ""))
	require.NoFileExists(t, filepath.Join(dir, "old"+suffix+fresh))
	require.FileExists(t, filepath.Join(dir, "new"+suffix+fresh))
	require.FileExists(t, filepath.Join(dir, "notes.txt"))
}

// A directory that cannot be used is an error that names it.
func TestOpen_refuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := OpenRoster(filepath.Join(file, "workers"), "", "1@here")
	require.ErrorContains(t, err, "make the directory of the workers' tasks")
	require.Error(t, ReapRosters(file, "", func(DeadWorker) error { return nil }))

	r := open(t, t.TempDir(), "")
	require.NoError(t, r.Begin(task(1)))
	r.kill()
	require.ErrorContains(t, r.Begin(task(2)), r.path)
}
