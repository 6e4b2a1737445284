package drive

import (
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// SignalOrder is the interceptor that keeps the order in which signals arrive for Inbox. The SDK has
// a channel for each name, so their order would be lost before a workflow reads them. Every worker,
// replayer and test environment that runs a workflow with an Inbox needs it.
type SignalOrder struct {
	interceptor.WorkerInterceptorBase
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*SignalOrder) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &arrivals{
		WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next},
		wake:                           workflow.NewNamedBufferedChannel(ctx, "requests", 1),
	}
}

// arrivals has the order of the signals of one run that wait in the SDK's channels.
type arrivals struct {
	interceptor.WorkflowInboundInterceptorBase
	names []string         // the oldest first
	wake  workflow.Channel // wakes the loop after a signal or an update; if it is full, it will anyway
}

type arrivalsKey struct{}

// HandleSignal is called before the coroutines of a workflow task run, also before the first one.
func (a *arrivals) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	if err := a.Next.HandleSignal(ctx, in); err != nil {
		return err
	}
	a.names = append(a.names, in.SignalName)
	a.wake.SendAsync(true)
	return nil
}

// ExecuteWorkflow passes the order to Listen.
func (a *arrivals) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	return a.Next.ExecuteWorkflow(workflow.WithValue(ctx, arrivalsKey{}, a), in)
}
