package drive_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"conclave/workflows/drive"
)

// counter is a workflow with an inbox: it ends once it has received enough events, in the
// order of their arrival, and refuses the events named in refuses.
type counter struct {
	preparing bool
	early     bool
	refuses   string
	got       []string
	unread    []string
	inbox     *drive.Inbox[string]
}

func (c *counter) Refuse(event string) error {
	if c.preparing {
		return drive.ErrPreparing
	}
	if c.early {
		return fmt.Errorf("not yet: %w", drive.ErrTooEarly)
	}
	if c.refuses != "" && event == c.refuses {
		return errors.New(event + " makes no sense now")
	}
	return nil
}

func (c *counter) Step(event string) { c.got = append(c.got, event) }

func (c *counter) Reply() any { return len(c.got) }

func (c *counter) Unread(signal, why string) { c.unread = append(c.unread, signal+": "+why) }

var counterVerbs = []drive.Verb[string]{
	{Name: drive.SaySignal, Keys: []string{"text"}, About: "Say.", Input: func(in drive.Request) string { return "said " + in.Text }},
	{Name: drive.RetrySignal, Keys: []string{"agent"}, About: "Retry.", Input: func(in drive.Request) string { return "retry " + in.Agent }},
	{Name: drive.PauseSignal, About: "Pause.", Event: "pause"},
}

// counting returns an environment with a workflow that waits for a number of events.
func counting(t *testing.T, c *counter, events int) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) ([]string, error) {
		inbox, err := drive.Listen(ctx, "count", c, counterVerbs, func() (int, error) { return len(c.got), nil }, func() ([]string, error) { return c.got, nil })
		if err != nil {
			return nil, err
		}
		c.inbox = inbox
		inbox.ReceiveAll()
		for len(c.got) < events && ctx.Err() == nil {
			inbox.Wait(workflow.NewSelector(ctx))
		}
		if ctx.Err() != nil { // the last records of a run take a while
			detached, _ := workflow.NewDisconnectedContext(ctx)
			_ = workflow.Sleep(detached, time.Minute)
		}
		return c.got, ctx.Err()
	}, workflow.RegisterOptions{Name: "Count"})
	return env
}

// reply collects the answer of an update.
type reply struct {
	refused, failed error
	value           any
}

func (r *reply) Accept()                       {}
func (r *reply) Reject(err error)              { r.refused = err }
func (r *reply) Complete(value any, err error) { r.value, r.failed = value, err }
func (r *reply) kind(t *testing.T) (string, string) {
	t.Helper()
	var refused *temporal.ApplicationError
	require.ErrorAs(t, r.refused, &refused)
	require.True(t, refused.NonRetryable())
	return refused.Type(), refused.Message()
}

// Signals that have arrived before the workflow listens are received in the order of the
// verbs, later ones as they arrive.
func TestInbox_signals(t *testing.T) {
	t.Parallel()
	env := counting(t, &counter{}, 4)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(drive.PauseSignal, nil)
		env.SignalWorkflow(drive.SaySignal, drive.Request{Text: "hello"})
	}, 0)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(drive.RetrySignal, drive.Request{Agent: "agent_a"}) }, time.Minute)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(drive.SaySignal, drive.Request{Text: "again"}) }, 2*time.Minute)
	env.ExecuteWorkflow("Count")
	var got []string
	require.NoError(t, env.GetWorkflowResult(&got))
	require.ElementsMatch(t, []string{"said hello", "pause"}, got[:2])
	require.Equal(t, []string{"retry agent_a", "said again"}, got[2:])
}

// A signal that cannot be decoded or has an unknown key is recorded and ignored. The listener
// decides about a signal that it refuses.
func TestInbox_ignoredSignals(t *testing.T) {
	t.Parallel()
	c := &counter{refuses: "pause"}
	env := counting(t, c, 2)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(drive.PauseSignal, nil)
		env.SignalWorkflow(drive.SaySignal, "hello")
		env.SignalWorkflow(drive.SaySignal, map[string]any{"text": 5})
		env.SignalWorkflow(drive.SaySignal, map[string]any{"txet": "hello"})
	}, time.Minute)
	env.RegisterDelayedCallback(func() {
		require.Equal(t, `say: the input has an unknown key "txet": did you mean text?`, c.inbox.Ignored())
		env.SignalWorkflow(drive.SaySignal, drive.Request{Text: "well formed"})
	}, 2*time.Minute)
	env.ExecuteWorkflow("Count")
	var got []string
	require.NoError(t, env.GetWorkflowResult(&got))
	require.Equal(t, []string{"pause", "said well formed"}, got)
	require.Equal(t, []string{
		"say: the input cannot be decoded: it is a string, not an object; give an object with text",
		"say: the input cannot be decoded: text is a number, not a string; give an object with text",
		`say: the input has an unknown key "txet": did you mean text?`,
	}, c.unread)
	require.Empty(t, c.inbox.Ignored(), "a later request was read")
}

