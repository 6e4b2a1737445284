package workflows_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/workflows"
)

// counter is a workflow with an inbox: it ends once it has received enough events, in the
// order of their arrival, and refuses the events named in refuses.
type counter struct {
	preparing bool
	early     bool
	over      bool
	refuses   string
	judge     func(event string) error // may be nil
	keep      func(workflow.Context)   // may be nil
	got       []string
	unread    []string
	inbox     *workflows.Inbox[string]
}

func (c *counter) Refuse(event string) error {
	if c.preparing {
		return workflows.ErrPreparing
	}
	if c.early {
		return fmt.Errorf("not yet: %w", workflows.ErrTooEarly)
	}
	if c.refuses != "" && event == c.refuses {
		return errors.New(event + " makes no sense now")
	}
	if c.judge != nil {
		return c.judge(event)
	}
	return nil
}

func (c *counter) Step(event string) { c.got = append(c.got, event) }

func (c *counter) Keep(ctx workflow.Context) {
	if c.keep != nil {
		c.keep(ctx)
	}
}

func (c *counter) Reply() any { return len(c.got) }

func (c *counter) Over() bool { return c.over }

func (c *counter) Unread(signal, why string) { c.unread = append(c.unread, signal+": "+why) }

var counterVerbs = []workflows.Verb[string]{
	{Name: workflows.SaySignal, Kept: true, Keys: []string{"text"}, About: "Say.", Input: func(in workflows.Request) string { return "said " + in.Text }},
	{Name: workflows.RetrySignal, Keys: []string{"agent"}, About: "Retry.", Input: func(in workflows.Request) string { return "retry " + in.Agent }},
	{Name: workflows.PauseSignal, About: "Pause.", Event: "pause"},
}

// counting returns an environment with a workflow that waits for a number of events.
func counting(t *testing.T, c *counter, events int) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&workflows.SignalOrder{}}})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) ([]string, error) {
		inbox, err := workflows.Listen(ctx, "count", c, counterVerbs, func() (int, error) { return len(c.got), nil }, func() ([]string, error) { return c.got, nil })
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

// kind returns the type and the reason of a refusal, by the validator or, after signals, by the update itself.
func (r *reply) kind(t *testing.T) (string, string) {
	t.Helper()
	var refused *temporal.ApplicationError
	require.ErrorAs(t, errors.Join(r.refused, r.failed), &refused)
	require.True(t, refused.NonRetryable())
	return refused.Type(), refused.Message()
}

// Signals are received in the order of their arrival, also those that came before the workflow
// listened.
func TestInbox_signals(t *testing.T) {
	t.Parallel()
	env := counting(t, &counter{}, 4)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflowSkippingWorkflowTask(workflows.PauseSignal, nil)
		env.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "hello"})
	}, 0)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.RetrySignal, workflows.Request{Agent: "agent_a"}) }, time.Minute)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "again"}) }, 2*time.Minute)
	env.ExecuteWorkflow("Count")
	var got []string
	require.NoError(t, env.GetWorkflowResult(&got))
	require.Equal(t, []string{"pause", "said hello", "retry agent_a", "said again"}, got)
}

// Whatever share of a sequence one workflow task has, and whatever else is in it, the verbs are received in
// their order, once, and the faults are recorded in theirs.
func TestInbox_orderOfArrival(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			chance := rand.New(rand.NewPCG(seed, 1))
			c := &counter{}
			var want, unread []string
			var deliver []func(env *testsuite.TestWorkflowEnvironment, alone bool)
			send := func(name string, input any) {
				deliver = append(deliver, func(env *testsuite.TestWorkflowEnvironment, alone bool) {
					if alone {
						env.SignalWorkflow(name, input)
						return
					}
					env.SignalWorkflowSkippingWorkflowTask(name, input)
				})
			}
			for n := range 30 {
				switch chance.IntN(7) {
				case 0:
					send(workflows.PauseSignal, nil)
					want = append(want, "pause")
				case 1, 2:
					send(workflows.SaySignal, workflows.Request{Text: strconv.Itoa(n)})
					want = append(want, fmt.Sprint("said ", n))
				case 3:
					send(workflows.RetrySignal, workflows.Request{Agent: strconv.Itoa(n)})
					want = append(want, fmt.Sprint("retry ", n))
				case 4:
					send(workflows.SaySignal, []byte{0xff, 0xfe})
					unread = append(unread, "say: the input cannot be decoded: it is not JSON; give an object with text")
				case 5:
					send(workflows.RetrySignal, map[string]any{"angent": n})
					unread = append(unread, `retry: the input has an unknown key "angent": did you mean agent?`)
				case 6:
					send("dance", n)
				}
			}
			send(workflows.SaySignal, workflows.Request{Text: "the last"})
			want = append(want, "said the last")
			env := counting(t, c, len(want))
			second := 0
			for n, do := range deliver {
				alone := n == len(deliver)-1 || chance.IntN(3) == 0
				env.RegisterDelayedCallback(func() { do(env, alone) }, time.Duration(second)*time.Second)
				if alone {
					second++
				}
			}
			env.ExecuteWorkflow("Count")
			var got []string
			require.NoError(t, env.GetWorkflowResult(&got))
			require.Equal(t, want, got)
			require.Equal(t, unread, c.unread)
		})
	}
}

