package session

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/activities/workertest"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session"
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

// heartbeatDetails are the details of a step's heartbeats, as servers keep them.
type heartbeatDetails struct {
	Fruitless int `json:"fruitless"`
	attempt.Failure
}

// floor is a session's directory with the activities of steps.
type floor struct {
	*testsuite.TestActivityEnvironment
	*Activities
	*workertest.Worker
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
	f.Worker = &workertest.Worker{OnModel: func(config.Agent) (loop.Model, error) { return model, nil }}
	f.Activities = &Activities{Process: attempt.Process{
		Equipment: f.Worker, Server: f.Worker, Teams: activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: f.team}},
		Store: store, Now: time.Now, Scratch: t.TempDir(),
	}}
	var suite testsuite.WorkflowTestSuite
	f.TestActivityEnvironment = suite.NewTestActivityEnvironment()
	f.SetTestTimeout(2 * time.Minute)
	f.RegisterSteps(f.TestActivityEnvironment)
	return f
}

func (f *floor) run(l coordination.Launch) (StepResult, error) {
	f.t.Helper()
	l.ID, l.Agent, l.Number, l.Round = "l1", "agent_a", 1, 1
	value, err := f.ExecuteActivity("RunStep", StepInput{Session: "s1", ConfigHash: f.team.Hash(), Launch: l})
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

func TestRunStep_stop(t *testing.T) {
	t.Parallel()
	f := newFloor(t, calls("stop", map[string]string{"status": "blocked", "summary": "No data."}))
	f.team.Orchestrator.CoordinationMode = coordination.Decomposition
	for i := range f.team.Agents {
		f.team.Agents[i].Subtask = "A part."
	}
	f.Teams.Named[activities.DefaultTeam] = f.team
	l := answering()
	l.Offered = append(l.Offered, coordination.Stop)
	result, err := f.run(l)
	require.NoError(t, err)
	result.Usage = llm.Usage{}
	require.NotEmpty(t, result.Token)
	require.Equal(t, StepResult{Token: result.Token, Step: 1, Outcome: session.Outcome{Action: coordination.Stop, Status: coordination.Blocked, Summary: "No data."}}, result)
}

func TestRunStep_readsHumanMessages(t *testing.T) {
	t.Parallel()
	f := newFloor(t, calls("new_answer", map[string]string{"content": "Because."}))
	f.OnBell = func(context.Context, string, string) (coordination.Ring, error) {
		return coordination.Ring{Epoch: 1, Messages: []coordination.Message{{Number: 1}}}, nil
	}
	key := artifact.InBucket("s1").Message(1)
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, key, step.Message{Number: 1, Text: "Be brief."}))
	result, err := f.run(answering())
	require.NoError(t, err)
	require.Equal(t, coordination.NewAnswer, result.Action)
	require.Equal(t, 1, result.Heard)
}

// A step that ends itself without an action is not a failure: its result has the cost,
// and its transcript is kept, but last_action.json is not written.
func TestRunStep_endsItself(t *testing.T) {
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

// A pause suspends a running step, which is neither a failure nor an action. A step that
// is cancelled for another reason writes last_action.json.
func TestRunStep_cancelled(t *testing.T) {
	t.Parallel()
	for directive, tells := range map[coordination.Directive]bool{coordination.Pausing: false, coordination.Ending: true} {
		t.Run(string(directive), func(t *testing.T) {
			t.Parallel()
			thinking := make(chan struct{})
			f := newFloor(t, func(ctx context.Context) (llm.Message, error) {
				close(thinking)
				<-ctx.Done()
				return llm.Message{}, ctx.Err()
			})
			f.OnHeartbeat = func(context.Context, []byte, ...any) error {
				<-thinking
				return temporal.NewCanceledError()
			}
			f.OnBell = func(context.Context, string, string) (coordination.Ring, error) {
				select {
				case <-thinking:
					return coordination.Ring{Epoch: 1, Directive: directive}, nil
				default:
					return coordination.Ring{}, nil
				}
			}
			_, err := f.run(answering())
			var cancelled *temporal.CanceledError
			require.ErrorAs(t, err, &cancelled)
			var detail attempt.Failure
			require.NoError(t, cancelled.Details(&detail))
			require.Equal(t, 1, detail.Step)
			require.Contains(t, detail.Token, "-l1", "the token that the step resumes from")
			require.True(t, f.exists("agents/agent_a/001/transcript.jsonl"))
			require.Equal(t, tells, f.exists("agents/agent_a/last_action.json"))
		})
	}
}

// cutting provides a tool run_command that runs until the step is cancelled.
type cutting struct {
	opened step.Tools
	began  chan struct{} // closed when it runs
}

func (c cutting) Tools() []llm.Tool { return append(c.opened.Tools(), llm.Tool{Name: "run_command"}) }

func (c cutting) Close() error { return c.opened.Close() }

func (c cutting) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	if call.Name != "run_command" {
		return c.opened.Run(ctx, call)
	}
	close(c.began)
	<-ctx.Done()
	return loop.Output{}, ctx.Err()
}

