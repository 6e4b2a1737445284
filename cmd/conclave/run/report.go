package runs

import (
	"context"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
)

// Reporter has the differences between kinds whose runs a command follows: R is the result of a run,
// and S its state as the workflow's query returns it.
type Reporter[R, S any] interface {
	// NewResult returns the result of a run that is open or that Temporal has ended.
	NewResult(run Run, status string, why *artifact.Error) R
	// CompleteResult adds the last known state to such a result.
	CompleteResult(run Run, r R, last S) R
	// NewDisplay returns the display of a followed run.
	NewDisplay(conn *cli.Connection, run Run) cli.Display
	// NewView returns a function that describes the states of a followed run one after another.
	NewView(conn *cli.Connection, run Run) View[S]
	// PrintResult prints the result of a run that has ended, and returns the exit code as an error.
	PrintResult(ctx context.Context, conn *cli.Connection, run Run, r R) error
	// PrintStatus prints the state of a run.
	PrintStatus(ctx context.Context, conn *cli.Connection, run Run) error
	Requests
}

// View describes a state of a followed run, without activities and times.
type View[S any] func(ctx context.Context, f *Follower, state S) cli.Snapshot

// Reported has the actions of a kind with a Reporter.
type Reported[R, S any] struct{ Reporter[R, S] }

// Await waits for the end of a run. If Temporal cut it off, the last known state completes the result.
func (k Reported[R, S]) Await(ctx context.Context, conn *cli.Connection, run Run) (R, error) {
	cut := false
	r, err := Await(ctx, conn, run, func(run Run, status string, why *artifact.Error) R {
		cut = CutOff(why)
		return k.NewResult(run, status, why)
	})
	if err == nil && cut {
		r = k.CompleteResult(run, r, readLastState[S](ctx, conn, run))
	}
	return r, err
}

// readLastState returns the state of a run, or the last recorded one if no worker answers.
func readLastState[S any](ctx context.Context, conn *cli.Connection, run Run) (state S) {
	if answered, _ := QueryState(ctx, conn, run, &state); !answered {
		state, _ = ReadRecord[S](ctx, conn, run)
	}
	return state
}

// ReadRecord reads the last recorded state of a run. If the input of the run was refused, another
// run with the same ID may have recorded a state; that state is ignored.
func ReadRecord[S any](ctx context.Context, conn *cli.Connection, run Run) (state S, ok bool) {
	if conn.Store == nil || run.Refused() {
		return state, false
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	state, err := artifact.ReadJSON[S](ctx, conn.Store, run.Stored().Layout.File(run.Kind.Status))
	return state, err == nil
}

// AwaitEnd implements Actions.
func (k Reported[R, S]) AwaitEnd(ctx context.Context, conn *cli.Connection, run Run) (result any, err error) {
	return k.Await(ctx, conn, run)
}

// OpenResult implements Actions.
func (k Reported[R, S]) OpenResult(ctx context.Context, conn *cli.Connection, run Run) any {
	return k.CompleteResult(run, k.NewResult(run, run.Shown(), nil), readLastState[S](ctx, conn, run))
}

// PrintEnd implements Actions.
func (k Reported[R, S]) PrintEnd(ctx context.Context, conn *cli.Connection, run Run) error {
	r, err := k.Await(ctx, conn, run)
	if err != nil {
		return LeaveOpen(ctx, conn, run, k.NewResult(run, workflows.Running, nil), err)
	}
	return k.PrintResult(ctx, conn, run, r)
}

// Watch implements Actions.
func (k Reported[R, S]) Watch(ctx context.Context, conn *cli.Connection, run Run) error {
	display := k.NewDisplay(conn, run)
	if spent := BeforeReset(ctx, conn, run); spent != "" {
		display.Note(spent)
	}
	var last S
	r, err := k.Follow(ctx, conn, run, display, func(state S) { last = state })
	if err == nil {
		return k.PrintResult(ctx, conn, run, r)
	}
	status := workflows.Running
	if errors.Is(err, ErrParked) {
		status = workflows.Parked
	} else if errors.Is(err, ErrWaiting) {
		status = string(coordination.PhaseWaitingForPerson)
	}
	return LeaveOpen(ctx, conn, run, k.CompleteResult(run, k.NewResult(run, status, nil), last), err)
}

// Follow shows a run until it ends and returns its result. It passes every state to see.
func (k Reported[R, S]) Follow(ctx context.Context, conn *cli.Connection, run Run, d cli.Display, see func(S)) (R, error) {
	view := k.NewView(conn, run)
	return Follow(ctx, conn, run, d, func(ctx context.Context, f *Follower) (cli.Snapshot, error) {
		var state S
		if err := f.Query(ctx, workflows.StateQuery, &state); err != nil {
			return cli.Snapshot{}, err
		}
		see(state)
		return view(ctx, f, state), nil
	}, func(ctx context.Context) (R, error) { return k.Await(ctx, conn, run) })
}

// BeforeReset returns a line with the cost of a workflow's earlier runs that resets ended. The
// present run's cost includes only those of their steps that the reset kept. The line is empty
// if the workflow was never reset or the cost is unreadable.
func BeforeReset(ctx context.Context, conn *cli.Connection, run Run) string {
	if !run.reset {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	reply, err := conn.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = '%s' AND ExecutionStatus != 'Running' AND ExecutionStatus != 'ContinuedAsNew'", run.Workflow),
	})
	if err != nil {
		return ""
	}
	var sum llm.Usage
	for _, e := range reply.GetExecutions() {
		sum = sum.Add(earlierUsage(ctx, conn, run, e.GetExecution()))
	}
	if sum.ModelCalls == 0 {
		return ""
	}
	return "earlier runs, before a reset: " + cli.Cost(sum)
}