// An update is judged and applied after the signals of its workflow task.
func TestInbox_updateAfterSignals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signals []string
		update  string
		got     []string
		refused string
	}{
		"it is the last":              {[]string{workflows.PauseSignal}, workflows.SaySignal, []string{"pause", "said u"}, ""},
		"a signal makes it possible":  {[]string{workflows.PauseSignal}, workflows.RetrySignal, []string{"pause", "retry "}, ""},
		"a signal makes it senseless": {[]string{workflows.SaySignal, workflows.PauseSignal}, workflows.PauseSignal, []string{"said s", "pause"}, "pause came already"},
		"it is senseless by itself":   {nil, workflows.RetrySignal, nil, "nothing is paused"},
		"an unknown signal":           {[]string{"dance"}, workflows.RetrySignal, nil, "nothing is paused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &counter{}
			c.judge = func(event string) error {
				paused := slices.Contains(c.got, "pause")
				switch {
				case event == "pause" && paused:
					return errors.New("pause came already")
				case event == "retry " && !paused:
					return errors.New("nothing is paused")
				}
				return nil
			}
			env := counting(t, c, 5)
			var r reply
			inputs := map[string]any{workflows.SaySignal: workflows.Request{Text: "s"}}
			env.RegisterDelayedCallback(func() {
				for _, name := range tt.signals {
					env.SignalWorkflowSkippingWorkflowTask(name, inputs[name])
				}
				inputs[workflows.SaySignal] = workflows.Request{Text: "u"}
				env.UpdateWorkflow(tt.update, "u1", &r, inputs[tt.update])
			}, time.Minute)
			env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
			env.ExecuteWorkflow("Count")
			require.Equal(t, tt.got, c.got)
			if tt.refused == "" {
				require.NoError(t, errors.Join(r.refused, r.failed))
				require.Equal(t, len(tt.got), r.value)
				return
			}
			_, reason := r.kind(t)
			require.Equal(t, tt.refused, reason)
		})
	}
}

// A run with an outcome reads no more signals, and refuses an update as it would without them.
func TestInbox_over(t *testing.T) {
	t.Parallel()
	c := &counter{refuses: "pause"}
	env := counting(t, c, 1)
	var r reply
	env.RegisterDelayedCallback(func() {
		c.over = true
		env.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "late"})
		env.UpdateWorkflow(workflows.PauseSignal, "u1", &r, nil)
	}, time.Minute)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
	env.ExecuteWorkflow("Count")
	require.Empty(t, c.got)
	require.ErrorContains(t, r.refused, "pause makes no sense now")
}

// A worker without the interceptor cannot keep the order of signals. It fails a workflow at its start.
func TestInbox_withoutSignalOrder(t *testing.T) {
	t.Parallel()
	env := counting(t, &counter{}, 1)
	env.SetWorkerOptions(worker.Options{})
	env.ExecuteWorkflow("Count")
	require.ErrorContains(t, env.GetWorkflowError(), "this worker does not keep the order of signals: add workflows.SignalOrder to its interceptors")
}

// The handlers of signals have their descriptions, and nobody is told of others.
func TestInbox_metadata(t *testing.T) {
	t.Parallel()
	env := counting(t, &counter{}, 1)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.PauseSignal, nil) }, time.Minute)
	env.ExecuteWorkflow("Count")
	value, err := env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(t, value.Get(&metadata))
	var about []string
	for _, d := range metadata.GetDefinition().GetSignalDefinitions() {
		about = append(about, d.GetName()+": "+d.GetDescription())
	}
	require.Equal(t, []string{"pause: Pause.", "retry: Retry.", "say: Say."}, about)
}

