package session_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/session"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// outcome is the scripted end of a step.
type outcome func(acts.StepInput) (acts.StepResult, error)

// gives ends a step with a result, under the agent's next number.
func gives(r acts.StepResult) outcome {
	return func(in acts.StepInput) (acts.StepResult, error) {
		r.Token, r.Step, r.Usage = "default-test-run-id-"+string(in.Launch.ID), in.Launch.After+1, llm.Usage{ModelCalls: 1}
		for _, shown := range in.Launch.Shown {
			r.Seen = append(r.Seen, coordination.Seen{Agent: shown.Agent, Step: shown.Step})
		}
		return r, nil
	}
}

func answers() outcome {
	return gives(acts.StepResult{Outcome: session.Outcome{Action: coordination.NewAnswer}})
}

// votesFor votes for an agent's first answer, having received the messages up to a
// number.
func votesFor(agent string, number, heard int) outcome {
	return gives(acts.StepResult{Outcome: session.Outcome{
		Action: coordination.Vote, Choice: coordination.Choice{Target: agent, TargetLabel: fmt.Sprintf("agent%d.1", number)}, Heard: heard,
	}})
}

// fails ends a step with a final error of the type.
func fails(kind, token string) outcome {
	return func(acts.StepInput) (acts.StepResult, error) {
		return acts.StepResult{}, temporal.NewApplicationErrorWithOptions("no more", kind, temporal.ApplicationErrorOptions{
			NonRetryable: true, Details: []any{attempt.Failure{Step: 1, Token: token, Usage: llm.Usage{ModelCalls: 1}}},
		})
	}
}

// hangs is a step that runs until it is cancelled.
func hangs() outcome {
	return func(acts.StepInput) (acts.StepResult, error) {
		return acts.StepResult{}, activity.ErrResultPending
	}
}

// play is a session with scripted steps for each agent. The test environment's time
// jumps to the next timer when nothing runs.
type play struct {
	*testsuite.TestWorkflowEnvironment
	prepared acts.Prepared
	scripts  map[string][]outcome

	preparing func()                 // while Prepare runs; may be nil
	recording func(acts.RecordInput) // while Record runs; may be nil
	log       log                    // the workflow's calls of the SDK

	waiting int // events still to come

	mu        sync.Mutex
	launched  []coordination.Launch
	records   []acts.RecordInput
	presented []acts.PresentInput
	reckoned  []acts.ReckonInput

	found attempt.Failure // by a reckoning; its default token is that of the step
}

const (
	sessionTime = 7200 // seconds
	grace       = 120
)

func newPlay(c coordination.Config, scripts map[string][]outcome) *play {
	c.Agents = slices.Sorted(maps.Keys(scripts))
	p := &play{scripts: scripts, prepared: acts.Prepared{
		Coordination: c, TimeoutSeconds: sessionTime, GraceSeconds: grace,
	}}
	var suite testsuite.WorkflowTestSuite
	p.TestWorkflowEnvironment = suite.NewTestWorkflowEnvironment()
	p.SetTestTimeout(2 * time.Minute)
	p.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&p.log, &workflows.SignalOrder{}}})
	p.RegisterActivityWithOptions(p.prepare, activity.RegisterOptions{Name: "Prepare"})
	p.RegisterActivityWithOptions(p.step, activity.RegisterOptions{Name: "RunStep"})
	p.RegisterActivityWithOptions(p.record, activity.RegisterOptions{Name: "Record"})
	p.RegisterActivityWithOptions(p.present, activity.RegisterOptions{Name: "Present"})
	p.RegisterActivityWithOptions(p.reckon, activity.RegisterOptions{Name: "Reckon"})
	p.RegisterWorkflowWithOptions(sessionflow.Workflow, workflow.RegisterOptions{Name: sessionflow.Type})
	return p
}

func (p *play) prepare(context.Context, acts.PrepareInput) (acts.Prepared, error) {
	if p.preparing != nil {
		p.preparing()
	}
	return p.prepared, nil
}

func (p *play) step(_ context.Context, in acts.StepInput) (acts.StepResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.launched = append(p.launched, in.Launch)
	script := p.scripts[in.Launch.Agent]
	if len(script) == 0 {
		return acts.StepResult{}, temporal.NewNonRetryableApplicationError("the script is over", "Script", nil)
	}
	p.scripts[in.Launch.Agent] = script[1:]
	return script[0](in)
}

func (p *play) record(_ context.Context, in acts.RecordInput) error {
	if p.recording != nil {
		p.recording(in)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, in)
	return nil
}

func (p *play) present(_ context.Context, in acts.PresentInput) (acts.Presented, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.presented = append(p.presented, in)
	return acts.Presented{Answer: "The answer.", Path: "s3://bucket/final"}, nil
}

func (p *play) reckon(_ context.Context, in acts.ReckonInput) (attempt.Failure, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reckoned = append(p.reckoned, in)
	found := p.found
	found.Token = cmp.Or(found.Token, in.Token)
	return found, nil
}

// at calls do after a number of seconds, which the session must outlast.
func (p *play) at(seconds int, do func()) {
	p.waiting++
	p.RegisterDelayedCallback(func() { p.waiting--; do() }, time.Duration(seconds)*time.Second)
}

// asks sends an update, requires that it is accepted, and passes the resulting State
// to check.
func (p *play) asks(t *testing.T, name string, in any, check func(acts.State)) {
	t.Helper()
	p.update(name, in, func(state any, err error) {
		require.NoError(t, err, name)
		if check != nil {
			check(state.(acts.State))
		}
	})
}