// earlierUsage returns the usage of an earlier run of a workflow from its state. It returns
// zero for the present run.
func earlierUsage(ctx context.Context, conn *cli.Connection, run Run, of *commonpb.WorkflowExecution) llm.Usage {
	if of.GetRunId() == run.execution {
		return llm.Usage{}
	}
	var state struct{ Cost, Usage llm.Usage }
	value, err := conn.Client.QueryWorkflow(ctx, run.Workflow, of.GetRunId(), workflows.StateQuery)
	if err != nil || value.Get(&state) != nil {
		return llm.Usage{}
	}
	return state.Cost.Add(state.Usage)
}

// The error types of runs that were ended from outside.
const (
	terminated = "Terminated"
	cancelled  = "Cancelled"
	timedOut   = "WorkflowTimeout"
)

const ranOut = "the timeout with which the workflow was started ran out"

// endOf returns how Temporal ended a workflow. For a cancelled one cause is nil.
func endOf(kind *Kind, err error) (status string, cause *artifact.Error) {
	if _, ok := errors.AsType[*temporal.CanceledError](err); ok {
		return workflows.Cancelled, nil
	}
	cause = &artifact.Error{Type: "WorkflowFailed", Message: err.Error()}
	if _, ok := errors.AsType[*temporal.TerminatedError](err); ok {
		cause = &artifact.Error{Type: terminated, Message: "the workflow was terminated"}
	} else if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		cause = &artifact.Error{Type: application.Type(), Message: application.Message()}
	} else if _, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		cause = &artifact.Error{Type: timedOut, Message: ranOut}
	}
	return kind.Failed, cause
}

// EndError returns the reason why Temporal ended a run, including the message of the person who cancelled or
// terminated it. It returns nil for an open run and for one that ended by itself.
func EndError(ctx context.Context, conn *cli.Connection, run Run) *artifact.Error {
	switch run.closed {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return closingError(ctx, conn, run)
	}
	return nil
}

// CutOff reports whether the error means that a run was terminated or timed out and
// could not write its result.
func CutOff(why *artifact.Error) bool {
	return why != nil && (why.Type == terminated || why.Type == timedOut)
}

// canGoOn reports whether an ended run can be continued: it was prepared, it failed, is undecided or
// was cancelled, and retry would not refuse it.
func (r Run) canGoOn(ctx context.Context, conn *cli.Connection) bool {
	_, prepared := r.Memo.GetFields()[workflows.MemoPaused]
	if !prepared || r.Refused() || r.Status != r.Kind.Failed && r.Status != workflows.Cancelled && !r.isUndecided() {
		return false
	}
	if r.Kind.Actions == nil {
		return true
	}
	_, err := r.Kind.ReopenInput(ctx, conn, r, workflows.Request{})
	return err == nil
}

// Refused reports whether the run failed because a worker refused its input.
func (r Run) Refused() bool { return r.closed == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED }

// closingError reads the reason from the last events of a run. It returns nil if they are unreadable.
func closingError(ctx context.Context, conn *cli.Connection, run Run) *artifact.Error {
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	const enough = 100 // events; a cancelled run ends soon after the request
	reply, err := conn.Client.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: conn.Options.Namespace, MaximumPageSize: enough, Execution: &commonpb.WorkflowExecution{WorkflowId: run.Workflow},
	})
	if err != nil {
		return nil
	}
	return describeEnd(reply.GetHistory().GetEvents())
}

func describeEnd(events []*historypb.HistoryEvent) *artifact.Error {
	if len(events) == 0 {
		return nil
	}
	last := events[0]
	switch last.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		a := last.GetWorkflowExecutionTerminatedEventAttributes()
		return &artifact.Error{Type: terminated, Message: "terminated" + byWhom(a.GetIdentity(), a.GetReason())}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		for _, e := range events {
			if a := e.GetWorkflowExecutionCancelRequestedEventAttributes(); a != nil {
				return &artifact.Error{Type: cancelled, Message: "cancelled" + byWhom(a.GetIdentity(), a.GetCause())}
			}
		}
		return &artifact.Error{Type: cancelled, Message: "cancelled"}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return &artifact.Error{Type: timedOut, Message: ranOut}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		f := last.GetWorkflowExecutionFailedEventAttributes().GetFailure()
		return &artifact.Error{Type: f.GetApplicationFailureInfo().GetType(), Message: f.GetMessage()}
	}
	return nil
}

func byWhom(identity, words string) string {
	said := ""
	if identity != "" {
		said = " by " + identity
	}
	if words != "" {
		said += ": " + words
	}
	return said
}

// EndLine returns a line for people about why a run ended, or "" if there is no reason.
func EndLine(status string, why *artifact.Error) string {
	switch {
	case why == nil || why.Message == "":
		return ""
	case why.Type == terminated, why.Type == cancelled:
		return "  " + cli.Line(why.Message)
	}
	return "  " + status + ": " + cli.Line(why.Message)
}