// A signal that cannot be decoded or has an unknown key is recorded and ignored. The listener
// decides about a signal that it refuses.
func TestInbox_ignoredSignals(t *testing.T) {
	t.Parallel()
	c := &counter{refuses: "pause"}
	env := counting(t, c, 2)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(workflows.PauseSignal, nil)
		env.SignalWorkflow(workflows.SaySignal, "hello")
		env.SignalWorkflow(workflows.SaySignal, map[string]any{"text": 5})
		env.SignalWorkflow(workflows.SaySignal, map[string]any{"txet": "hello"})
	}, time.Minute)
	env.RegisterDelayedCallback(func() {
		require.Equal(t, `say: the input has an unknown key "txet": did you mean text?`, c.inbox.Ignored())
		env.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "well formed"})
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
	env.RegisterDelayedCallback(func() { env.UpdateWorkflow(workflows.SaySignal, "u1", &r, workflows.Request{Text: "hello"}) }, time.Minute)
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
		"while it is prepared":   {counter{preparing: true}, workflows.PauseSignal, nil, workflows.TooEarly, "the count is still being prepared: ask again in a moment, or send a signal, which waits"},
		"a moment too early":     {counter{early: true}, workflows.PauseSignal, nil, workflows.TooEarly, "not yet: send the request again in a moment"},
		"by the listener":        {counter{refuses: "pause"}, workflows.PauseSignal, nil, "Refused", "pause makes no sense now"},
		"a string for an object": {counter{}, workflows.SaySignal, "hello", "Refused", "the input cannot be decoded: it is a string, not an object; give an object with text"},
		"a number for a text":    {counter{}, workflows.SaySignal, map[string]any{"text": 5}, "Refused", "the input cannot be decoded: text is a number, not a string; give an object with text"},
		"a misspelt key":         {counter{}, workflows.SaySignal, map[string]any{"txet": "hello"}, "Refused", `the input has an unknown key "txet": did you mean text?`},
		"a key of another verb":  {counter{}, workflows.RetrySignal, map[string]any{"text": "hello"}, "Refused", `the input has an unknown key "text"`},
		"a fault comes first":    {counter{preparing: true}, workflows.SaySignal, "hello", "Refused", "the input cannot be decoded"},
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
				env.SignalWorkflow(workflows.PauseSignal, nil)
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
			env.RegisterDelayedCallback(func() { env.UpdateWorkflow(workflows.PauseSignal, "u1", &r, input) }, time.Minute)
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
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.PauseSignal, nil) }, time.Minute)
	env.RegisterDelayedCallback(env.CancelWorkflow, 2*time.Minute)
	env.RegisterDelayedCallback(func() { env.UpdateWorkflow(workflows.PauseSignal, "u1", &r, nil) }, 2*time.Minute+time.Second)
	env.ExecuteWorkflow("Count")
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()))
	_, reason := r.kind(t)
	require.Equal(t, "the count is cancelled", reason)
	value, err := env.QueryWorkflow(workflows.TimelineQuery)
	require.NoError(t, err)
	var got []string
	require.NoError(t, value.Get(&got))
	require.Contains(t, got, "pause")
	value, err = env.QueryWorkflow(workflows.StateQuery)
	require.NoError(t, err)
	var n int
	require.NoError(t, value.Get(&n))
	require.Equal(t, len(got), n)
}

// An update that waits while the verbs are registered, as at the beginning of a run that goes on,
// comes after the signals of all verbs, whatever their order in the list.
func TestInbox_updateWhileListening(t *testing.T) {
	t.Parallel()
	c := &counter{}
	env := counting(t, c, 3)
	var r reply
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflowSkippingWorkflowTask(workflows.PauseSignal, nil)
		env.SignalWorkflowSkippingWorkflowTask(workflows.RetrySignal, workflows.Request{Agent: "a"})
		env.UpdateWorkflow(workflows.SaySignal, "u1", &r, workflows.Request{Text: "u"})
	}, 0)
	env.ExecuteWorkflow("Count")
	require.NoError(t, env.GetWorkflowError())
	require.NoError(t, r.refused)
	require.Equal(t, []string{"pause", "retry a", "said u"}, c.got)
}