// isRefused sends an update and requires that it is refused for a reason.
func (p *play) isRefused(t *testing.T, name string, in any, reason string) {
	t.Helper()
	p.update(name, in, func(_ any, err error) {
		var refused *temporal.ApplicationError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, "Refused", refused.Type())
		require.True(t, refused.NonRetryable())
		require.ErrorContains(t, err, reason)
	})
}

func (p *play) update(name string, in any, answered func(any, error)) {
	var args []any
	if in != nil {
		args = append(args, in)
	}
	p.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{
		OnReject:   func(err error) { answered(nil, err) },
		OnComplete: answered,
	}, args...)
}

// run plays the session to its end.
func (p *play) run(t *testing.T) sessionflow.Result {
	t.Helper()
	return p.runFrom(t, sessionflow.Input{Query: "Who?", SessionID: "s1"})
}

// runFrom plays the session with an input to its end.
func (p *play) runFrom(t *testing.T, in sessionflow.Input) sessionflow.Result {
	t.Helper()
	p.ExecuteWorkflow(sessionflow.Type, in)
	require.True(t, p.IsWorkflowCompleted())
	require.NoError(t, p.GetWorkflowError())
	require.Zero(t, p.waiting, "the session was over before all had happened")
	var result sessionflow.Result
	require.NoError(t, p.GetWorkflowResult(&result))
	return result
}

// runOn plays a session until it continues as new, and returns the input of the next
// run.
func (p *play) runOn(t *testing.T, in sessionflow.Input) sessionflow.Input {
	t.Helper()
	p.ExecuteWorkflow(sessionflow.Type, in)
	require.True(t, p.IsWorkflowCompleted())
	require.Zero(t, p.waiting, "the run was over before all had happened")
	var continued *workflow.ContinueAsNewError
	require.ErrorAs(t, p.GetWorkflowError(), &continued)
	var next sessionflow.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(continued.Input, &next))
	return next
}

func (p *play) state(t *testing.T) acts.State {
	t.Helper()
	value, err := p.QueryWorkflow(workflows.StateQuery)
	require.NoError(t, err)
	var state acts.State
	require.NoError(t, value.Get(&state))
	return state
}

// details returns the Markdown in the Web UI.
func (p *play) details(t *testing.T) string {
	t.Helper()
	value, err := p.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(t, value.Get(&metadata))
	return metadata.GetCurrentDetails()
}

// steps returns the launches as agent and purpose or token.
func (p *play) steps() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, l := range p.launched {
		list = append(list, l.Agent+" "+string(l.Purpose)+l.ResumeFrom)
	}
	slices.Sort(list)
	return list
}

// recorded returns the last Record.
func (p *play) recorded() acts.RecordInput {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.records) == 0 {
		return acts.RecordInput{}
	}
	return p.records[len(p.records)-1]
}

// texts returns the timeline's lines for people.
func (p *play) texts(t *testing.T) []string {
	t.Helper()
	value, err := p.QueryWorkflow(workflows.TimelineQuery)
	require.NoError(t, err)
	var entries []coordination.Entry
	require.NoError(t, value.Get(&entries))
	var list []string
	for _, e := range entries {
		list = append(list, e.Text)
	}
	return list
}

// log records the workflow's calls of the SDK in order.
type log struct {
	// dead simulates a lost worker: a cancelled step ends with a heartbeat timeout.
	dead bool

	interceptor.WorkerInterceptorBase
	upserts []upsert
	timers  []string           // summaries
	steps   []workflow.Context // those of the steps started
}

// upsert is one change of the memo.
type upsert struct {
	values    map[string]any
	cancelled int // how many steps were cancelled before it
}

// bells returns the doorbells in order.
func (l *log) bells() []coordination.Ring {
	var list []coordination.Ring
	for _, u := range l.upserts {
		if bell, ok := u.values[workflows.MemoDoorbell]; ok {
			list = append(list, bell.(coordination.Ring))
		}
	}
	return list
}

// memo returns the present value of a key of the memo.
func (l *log) memo(key string) any {
	for _, u := range slices.Backward(l.upserts) {
		if value, ok := u.values[key]; ok {
			return value
		}
	}
	return nil
}

func (l *log) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, log: l}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	log *log
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: next}, log: i.log})
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	log *log
}

func (o *outbound) UpsertMemo(ctx workflow.Context, values map[string]any) error {
	u := upsert{values: maps.Clone(values)}
	for _, step := range o.log.steps {
		if errors.Is(step.Err(), workflow.ErrCanceled) {
			u.cancelled++
		}
	}
	o.log.upserts = append(o.log.upserts, u)
	return o.Next.UpsertMemo(ctx, values)
}

func (o *outbound) NewTimerWithOptions(ctx workflow.Context, d time.Duration, options workflow.TimerOptions) workflow.Future {
	o.log.timers = append(o.log.timers, options.Summary)
	return o.Next.NewTimerWithOptions(ctx, d, options)
}

func (o *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if name != "RunStep" {
		return o.Next.ExecuteActivity(ctx, name, args...)
	}
	o.log.steps = append(o.log.steps, ctx)
	if o.log.dead {
		return died(ctx)
	}
	return o.Next.ExecuteActivity(ctx, name, args...)
}

// died returns a step that ends with a timeout once it is cancelled.
func died(ctx workflow.Context) workflow.Future {
	future, set := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		set.SetError(temporal.NewHeartbeatTimeoutError())
	})
	return future
}
