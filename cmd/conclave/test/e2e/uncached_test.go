//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/activities/s3store"
	"conclave/cmd/conclave/local"
	"conclave/cmd/conclave/local/server"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/worker"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// TestMain lets the stack execute the test binary again, also as an MCP server, and turns off the
// workflow cache of the workers in this process: every workflow task replays the whole history.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == local.ChildCommand {
		if err := server.RunChild(context.Background(), os.Stdin, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == serve {
		if err := draw(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	sdkworker.SetStickyWorkflowCacheSize(0)
	code := m.Run()
	if browser.stop != nil {
		browser.stop()
	}
	os.Exit(code)
}

// site is an embedded stack with its clients.
type site struct {
	t      *testing.T
	client client.Client
	store  *s3store.Store
	stack  local.Stack
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	lease, err := local.Join(t.Context(), dir, local.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, lease.Release())
		// The directory can be removed once the stack has ended.
		require.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, 20*time.Second, 50*time.Millisecond)
	})
	s := &site{t: t, stack: lease.Stack}
	s.store, err = s3store.New(t.Context(), s3store.Options{
		Bucket: s.stack.Bucket, Endpoint: s.stack.S3Endpoint, Region: s.stack.S3Region,
		AccessKeyID: s.stack.S3AccessKey, SecretAccessKey: s.stack.S3SecretKey,
	})
	require.NoError(t, err)
	s.client, err = client.DialContext(t.Context(), client.Options{HostPort: s.stack.TemporalAddress, Namespace: s.stack.Namespace})
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	return s
}

// work starts a worker with a default team that uses the model server.
func (s *site) work(m *modelServer, agents ...string) (stop func()) {
	s.t.Helper()
	return s.workTeam(m.team(agents...))
}

func (s *site) workTeam(file string) (stop func()) {
	s.t.Helper()
	team, err := config.Parse("team", []byte(file), config.Local)
	require.NoError(s.t, err)
	stop, err = worker.Start(worker.Config{
		Client: s.client, Store: s.store, Scratch: s.t.TempDir(),
		Teams: activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: team}},
	})
	require.NoError(s.t, err)
	return stop
}

func (s *site) start(id string) client.WorkflowRun {
	s.t.Helper()
	run, err := s.client.ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue},
		sessionflow.Type, sessionflow.Input{Query: "Which of us is right?"})
	require.NoError(s.t, err)
	return run
}

// running returns the number of running steps.
func (s *site) running(id string) int {
	s.t.Helper()
	n := 0
	for _, a := range s.state(id).Agents {
		if a.Running {
			n++
		}
	}
	return n
}

// read decodes a document of the store.
func (s *site) read(key string, v any) {
	s.t.Helper()
	data, err := s.store.Get(s.t.Context(), key)
	require.NoError(s.t, err)
	require.NoError(s.t, json.Unmarshal(data, v))
}

func (s *site) history(id string) *historypb.History {
	s.t.Helper()
	var h historypb.History
	events := s.client.GetWorkflowHistory(s.t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(s.t, err)
		h.Events = append(h.Events, e)
	}
	return &h
}

// replay checks that the code reproduces a session's history.
func (s *site) replay(id, name string) {
	s.t.Helper()
	s.replayAs(sessionflow.Workflow, sessionflow.Type, fmt.Sprintf("protocol%d", coordination.Protocol), id, name)
}

// replayAs checks that the code reproduces a history, and on request stores it with those of its
// kind for the replay tests.
func (s *site) replayAs(definition any, workflowType, kind, id, name string) {
	s.t.Helper()
	h := s.history(id)
	replayer, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{
		Interceptors: []interceptor.WorkerInterceptor{&workflows.SignalOrder{}},
	})
	require.NoError(s.t, err)
	replayer.RegisterWorkflowWithOptions(definition, workflow.RegisterOptions{Name: workflowType})
	require.NoError(s.t, replayer.ReplayWorkflowHistoryWithOptions(nil, h, sdkworker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: id}, // names of child executions contain it
	}))
	if dir := os.Getenv("CONCLAVE_RECORD"); dir != "" {
		recordTo(s.t, filepath.Join(dir, kind), name, h)
	}
}

// All ways in which a session can end are replayed from the first event with each workflow task.
func TestUncached(t *testing.T) {
	t.Parallel()
	split := map[string][]reply{
		"model-a": {answer("Answer A."), vote("agent1", "Mine."), vote("agent1", "Still mine.")},
		"model-b": {answer("Answer B."), vote("agent2", "Mine."), vote("agent2", "Still mine.")},
	}
	lost := map[string][]reply{
		"model-a": {answer("Answer A."), vote("agent1", "The only one.")},
		"model-b": {fails(401)},
	}
	nobody := map[string][]reply{"model-a": {fails(401)}, "model-b": {fails(401)}}
	for _, tt := range []struct {
		name, status, winner string
		script               map[string][]reply
		agents               []string
	}{
		{name: "three_rounds", script: threeRounds(), agents: []string{"agent_a", "agent_b", "agent_c"}, status: "consensus", winner: "agent_c"},
		{name: "split_revote_plurality", script: split, agents: []string{"agent_a", "agent_b"}, status: "plurality", winner: "agent_a"},
		{name: "failed_agent", script: lost, agents: []string{"agent_a", "agent_b"}, status: "consensus", winner: "agent_a"},
		{name: "nobody_answers", script: nobody, agents: []string{"agent_a", "agent_b"}, status: "failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			model := newModelServer(t, tt.script)
			stop := s.work(model, tt.agents...)
			t.Cleanup(stop)
			var result sessionflow.Result
			require.NoError(t, s.start(tt.name).Get(t.Context(), &result))
			require.Equal(t, tt.status, result.Status)
			require.Equal(t, tt.winner, result.Winner)
			s.replay(tt.name, tt.name)
		})
	}
}