// A step that is cancelled in a batch of calls keeps what the batch has done. One that is paused runs
// the batch again.
func TestRunStep_cancelledInABatch(t *testing.T) {
	t.Parallel()
	for _, directive := range []coordination.Directive{coordination.Pausing, coordination.Ending} {
		t.Run(string(directive), func(t *testing.T) {
			t.Parallel()
			f := newFloor(t, func(context.Context) (llm.Message, error) {
				return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{
					{ID: "c1", Name: "write_file", Arguments: `{"path":"a.txt","content":"x"}`}, {ID: "c2", Name: "run_command", Arguments: `{"command":"sleep 8"}`},
				}}, nil
			})
			began := make(chan struct{})
			f.OnOpenTools = func(ctx context.Context, a config.Agent, dir string, s activities.Sharing) (step.Tools, error) {
				opened, err := (&workertest.Worker{}).OpenTools(ctx, a, dir, s)
				return cutting{opened, began}, err
			}
			f.OnHeartbeat = func(context.Context, []byte, ...any) error {
				<-began
				return temporal.NewCanceledError()
			}
			f.OnBell = func(context.Context, string, string) (coordination.Ring, error) {
				select {
				case <-began:
					return coordination.Ring{Epoch: 1, Directive: directive}, nil
				default:
					return coordination.Ring{}, nil
				}
			}
			_, err := f.run(answering())
			var cancelled *temporal.CanceledError
			require.ErrorAs(t, err, &cancelled)
			files, err := artifact.ReadJSON[artifact.Manifest](t.Context(), f.store, "sessions/s1/agents/agent_a/001/partial.json")
			require.NoError(t, err)
			require.Equal(t, "a.txt", files.Files[0].Path)
			left, err := step.ReadTranscript(t.Context(), f.store, artifact.InBucket("s1"), "sessions/s1/agents/agent_a/001/")
			require.NoError(t, err)
			require.True(t, left.Over)
			last := left.Lines[len(left.Lines)-1]
			require.Equal(t, loop.Results, last.Kind)
			require.Len(t, last.Messages, 1, "of write_file")
			require.NoError(t, f.store.Delete(t.Context(), "sessions/s1/agents/agent_a/001/transcript.jsonl"))
			journaled, err := step.Recover(t.Context(), step.Ports{Store: f.store}, session.Step{
				Layout: artifact.InBucket("s1"), Launch: coordination.Launch{Agent: "agent_a"}, Token: f.token(),
			}.Place())
			require.NoError(t, err)
			require.NotContains(t, string(journaled.Transcript), `"results"`, "a step that goes on runs the batch again")
		})
	}
}

// A step that is cancelled between two heartbeats learns of it at its next safe point, and makes no
// further call.
func TestRunStep_cancelledBeforeACall(t *testing.T) {
	t.Parallel()
	for directive, tells := range map[coordination.Directive]bool{coordination.Pausing: false, coordination.Ending: true} {
		var asked atomic.Int64
		f := newFloor(t, func(ctx context.Context) (llm.Message, error) {
			asked.Add(1)
			return calls("list_files", map[string]string{})(ctx)
		})
		f.OnBell = func(context.Context, string, string) (coordination.Ring, error) {
			if asked.Load() == 0 {
				return coordination.Ring{}, nil
			}
			return coordination.Ring{Epoch: 1, Directive: directive}, temporal.NewCanceledError()
		}
		_, err := f.run(answering())
		var cancelled *temporal.CanceledError
		require.ErrorAs(t, err, &cancelled)
		require.EqualValues(t, 1, asked.Load())
		require.Equal(t, tells, f.exists("agents/agent_a/last_action.json"), "the reason is known")
	}
}

func TestRunStep_failureHasItsToken(t *testing.T) {
	t.Parallel()
	f := newFloor(t, func(context.Context) (llm.Message, error) {
		return llm.Message{}, &llm.Error{Kind: llm.AuthFailed, Message: "no"}
	})
	_, err := f.run(answering())
	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	var detail attempt.Failure
	require.NoError(t, failed.Details(&detail))
	claim, err := artifact.ReadJSON[artifact.Claim](t.Context(), f.store, artifact.InBucket("s1").Step("agent_a", 1, "step.json"))
	require.NoError(t, err)
	require.Equal(t, claim.Token, detail.Token)
}

// An attempt that an operator paused is not counted as one without progress.
func TestRunStep_pausedAttemptsAreNotCounted(t *testing.T) {
	t.Parallel()
	thinking := make(chan struct{})
	f := newFloor(t, func(ctx context.Context) (llm.Message, error) {
		close(thinking)
		<-ctx.Done()
		return llm.Message{}, ctx.Err()
	})
	var mu sync.Mutex
	var reported []heartbeatDetails
	f.OnHeartbeat = func(_ context.Context, _ []byte, details ...any) error {
		<-thinking
		mu.Lock()
		defer mu.Unlock()
		data, err := json.Marshal(details[0])
		if err != nil {
			return err
		}
		var d heartbeatDetails
		if err := json.Unmarshal(data, &d); err != nil {
			return err
		}
		reported = append(reported, d)
		return activity.ErrActivityPaused
	}
	_, err := f.run(answering())
	require.Error(t, err)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 1, reported[0].Fruitless)
	require.Zero(t, reported[len(reported)-1].Fruitless)
}

