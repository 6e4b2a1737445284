package activities

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities/tools"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// script is a model that gives its replies in order.
type script struct {
	mu      sync.Mutex
	replies []func(context.Context) (llm.Message, error)
	calls   int
}

func (s *script) Generate(ctx context.Context, _ llm.Request) (llm.Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := s.replies[s.calls%len(s.replies)]
	s.calls++
	m, err := reply(ctx)
	return llm.Reply{Message: m, Usage: llm.Usage{InputTokens: 100, OutputTokens: 10, ModelCalls: 1}}, err
}

func calls(name string, arguments any) func(context.Context) (llm.Message, error) {
	data, _ := json.Marshal(arguments)
	m := llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c1", Name: name, Arguments: string(data)}}}
	return func(context.Context) (llm.Message, error) { return m, nil }
}

// floor is a session's directory with RunStep on it.
type floor struct {
	*testsuite.TestActivityEnvironment
	*Activities
	t     *testing.T
	store *artifact.Dir
	team  config.Team
}

func newFloor(t *testing.T, replies ...func(context.Context) (llm.Message, error)) *floor {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	f := &floor{t: t, store: store, team: config.Default()}
	layout := artifact.InBucket("s1")
	require.NoError(t, artifact.CreateJSON(t.Context(), store, layout.File("session.json"), artifact.Session{Query: "Why?"}))
	model := &script{replies: replies}
	f.Activities = &Activities{
		Store: store, Now: time.Now, Scratch: t.TempDir(),
		Teams: Teams{Named: map[string]config.Team{DefaultTeam: f.team}},
		Model: func(config.Agent) (loop.Model, error) { return model, nil },
		Tools: func(ctx context.Context, _ config.Agent, dir string) (step.Tools, error) {
			return tools.Open(ctx, dir, tools.Set{Files: true})
		},
		Heartbeat: func(context.Context, []byte, ...any) error { return nil },
	}
	var suite testsuite.WorkflowTestSuite
	f.TestActivityEnvironment = suite.NewTestActivityEnvironment()
	f.SetTestTimeout(20 * time.Second)
	f.RegisterSteps(f.TestActivityEnvironment)
	return f
}

func (f *floor) run(l coordination.Launch) (StepResult, error) {
	f.t.Helper()
	l.ID, l.Agent, l.Number, l.Round = "l1", "agent_a", 1, 1
	value, err := f.ExecuteActivity(RunStepName, StepInput{Session: "s1", ConfigHash: f.team.Hash(), Launch: l})
	var result StepResult
	if err == nil {
		require.NoError(f.t, value.Get(&result))
	}
	return result, err
}

func (f *floor) exists(key string) bool {
	f.t.Helper()
	there, err := f.store.Exists(f.t.Context(), "sessions/s1/"+key)
	require.NoError(f.t, err)
	return there
}

func answering() coordination.Launch {
	return coordination.Launch{Offered: []coordination.Action{coordination.NewAnswer}}
}

func TestRunStep_StopIsToldInShort(t *testing.T) {
	t.Parallel()
	f := newFloor(t, calls("stop", map[string]string{"status": "blocked", "summary": "No data."}))
	f.team.Orchestrator.CoordinationMode = coordination.Decomposition
	for i := range f.team.Agents {
		f.team.Agents[i].Subtask = "A part."
	}
	f.Teams.Named[DefaultTeam] = f.team
	l := answering()
	l.Offered = append(l.Offered, coordination.Stop)
	result, err := f.run(l)
	require.NoError(t, err)
	result.Usage = llm.Usage{}
	require.NotEmpty(t, result.Token)
	require.Equal(t, StepResult{Token: result.Token, Step: 1, Action: coordination.Stop, Status: coordination.Blocked, Summary: "No data."}, result)
}

func TestRunStep_HearsWhatIsSaid(t *testing.T) {
	t.Parallel()
	f := newFloor(t, calls("new_answer", map[string]string{"content": "Because."}))
	f.Bell = func(context.Context, string, string) (step.Bell, error) {
		return step.Bell{Epoch: 1, Messages: []step.BellMessage{{Number: 1}}}, nil
	}
	key := step.MessageKey(artifact.InBucket("s1"), 1)
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, key, step.Message{Number: 1, Text: "Be brief."}))
	result, err := f.run(answering())
	require.NoError(t, err)
	require.Equal(t, coordination.NewAnswer, result.Action)
	require.Equal(t, 1, result.Heard)
}

// A step that ends itself without an action is no failure: what it cost is in
// its result, its transcript is kept, and no last action is made of it.
func TestRunStep_EndsItself(t *testing.T) {
	t.Parallel()
	f := newFloor(t, calls("list_files", map[string]string{}))
	l := answering()
	l.Allowance = coordination.Allowance{Tokens: 200}
	result, err := f.run(l)
	require.NoError(t, err)
	require.Equal(t, StepResult{
		Token: result.Token, Step: 1, Ended: loop.EndAllowance, Usage: llm.Usage{InputTokens: 200, OutputTokens: 20, ModelCalls: 2},
	}, result)
	require.True(t, f.exists("agents/agent_a/001/transcript.jsonl"))
	require.False(t, f.exists("agents/agent_a/001/action.json"))
	require.False(t, f.exists("agents/agent_a/last_action.json"))
}