// An update returns the listener's reply and wakes the loop.
func TestInbox_update(t *testing.T) {
	t.Parallel()
	env := counting(t, &counter{}, 1)
	var r reply
	env.RegisterDelayedCallback(func() { env.UpdateWorkflow(drive.SaySignal, "u1", &r, drive.Request{Text: "hello"}) }, time.Minute)
	env.ExecuteWorkflow("Count")
	require.NoError(t, env.GetWorkflowError())
	require.NoError(t, r.refused)
	require.NoError(t, r.failed)
	require.Equal(t, 1, r.value)
}

// Every refusal of an update has a type and a reason, and leaves the workflow unchanged.
func TestInbox_refusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		counter      counter
		verb         string
		input        any
		kind, reason string
	}{
		"while it is prepared":   {counter{preparing: true}, drive.PauseSignal, nil, drive.TooEarly, "the count is still being prepared: ask again in a moment, or send a signal, which waits"},
		"a moment too early":     {counter{early: true}, drive.PauseSignal, nil, drive.TooEarly, "not yet: send the request again in a moment"},
		"by the listener":        {counter{refuses: "pause"}, drive.PauseSignal, nil, "Refused", "pause makes no sense now"},
		"a string for an object": {counter{}, drive.SaySignal, "hello", "Refused", "the input cannot be decoded: it is a string, not an object; give an object with text"},
		"a number for a text":    {counter{}, drive.SaySignal, map[string]any{"text": 5}, "Refused", "the input cannot be decoded: text is a number, not a string; give an object with text"},
		"a misspelt key":         {counter{}, drive.SaySignal, map[string]any{"txet": "hello"}, "Refused", `the input has an unknown key "txet": did you mean text?`},
		"a key of another verb":  {counter{}, drive.RetrySignal, map[string]any{"text": "hello"}, "Refused", `the input has an unknown key "text"`},
		"a fault comes first":    {counter{preparing: true}, drive.SaySignal, "hello", "Refused", "the input cannot be decoded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tt.counter
			env := counting(t, &c, 1)
			var r reply
			env.RegisterDelayedCallback(func() { env.UpdateWorkflow(tt.verb, "u1", &r, tt.input) }, time.Minute)
			env.RegisterDelayedCallback(func() {
				require.Empty(t, c.got)
				c.preparing, c.refuses = false, ""
				env.SignalWorkflow(drive.PauseSignal, nil)
			}, 2*time.Minute)
			env.ExecuteWorkflow("Count")
			require.NoError(t, env.GetWorkflowError())
			kind, reason := r.kind(t)
			require.Equal(t, tt.kind, kind)
			require.Contains(t, reason, tt.reason)
		})
	}
}

// A verb without an input accepts any value that is not an object with keys.
func TestInbox_inputOfAVerbWithoutOne(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]any{"nothing": nil, "null": any(nil), "an empty object": map[string]any{}, "a string": "now", "a number": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := counting(t, &counter{}, 1)
			var r reply
			env.RegisterDelayedCallback(func() { env.UpdateWorkflow(drive.PauseSignal, "u1", &r, input) }, time.Minute)
			env.ExecuteWorkflow("Count")
			require.NoError(t, env.GetWorkflowError())
			require.NoError(t, r.refused)
			require.Equal(t, 1, r.value)
		})
	}
}

// A cancelled workflow refuses updates, and its queries are answered after its end.
func TestInbox_cancelled(t *testing.T) {
	t.Parallel()
	c := &counter{}
	env := counting(t, c, 5)
	var r reply
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(drive.PauseSignal, nil) }, time.Minute)
	env.RegisterDelayedCallback(env.CancelWorkflow, 2*time.Minute)
	env.RegisterDelayedCallback(func() { env.UpdateWorkflow(drive.PauseSignal, "u1", &r, nil) }, 2*time.Minute+time.Second)
	env.ExecuteWorkflow("Count")
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()))
	_, reason := r.kind(t)
	require.Equal(t, "the count is cancelled", reason)
	value, err := env.QueryWorkflow(drive.TimelineQuery)
	require.NoError(t, err)
	var got []string
	require.NoError(t, value.Get(&got))
	require.Contains(t, got, "pause")
	value, err = env.QueryWorkflow(drive.StateQuery)
	require.NoError(t, err)
	var n int
	require.NoError(t, value.Get(&n))
	require.Equal(t, len(got), n)
}
