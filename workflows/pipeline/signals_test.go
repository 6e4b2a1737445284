package pipeline_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/pipeline"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	"conclave/workflows/stagetest"
)

// Signals of one workflow task are taken in the order of arrival, whenever they arrive.
func TestPipeline_signalsInOneTask(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signals []string
		paused  bool
	}{
		"pause, resume":        {[]string{"pause", "resume"}, false},
		"resume, pause":        {[]string{"resume", "pause"}, true},
		"pause, resume, pause": {[]string{"pause", "resume", "pause"}, true},
		"retry, pause, resume": {[]string{"retry", "pause", "resume"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPipeline(t, map[string][]any{"agent_a": {stagetest.Text("written")}, "agent_b": {stagetest.Text("exported")}})
			s.RegisterDelayedCallback(func() {
				for _, verb := range tt.signals {
					s.SignalWorkflowSkippingWorkflowTask(verb, nil)
				}
				s.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "Use tabs."})
			}, 0)
			waited := false
			s.RegisterDelayedCallback(func() { // time passes only while nothing runs
				waited = true
				require.True(t, stagetest.State[acts.State](t, s).Paused)
				s.SignalWorkflow(workflows.ResumeSignal, nil)
			}, time.Hour)
			result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
			require.Equal(t, pipeline.Completed, result.Status)
			require.Equal(t, tt.paused, waited)
		})
	}
}

// The signals that wait when a run continues as new are carried into the next one.
func TestPipeline_signalsAtContinueAsNew(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, map[string][]any{"agent_a": {stagetest.Text("written")}, "agent_b": nil})
	s.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
		if info.ActivityType.Name == acts.StepActivity {
			s.SetContinueAsNewSuggested(true)
			for _, verb := range []string{"pause", "resume", "pause", "resume"} {
				s.SignalWorkflowSkippingWorkflowTask(verb, nil)
			}
			s.SignalWorkflowSkippingWorkflowTask(workflows.SaySignal, workflows.Request{Text: "Use tabs."})
		}
	})
	s.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	var continued *workflow.ContinueAsNewError
	require.ErrorAs(t, s.GetWorkflowError(), &continued)
	var in pipelineflow.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(continued.Input, &in))

	next := nextPipeline(t, s.Store, map[string][]any{"agent_a": nil, "agent_b": {stagetest.Text("exported")}})
	next.SetContinuedExecutionRunID("default-test-run-id")
	var told string
	next.Cast["agent_b"].Saw = func(_ int, req llm.Request) {
		for _, m := range req.Messages {
			told += m.Content
		}
	}
	require.Equal(t, "main/completed export/completed", traceOf(runPipeline(t, next, in)))
	require.Contains(t, told, "Use tabs.")
}

// A verb for the team of a step is sent once the one before has arrived, because the server may deliver two that are
// on their way in either order.
func TestPipeline_verbsOfATeam(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, stagetest.Seed())
	s.SetWorkerOptions(worker.Options{
		Interceptors:             []interceptor.WorkerInterceptor{&overtaking{}, &workflows.SignalOrder{}},
		DeadlockDetectionTimeout: time.Minute,
	})
	s.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "AskTeam" {
			s.SignalWorkflow(workflows.PauseSignal, nil)
			s.SignalWorkflow(workflows.ResumeSignal, nil)
		}
	})
	s.RegisterDelayedCallback(s.CancelWorkflow, time.Hour) // of a run that is stuck
	result := runPipeline(t, s, pipelineflow.Input{Request: "Who?", ID: "p1", Config: json.RawMessage(deciding)})
	require.Equal(t, "decide/completed", traceOf(result))
}

// overtaking delivers the signals that are on their way to a child workflow in the reverse order.
type overtaking struct {
	interceptor.WorkerInterceptorBase
}

func (*overtaking) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &overtakingInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type overtakingInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (i *overtakingInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&overtakingOutbound{WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: next}})
}

type overtakingOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	underway []func(ctx workflow.Context)
}

func (o *overtakingOutbound) SignalChildWorkflow(ctx workflow.Context, workflowID, name string, arg any) workflow.Future {
	future, set := workflow.NewFuture(ctx)
	o.underway = append(o.underway, func(ctx workflow.Context) {
		set.Set(nil, o.Next.SignalChildWorkflow(ctx, workflowID, name, arg).Get(ctx, nil))
	})
	if len(o.underway) == 1 {
		workflow.Go(ctx, func(ctx workflow.Context) { // runs when the workflow waits
			sent := o.underway
			o.underway = nil
			for _, deliver := range slices.Backward(sent) {
				deliver(ctx)
			}
		})
	}
	return future
}