// Another worker may have the missing tools: the step does not begin here.
func TestRunStep_waitsForAnEquippedWorker(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{activities.NoServer, activities.NoSandbox} {
		f := newFloor(t)
		f.OnLacks = func(context.Context, config.Agent) error {
			return &activities.LackError{Type: kind, Err: errors.New("not here")}
		}
		f.OnAlone = func(context.Context) bool { return false }
		_, err := f.run(answering())
		var failed *temporal.ApplicationError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, kind, failed.Type())
		require.Contains(t, failed.Message(), "not here (worker on ")
		require.False(t, failed.NonRetryable())
		require.InDelta(t, 1500*time.Millisecond, failed.NextRetryDelay(), float64(500*time.Millisecond), "soon at first")
		require.False(t, f.exists("agents/agent_a/001/step.json"), "nothing is claimed")
	}
}

// A step that no worker can run ends as one whose server was never reached: the session parks, and
// the step can be resumed. That is so at once where no other worker polls, else after the time of an
// outage.
func TestRunStep_nobodyIsEquipped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		alone   bool
		lacking time.Duration
		parks   bool
	}{
		"alone":              {true, 0, true},
		"not alone":          {false, 9 * time.Minute, false},
		"not alone for long": {false, 10 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFloor(t)
			f.OnLacks = func(context.Context, config.Agent) error {
				return &activities.LackError{Type: activities.NoSandbox, Err: errors.New("no shell")}
			}
			f.OnAlone = func(context.Context) bool { return tt.alone }
			if tt.lacking > 0 {
				f.SetHeartbeatDetails(map[string]any{"lacking": f.Now().Add(-tt.lacking)})
			}
			_, err := f.run(answering())
			var failed *temporal.ApplicationError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, tt.parks, failed.NonRetryable())
			require.Contains(t, failed.Message(), "no shell (worker on ")
			if !tt.parks {
				return
			}
			require.Equal(t, activities.Unequipped, failed.Type())
			var details attempt.Failure
			require.NoError(t, failed.Details(&details))
			require.Equal(t, coordination.Unreached, details.Outage)
		})
	}
}

// If an MCP server does not start, the step is retried a few times and then fails.
func TestRunStep_toolsThatDoNotOpen(t *testing.T) {
	t.Parallel()
	for earlier, final := range map[int]bool{0: false, 1: false, 2: true} {
		f := newFloor(t)
		f.OnOpenTools = func(context.Context, config.Agent, string, activities.Sharing) (step.Tools, error) {
			return nil, &activities.LackError{Type: activities.ToolsUnavailable, Err: errors.New(`connect MCP server "browser": exit status 1`)}
		}
		f.SetHeartbeatDetails(heartbeatDetails{Fruitless: earlier})
		_, err := f.run(answering())
		var failed *temporal.ApplicationError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, activities.ToolsUnavailable, failed.Type())
		require.Equal(t, final, failed.NonRetryable(), "after %d attempts", earlier)
		require.Contains(t, failed.Message(), `connect MCP server "browser": exit status 1`)
	}
}

func TestMemberStep_hasTheModelsWindow(t *testing.T) {
	t.Parallel()
	run := &attempt.Attempt{Ports: step.Ports{Window: 8192}}
	require.Equal(t, 8192, newStep(run, StepInput{}, config.Default(), config.Agent{}).Window)
}

func TestMemberStep_shellAloneHasAWorkspace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ files, shell, has bool }{{true, false, true}, {false, true, true}, {false, false, false}} {
		var agent config.Agent
		agent.Tools.Files, agent.Tools.Shell = tt.files, tt.shell
		m := newStep(&attempt.Attempt{}, StepInput{}, config.Default(), agent)
		require.Equal(t, tt.has, m.Files)
	}
}

// The cost of attempts that died silently is in their journal, even if no heartbeat
// reported it.
func TestRunStep_costOfDeadAttempts(t *testing.T) {
	t.Parallel()
	broken := &llm.Error{Kind: llm.Network, Message: "cut off"}
	f := newFloor(t, calls("list_files", map[string]string{}),
		func(context.Context) (llm.Message, error) { return llm.Message{}, broken })
	_, err := f.run(answering())
	require.ErrorContains(t, err, "cut off", "it would be retried")

	f.SetHeartbeatDetails(heartbeatDetails{Fruitless: 3, Failure: attempt.Failure{Step: 1}})
	_, err = f.run(answering())
	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "NoProgress", failed.Type())
	var detail attempt.Failure
	require.NoError(t, failed.Details(&detail))
	require.Equal(t, llm.Usage{InputTokens: 200, OutputTokens: 20, ModelCalls: 2}, detail.Usage, "including the wasted reply")
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), f.store, "sessions/s1/agents/agent_a/last_action.json")
	require.NoError(t, err)
	require.Equal(t, detail.Usage, last.Cost)
}
