package stagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/activities/offline"
	pipelineacts "conclave/activities/pipeline"
	scenarioacts "conclave/activities/scenario"
	sessionacts "conclave/activities/session"
	"conclave/activities/tools"
	"conclave/activities/workertest"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/loop"
	"conclave/engine/session/check"
	"conclave/workflows"
	"conclave/workflows/session"
)

// Stage runs a workflow in the SDK's test environment with the real activities, a local store and
// scripted models.
type Stage struct {
	*testsuite.TestWorkflowEnvironment
	Store *artifact.Dir
	Cast  map[string]*Player // players by agent ID
	Judge loop.Model         // judges whether answers are equal; may be nil

	// Model returns the models of agents instead of Cast, unless it is nil.
	Model func(config.Agent) (loop.Model, error)

	// Confine runs the commands of checks; nil for teams without checks.
	Confine func(context.Context, check.Confined) (check.Ended, error)

	Attributes []string // the registered search attributes

	setReceivers func([]activities.Receiver)
}

// New returns a stage whose agents reply according to scripts. change may edit the team; it may be
// nil.
func New(t *testing.T, scripts map[string][]any, change func(*config.Team)) *Stage {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return NewOn(t, store, scripts, change)
}

// NewOn is like New, with an existing store.
func NewOn(t *testing.T, store *artifact.Dir, scripts map[string][]any, change func(*config.Team)) *Stage {
	t.Helper()
	team := config.Default()
	team.Agents = nil
	s := &Stage{Store: store, Cast: map[string]*Player{}}
	for _, id := range []string{"agent_a", "agent_b", "agent_c"} {
		if replies, ok := scripts[id]; ok {
			agent := config.Default().Agents[0]
			agent.ID = id
			team.Agents = append(team.Agents, agent)
			s.Cast[id] = &Player{Replies: replies}
		}
	}
	if change != nil {
		change(&team)
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	s.TestWorkflowEnvironment = suite.NewTestWorkflowEnvironment()
	s.SetTestTimeout(2 * time.Minute)
	s.SetWorkerOptions(worker.Options{
		Interceptors:             []interceptor.WorkerInterceptor{&workflows.SignalOrder{}},
		DeadlockDetectionTimeout: time.Minute, // so that a busy machine is not reported as a deadlock
	})
	w := &workertest.Worker{
		OnModel: func(a config.Agent) (loop.Model, error) {
			if a.Backend.Params[config.Targets] != nil {
				return offline.Skilled(a.ID, a.Backend.Params)
			}
			if a.ID == config.Judge {
				return s.Judge, nil
			}
			if s.Model != nil {
				return s.Model(a)
			}
			return s.Cast[a.ID], nil
		},
		OnAttributes: func(context.Context) []string { return s.Attributes },
		OnConfine:    func(ctx context.Context, c check.Confined) (check.Ended, error) { return s.Confine(ctx, c) },
		OnHeartbeat: func(ctx context.Context, _ []byte, details ...any) error {
			activity.RecordHeartbeat(ctx, details...)
			return nil
		},
		OnSignal: func(_ context.Context, _, _, signal string, arg any) error {
			s.SignalWorkflow(signal, arg)
			return nil
		},
	}
	process := attempt.Process{
		Equipment: w, Server: w, Teams: activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: team}},
		Store: store, Now: time.Now, Scratch: t.TempDir(),
	}
	sessions := sessionacts.Activities{Process: process}
	pipelines := pipelineacts.Activities{Process: process}
	scenarios := scenarioacts.Activities{Process: process, ReadFile: tools.ReadFile}
	s.setReceivers = func(r []activities.Receiver) { sessions.Receivers, pipelines.Receivers, scenarios.Receivers = r, r, r }
	sessions.RegisterSteps(s)
	sessions.RegisterBookkeeping(s)
	pipelines.RegisterSteps(s)
	pipelines.RegisterBookkeeping(s)
	scenarios.RegisterSteps(s)
	scenarios.RegisterBookkeeping(s)
	s.RegisterWorkflowWithOptions(session.Workflow, workflow.RegisterOptions{Name: session.Type})
	return s
}

