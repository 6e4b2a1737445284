package stagetest

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
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
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/workflows/drive"
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

	Attributes []string // the registered search attributes
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
		Interceptors:             []interceptor.WorkerInterceptor{&drive.SignalOrder{}},
		DeadlockDetectionTimeout: time.Minute, // so that a busy machine is not reported as a deadlock
	})
	process := attempt.Process{
		Equipment: activities.Equipment{
			Teams: activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: team}},
			Model: func(a config.Agent) (loop.Model, error) {
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
			Tools: func(ctx context.Context, _ config.Agent, dir string, _ activities.Sharing) (step.Tools, error) {
				return tools.Open(ctx, dir, tools.Set{Files: true})
			},
			Indexed: func(context.Context) []string { return s.Attributes },
		},
		Store: store, Now: time.Now, Scratch: t.TempDir(),
		Heartbeat: func(ctx context.Context, _ []byte, details ...any) error {
			activity.RecordHeartbeat(ctx, details...)
			return nil
		},
		Signal: func(_ context.Context, _, _, signal string, arg any) error {
			s.SignalWorkflow(signal, arg)
			return nil
		},
	}
	sessions := sessionacts.Activities{Process: process}
	pipelines := pipelineacts.Activities{Process: process}
	scenarios := scenarioacts.Activities{Process: process, ReadFile: tools.ReadFile}
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
	value, err := s.QueryWorkflow(drive.StateQuery)
	require.NoError(t, err)
	var state View
	require.NoError(t, value.Get(&state))
	return state
}
