package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"conclave/cmd/conclave/hall"
	"conclave/workflows/drive"
)

// UpdateTimeout is the maximum wait for an update's reply. The server replaces a lost worker
// sooner.
const UpdateTimeout = 2 * hall.ReachTimeout

// Update is a person's request to a run.
type Update struct {
	Name    string // name of the workflow update
	Agent   string // the agent that it concerns; empty for all
	Payload any    // nil for none

	Action     string // words in messages before "session ID"
	Next       string // the command that shows the effect
	Accepted   string // the message for people; Next stands for %s
	Unanswered string // the message if no agent has an answer; empty to use Accepted
	NeedsSteps bool   // the effect needs a worker that runs steps
}

// updated has the fields of an update's reply that its message depends on.
type updated struct {
	Agents []struct {
		Answers int `json:"answers"`
	} `json:"agents"`
}

func (u updated) answered() bool {
	for _, a := range u.Agents {
		if a.Answers > 0 {
			return true
		}
	}
	return false
}

// accepted is the JSON output of an update.
type accepted struct {
	SessionID string `json:"session_id"`
	Accepted  bool   `json:"accepted"`
}

// apply sends an update to a run that has not ended, and prints its effect.
func apply(ctx context.Context, conn *hall.Connection, run Run, u Update) error {
	if run.Kind.Adapt != nil {
		if err := run.Kind.Adapt(conn, run, &u); err != nil {
			return err
		}
	}
	if !run.Running() {
		return alreadyEnded(conn, run, u)
	}
	state, err := send(ctx, conn, run, u)
	if err != nil {
		return err
	}
	if conn.Scripted() {
		return conn.PrintJSON(accepted{SessionID: run.ID, Accepted: true})
	}
	message, next := u.Accepted, conn.CommandLine(u.Next, run.Workflow)
	if u.Unanswered != "" && !state.answered() {
		message = u.Unanswered
	}
	if u.Next == "watch" && run.Kind.Follow != nil {
		next = run.Kind.Follow(conn, run)
	}
	conn.Infof("%s: "+message, run, "`"+next+"`")
	if u.NeedsSteps {
		conn.WarnIdle(ctx, run.queue(conn))
	}
	return nil
}

// send sends an update and explains a failure.
func send(ctx context.Context, conn *hall.Connection, run Run, u Update) (state updated, err error) {
	asking, cancel := context.WithTimeout(ctx, UpdateTimeout)
	defer cancel()
	var silence atomic.Pointer[string]
	stop := NoteSilence(asking, conn, run, func(why string, polled bool) {
		if polled {
			conn.Infof("%s", why)
			return
		}
		silence.Store(&why)
		cancel()
	})
	err = Send(asking, conn, run.Workflow, u.Name, u.Payload, &state)
	stop()
	status := func() string { return conn.CommandLine("status", run.Workflow) }
	switch {
	case err == nil:
		return state, nil
	case ctx.Err() != nil:
		return state, hall.Exitf(hall.ExitInterrupted, "interrupted: %s may have received the %s; `%s` shows its state", run, u.Name, status())
	case silence.Load() != nil:
		return state, fmt.Errorf("%s %s: %s; `%s` shows whether the request has arrived", u.Action, run, *silence.Load(), status())
	case tooEarly(err):
		return state, hall.Exitf(hall.ExitUsage, "%s %s: it is not prepared yet, which takes a worker that runs steps; `%s` follows it",
			u.Action, run, conn.CommandLine("watch", run.Workflow))
	case asking.Err() != nil:
		return state, fmt.Errorf("%s %s: no worker answered within %s; start one on the task queue %s; `%s` shows whether the request has arrived",
			u.Action, run, UpdateTimeout, run.queue(conn), status())
	}
	return state, refusal(conn, run, u, err)
}

// Send sends an update to a workflow and waits until it is executed. While the workflow is
// being prepared, Send repeats the update until ctx ends. The payload may be nil, and so
// may into, which receives the reply.
func Send(ctx context.Context, conn *hall.Connection, workflow, name string, payload, into any) error {
	for {
		err := sendOnce(ctx, conn, workflow, name, payload, into)
		if !tooEarly(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(PollInterval):
		}
	}
}