// Pausing suspends a running step: it is no failure and no action. A step that is
// cancelled for another reason tells its reader that it came to nothing.
func TestRunStep_Suspended(t *testing.T) {
	t.Parallel()
	for directive, tells := range map[step.Directive]bool{step.Pausing: false, step.Ending: true} {
		t.Run(string(directive), func(t *testing.T) {
			t.Parallel()
			thinking := make(chan struct{})
			f := newFloor(t, func(ctx context.Context) (llm.Message, error) {
				close(thinking)
				<-ctx.Done()
				return llm.Message{}, ctx.Err()
			})
			f.Heartbeat = func(context.Context, []byte, ...any) error {
				<-thinking
				return temporal.NewCanceledError()
			}
			f.Bell = func(context.Context, string, string) (step.Bell, error) {
				select {
				case <-thinking:
					return step.Bell{Epoch: 1, Directive: directive}, nil
				default:
					return step.Bell{}, nil
				}
			}
			_, err := f.run(answering())
			var cancelled *temporal.CanceledError
			require.ErrorAs(t, err, &cancelled)
			var detail StepFailure
			require.NoError(t, cancelled.Details(&detail))
			require.Equal(t, 1, detail.Step)
			require.Contains(t, detail.Token, "-l1", "the token with which the step goes on")
			require.True(t, f.exists("agents/agent_a/001/transcript.jsonl"))
			require.Equal(t, tells, f.exists("agents/agent_a/last_action.json"))
		})
	}
}

func TestRunStep_FailureHasItsToken(t *testing.T) {
	t.Parallel()
	f := newFloor(t, func(context.Context) (llm.Message, error) {
		return llm.Message{}, &llm.Error{Kind: llm.AuthFailed, Message: "no"}
	})
	_, err := f.run(answering())
	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	var detail StepFailure
	require.NoError(t, failed.Details(&detail))
	claim, err := artifact.ReadClaim(t.Context(), f.store, artifact.InBucket("s1"), "agent_a", 1)
	require.NoError(t, err)
	require.Equal(t, claim.Token, detail.Token)
}

// An attempt that an operator holds has not failed to make progress.
func TestRunStep_HeldAttemptsAreNotCounted(t *testing.T) {
	t.Parallel()
	thinking := make(chan struct{})
	f := newFloor(t, func(ctx context.Context) (llm.Message, error) {
		close(thinking)
		<-ctx.Done()
		return llm.Message{}, ctx.Err()
	})
	var mu sync.Mutex
	var told []vitals
	f.Heartbeat = func(_ context.Context, _ []byte, details ...any) error {
		<-thinking
		mu.Lock()
		defer mu.Unlock()
		told = append(told, details[0].(vitals))
		return activity.ErrActivityPaused
	}
	_, err := f.run(answering())
	require.Error(t, err)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 1, told[0].Fruitless)
	require.Zero(t, told[len(told)-1].Fruitless)
}

// What this worker lacks another one may have: the step is not begun here.
func TestRunStep_WaitsForAWorkerThatIsEquipped(t *testing.T) {
	t.Parallel()
	for kind, lacks := range map[string]error{
		NoServer: &NoServerError{Server: "browser"}, NoSandbox: &NoSandboxError{Err: errors.New("no user namespaces")},
	} {
		f := newFloor(t)
		f.Equipped = func(context.Context, config.Agent) error { return lacks }
		_, err := f.run(answering())
		var failed *temporal.ApplicationError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, kind, failed.Type())
		require.False(t, failed.NonRetryable())
		require.Equal(t, keyDelay, failed.NextRetryDelay())
		require.False(t, f.exists("agents/agent_a/001/step.json"), "nothing is claimed")
	}
}

// An MCP server that does not start is tried again a few times, visibly, and then
// the step fails.
func TestRunStep_ToolsThatDoNotOpen(t *testing.T) {
	t.Parallel()
	for earlier, final := range map[int]bool{0: false, 1: false, 2: true} {
		f := newFloor(t)
		f.Tools = func(context.Context, config.Agent, string) (step.Tools, error) {
			return nil, &ToolsUnavailableError{Err: errors.New(`connecting MCP server "browser": exit status 1`)}
		}
		f.SetHeartbeatDetails(vitals{Fruitless: earlier})
		_, err := f.run(answering())
		var failed *temporal.ApplicationError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, ToolsUnavailable, failed.Type())
		require.Equal(t, final, failed.NonRetryable(), "after %d attempts", earlier)
		require.Contains(t, failed.Message(), `connecting MCP server "browser": exit status 1`)
	}
}

// What its model takes bounds what a step is shown.
func TestRunStep_KnowsTheModelsWindow(t *testing.T) {
	t.Parallel()
	r := &stepRun{Activities: &Activities{}}
	r.ports.Window = 8192
	require.Equal(t, 8192, r.member(StepInput{}, config.Default(), config.Agent{}, "Why?", nil).Window)
}

// What was of no use is kept because it was paid for, or teaches something, but is
// no progress: an attempt that ends with it is counted.
func TestRunStep_WhatIsNoProgress(t *testing.T) {
	t.Parallel()
	for kind, counted := range map[loop.EntryKind]bool{
		loop.Opening: false, loop.Reply: false, loop.Results: false, loop.Rejection: false, loop.Compacted: false,
		loop.Wasted: true, loop.Refused: true,
	} {
		r := &stepRun{heart: newHeart(vitals{Fruitless: 1}, nil, nil), counted: true}
		r.progress(step.Progress{Kept: 1, Last: kind})
		require.Equal(t, counted, r.counted, kind)
		require.Equal(t, counted, r.heart.read().Fruitless == 1, kind)
	}
}

// An agent without file tools has a workspace if it has a shell.
func TestRunStep_AShellAloneHasAWorkspace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tools config.Tools
		has   bool
	}{{config.Tools{Files: true}, true}, {config.Tools{Shell: true}, true}, {config.Tools{}, false}} {
		r := &stepRun{Activities: &Activities{}}
		require.Equal(t, tt.has, r.member(StepInput{}, config.Default(), config.Agent{Tools: tt.tools}, "Why?", nil).Files)
	}
}