// Play runs a workflow to its end and returns its result.
func Play[Result any](t *testing.T, s *Stage, workflowType string, in any) Result {
	t.Helper()
	s.ExecuteWorkflow(workflowType, in)
	require.True(t, s.IsWorkflowCompleted())
	require.NoError(t, s.GetWorkflowError())
	var result Result
	require.NoError(t, s.GetWorkflowResult(&result))
	return result
}

// State returns the result of the state query.
func State[View any](t *testing.T, s *Stage) View {
	t.Helper()
	value, err := s.QueryWorkflow(workflows.StateQuery)
	require.NoError(t, err)
	var state View
	require.NoError(t, value.Get(&state))
	return state
}

// RequireTimes requires that each event and ledger entry of a run has a time.
func RequireTimes(t *testing.T, store artifact.Store, run artifact.Layout) {
	t.Helper()
	hasTime := func(entry []byte, name string) {
		var e struct{ Time time.Time }
		require.NoError(t, json.Unmarshal(entry, &e), name)
		require.False(t, e.Time.IsZero(), "%s has no time: %s", name, entry)
	}
	events, err := store.Get(t.Context(), run.File("events.jsonl"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(events)), "\n")
	require.NotEmpty(t, lines[0])
	for _, line := range lines {
		hasTime([]byte(line), "an event")
	}
	for key, err := range store.List(t.Context(), run.File("ledger/")) {
		require.NoError(t, err)
		entry, err := store.Get(t.Context(), key)
		require.NoError(t, err)
		hasTime(entry, key)
	}
}

// CopyOf returns a copy of the files in a store, as they would be if the process had been killed at
// this moment.
func CopyOf(t *testing.T, store *artifact.Dir) *artifact.Dir {
	t.Helper()
	dir := t.TempDir()
	for key, err := range store.List(t.Context(), "") {
		require.NoError(t, err)
		data, err := store.Get(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, key)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, key), data, 0o644))
	}
	copied, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = copied.Close() })
	return copied
}

// ReadJSON decodes an object of the store.
func (s *Stage) ReadJSON(t *testing.T, key string, v any) {
	t.Helper()
	data, err := s.Store.Get(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, v))
}

// Continued decodes an input that contains the field continued, as a client might forge it.
func Continued[T any](t *testing.T, document string) (in T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(document), &in))
	encoded, err := json.Marshal(in)
	require.NoError(t, err)
	require.Contains(t, string(encoded), `"continued":{`)
	return in
}

// Indexed registers search attributes in the stage's namespace. It returns the upserts that follow,
// each as a line of NAME=VALUE.
func (s *Stage) Indexed(names ...string) *[]string {
	s.Attributes = names
	var upserts []string
	s.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Run(func(args mock.Arguments) {
		var all []string
		for key, value := range args.Get(0).(temporal.SearchAttributes).GetUntypedValues() {
			all = append(all, fmt.Sprintf("%s=%v", strings.TrimPrefix(key.GetName(), "Conclave"), value))
		}
		slices.Sort(all)
		upserts = append(upserts, strings.Join(all, " "))
	}).Maybe()
	return &upserts
}

// Told has receivers told of the run, and returns the notices that are sent.
func (s *Stage) Told(receivers ...activities.Receiver) *[]activities.Delivery {
	s.setReceivers(receivers)
	var told []activities.Delivery
	s.RegisterWorkflowWithOptions(func(_ workflow.Context, d activities.Delivery) error {
		told = append(told, d)
		return nil
	}, workflow.RegisterOptions{Name: workflows.NotifyType})
	return &told
}

// EveryAttribute returns the names of all search attributes.
func EveryAttribute() []string { return slices.Collect(maps.Keys(workflows.Attributes())) }