// A worker that stops between two steps hands the session to the next one.
func TestUncachedWorkerReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	script := threeRounds()
	asked, stopped := make(chan struct{}), make(chan struct{})
	lost := vote("agent2", "Nobody hears this.").during(func() { close(asked); <-stopped })
	script["model-b"] = slices.Insert(script["model-b"], 1, lost)
	model := newModelServer(t, script)
	agents := []string{"agent_a", "agent_b", "agent_c"}
	stop := s.work(model, agents...)
	run := s.start("replaced")
	<-asked
	// The others' steps of this wave have ended, or they would be lost as well.
	require.Eventually(t, func() bool { return s.running("replaced") == 1 }, 20*time.Second, 20*time.Millisecond)
	stop()
	close(stopped)
	stop = s.work(model, agents...)
	t.Cleanup(stop)
	result := ended(t, run, "consensus")
	require.Equal(t, map[string]int{"agent_c": 3}, result.Votes)
	require.Equal(t, len(script["model-a"]), model.calls("model-a"), "finished steps are not run again")
	s.replay("replaced", "worker_replaced")
}

// The count of attempts without progress survives on a real server: the third attempt recovers
// after two, and three end the step.
func TestUncachedAttempts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{
		"model-a": {garbage(), garbage(), answer("Answer A."), vote("agent1", "The only one.")},
		"model-b": {garbage(), garbage(), garbage(), answer("Too late.")},
	})
	stop := s.work(model, "agent_a", "agent_b")
	t.Cleanup(stop)
	result := ended(t, s.start("attempts"), "consensus")
	require.Equal(t, "agent_a", result.Winner)
	require.Equal(t, 3, model.calls("model-b"))
	var last artifact.LastAction
	s.read("sessions/attempts/agents/agent_b/last_action.json", &last)
	require.Equal(t, "none", last.Action)
	require.Equal(t, "BadReply", last.Error.Type)
	require.Contains(t, last.Error.Message, "3 attempts without progress")
	s.replay("attempts", "attempts_without_progress")
}

// A decision ends a running step early: its cost counts, its transcript stays, and its model call
// ends immediately.
func TestUncachedFinish(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	asked, hold := make(chan struct{}), make(chan struct{})
	list := reply{tool: "list_files", arguments: map[string]any{}}
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A."), list, list, answer("Too late.").during(func() { close(asked); <-hold })},
		"model-b": {answer("Answer B."), vote("agent2", "Mine.")},
	})
	t.Cleanup(func() { close(hold) })
	stop := s.work(model, "agent_a", "agent_b")
	t.Cleanup(stop)
	run := s.start("finish")
	<-asked
	require.Eventually(t, func() bool { return s.running("finish") == 1 }, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, s.client.SignalWorkflow(t.Context(), "finish", "", workflows.FinishSignal, nil))
	result := ended(t, run, "finished")
	require.Equal(t, "agent_b", result.Winner, "the one fresh vote")
	require.Equal(t, int64(5), result.Cost.ModelCalls, "two answers, a vote, and two calls of the step that was cut short")

	var last artifact.LastAction
	s.read("sessions/finish/agents/agent_a/last_action.json", &last)
	require.Equal(t, "none", last.Action)
	require.Equal(t, activities.Cancelled, last.Error.Type)
	transcript, err := s.store.Get(t.Context(), "sessions/finish/agents/agent_a/002/transcript.jsonl")
	require.NoError(t, err)
	require.Contains(t, string(transcript), "list_files")
	s.replay("finish", "finished_early")
}

// A session's history stays small: large values are in the store.
func TestHistoryPerStep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stop := s.work(newModelServer(t, threeRounds()), "agent_a", "agent_b", "agent_c")
	t.Cleanup(stop)
	require.NoError(t, s.start("small").Get(t.Context(), nil))
	d, err := s.client.DescribeWorkflowExecution(t.Context(), "small", "")
	require.NoError(t, err)
	const steps = 9
	events, bytes := d.WorkflowExecutionInfo.HistoryLength/steps, d.WorkflowExecutionInfo.HistorySizeBytes/steps
	t.Logf("%d events and %d bytes of history a step", events, bytes)
	require.LessOrEqual(t, events, int64(12))
	require.LessOrEqual(t, bytes, int64(6<<10))
}