func sendOnce(ctx context.Context, conn *hall.Connection, workflow, name string, payload, into any) error {
	options := client.UpdateWorkflowOptions{
		WorkflowID: workflow, UpdateName: name, WaitForStage: client.WorkflowUpdateStageCompleted,
	}
	if payload != nil {
		options.Args = []any{payload}
	}
	handle, err := conn.Client.UpdateWorkflow(ctx, options)
	if err != nil {
		return err
	}
	return handle.Get(ctx, into)
}

// tooEarly reports whether a run refused an update because it is still being prepared.
func tooEarly(err error) bool {
	refused, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && refused.Type() == drive.TooEarly
}

// The SDK and the server identify these two refusals only by their texts.
const (
	unknownUpdate    = "unknown update"                  // start of the SDK's message: the workflow has no such handler
	endedBeforeReply = "AcceptedUpdateCompletedWorkflow" // the server's error type: the workflow ended while it handled the update
)

// refusal explains why a run refused an update.
func refusal(conn *hall.Connection, run Run, u Update, err error) error {
	if _, ended := errors.AsType[*serviceerror.NotFound](err); ended {
		return alreadyEnded(conn, run, u)
	}
	refused, ok := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case !ok:
		return fmt.Errorf("%s %s: %w", u.Action, run, err)
	case refused.Type() == endedBeforeReply:
		return alreadyEnded(conn, run, u)
	case strings.HasPrefix(refused.Message(), unknownUpdate):
		return hall.Exitf(hall.ExitUsage, "%s %s: its workers are of a version that cannot do that; replace them by newer ones", u.Action, run)
	}
	return hall.Exitf(hall.ExitUsage, "%s %s: %s; `%s` shows its state", u.Action, run, refused.Message(), conn.CommandLine("status", run.Workflow))
}

// alreadyEnded returns the error of an update to an ended run.
func alreadyEnded(conn *hall.Connection, run Run, u Update) error {
	how := ""
	if !run.Running() {
		how = " (" + run.Status + ")"
	}
	return hall.Exitf(hall.ExitUsage, "%s %s: it has ended already%s; `%s` prints the result, `%s` lists the %ss",
		u.Action, run, how, conn.CommandLine("result", run.Workflow), conn.CommandLine(run.Kind.List), run.Kind.Noun)
}

// QueryState queries the state of a run. ok is false for an ended run that cannot answer.
func QueryState(ctx context.Context, conn *hall.Connection, run Run, into any) (ok bool, err error) {
	err = queryInTime(ctx, conn, run, into)
	_, silent := errors.AsType[*silenceError](err)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case !run.Running():
		return false, nil
	case silent:
		return false, err
	}
	return false, fmt.Errorf("ask %s for its state: %w; its status is %s, and a worker has to run on the task queue %s to say more", run, err, run.Status, run.queue(conn))
}

// queryTries is the maximum number of tries of a query that races with its workflow.
const queryTries = 5

// Query queries an open or closed workflow. It waits longer than the server waits for a lost
// worker.
func Query(ctx context.Context, conn *hall.Connection, workflow, name string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, UpdateTimeout)
	defer cancel()
	value, err := conn.Client.QueryWorkflow(ctx, workflow, "", name)
	for tries := 1; tries < queryTries && (lostRace(err) || dropped(ctx, err)); tries++ {
		value, err = conn.Client.QueryWorkflow(ctx, workflow, "", name)
	}
	if err != nil {
		return err
	}
	return value.Get(into)
}

// dropped reports whether the server dropped a query, for example because the worker was
// stopping.
func dropped(ctx context.Context, err error) bool {
	_, canceled := errors.AsType[*serviceerror.Canceled](err)
	return canceled && ctx.Err() == nil
}

// lostRace reports whether a query failed because the workflow progressed
// meanwhile (temporalio/sdk-go issue 755). The SDK indicates this only by a code
// in the text.
func lostRace(err error) bool {
	failed, ok := errors.AsType[*serviceerror.QueryFailed](err)
	return ok && strings.Contains(failed.Message, "TMPRL1100")
}
