package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	enumspb "go.temporal.io/api/enums/v1"

	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

// answering is a Temporal server that answers updates with the outcomes it was
// given, one after the other and the last one again, and has no pollers.
type answering struct {
	client.Client
	outcomes []error
	sent     []client.UpdateWorkflowOptions
}

func (a *answering) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	a.sent = append(a.sent, o)
	outcome := a.outcomes[min(len(a.sent), len(a.outcomes))-1]
	var refusal *temporal.ApplicationError
	if outcome != nil && !errors.As(outcome, &refusal) {
		return nil, outcome // the server's own errors come at once
	}
	return outcomeHandle{err: outcome}, nil
}

func (a *answering) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{}, nil
}

type outcomeHandle struct {
	client.WorkflowUpdateHandle
	err error
}

func (h outcomeHandle) Get(context.Context, any) error { return h.err }

func refusal(kind, message string) error {
	return temporal.NewNonRetryableApplicationError(message, kind, nil)
}

// delivered delivers one update to a running session of a cluster.
func delivered(t *testing.T, c cli, u update, outcomes ...error) (code int, stdout, stderr string, sent []client.UpdateWorkflowOptions) {
	t.Helper()
	var out, errs bytes.Buffer
	c.stdout, c.stderr, c.queue = &out, &errs, drive.TaskQueue
	server := &answering{outcomes: outcomes}
	p := &place{target: target{cluster: true}, client: server, queue: c.queue}
	code = c.report(c.deliver(t.Context(), p, known{id: "s1", workflow: "s1", status: drive.Running}, u))
	return code, out.String(), errs.String(), server.sent
}

var pauseIt = update{name: drive.PauseSignal, what: "pause", next: "resume", done: "paused; %s goes on"}

func TestAnUpdateThatIsTakenSaysWhatComesNext(t *testing.T) {
	t.Parallel()
	code, stdout, stderr, sent := delivered(t, cli{}, pauseIt, nil)
	require.Equal(t, exitDone, code)
	require.Empty(t, stdout)
	require.Equal(t, "session s1: paused; `conclave resume s1` goes on\n", stderr)
	require.Equal(t, []client.UpdateWorkflowOptions{{
		WorkflowID: "s1", UpdateName: "pause", WaitForStage: client.WorkflowUpdateStageCompleted,
	}}, sent)
}

func TestScriptsAreToldThatAnUpdateWasTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]cli{"json": {json: true}, "automation": {automation: true}} {
		code, stdout, stderr, _ := delivered(t, c, pauseIt, nil)
		require.Equal(t, exitDone, code, name)
		require.JSONEq(t, `{"session_id": "s1", "accepted": true}`, stdout, name)
		require.Empty(t, stderr, name)
	}
}

func TestAnUpdateCarriesThePayloadOfTheContract(t *testing.T) {
	t.Parallel()
	for want, payload := range map[string]any{
		`{"text": "Be brief."}`:                     drive.SayInput{Text: "Be brief."},
		`{"text": "Be brief.", "agent": "agent_a"}`: drive.SayInput{Text: "Be brief.", Agent: "agent_a"},
		`{}`:                   sessionflow.RetryInput{},
		`{"agent": "agent_a"}`: sessionflow.RetryInput{Agent: "agent_a"},
	} {
		_, _, _, sent := delivered(t, cli{}, update{name: "x", done: "%s", payload: payload}, nil)
		require.Len(t, sent[0].Args, 1)
		data, err := json.Marshal(sent[0].Args[0])
		require.NoError(t, err)
		require.JSONEq(t, want, string(data))
	}
}

func TestWhatNeedsAStepWorkerSaysThatThereIsNone(t *testing.T) {
	t.Parallel()
	u := pauseIt
	u.steps = true
	_, _, stderr, _ := delivered(t, cli{}, u, nil)
	require.Contains(t, stderr, "no worker polls the task queue conclave")
}

func TestARefusedUpdatePrintsTheReason(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		outcome error
		says    string
	}{
		"by the session": {
			refusal(drive.Refused, "the session is paused already"),
			"conclave: pause session s1: the session is paused already; `conclave status s1` shows how it stands\n",
		},
		"by an old worker": {
			refusal("", "unknown update pause. KnownUpdates=[]"),
			"conclave: pause session s1: its workers are of a version that cannot do that; replace them by newer ones\n",
		},
		"it ended before it was asked": {
			serviceerror.NewNotFound("workflow execution already completed"),
			"conclave: pause session s1: it has ended already; `conclave result s1` prints what came out, `conclave list` shows the sessions there are\n",
		},
		"it ended before it had answered": {
			refusal("AcceptedUpdateCompletedWorkflow", "Workflow completed before the Update completed."),
			"conclave: pause session s1: it has ended already; `conclave result s1` prints what came out, `conclave list` shows the sessions there are\n",
		},
		"by the server": {
			errors.New("it is on fire"),
			"conclave: pause session s1: it is on fire\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr, sent := delivered(t, cli{json: true}, pauseIt, tt.outcome)
			require.Equal(t, exitUsage, code)
			require.Empty(t, stdout)
			require.Equal(t, tt.says, stderr)
			require.Len(t, sent, 1, "a refusal is not argued with")
		})
	}
}

func TestASessionInPreparationIsAskedAgain(t *testing.T) {
	t.Parallel()
	early := refusal(drive.TooEarly, "the session is still being prepared")
	code, _, _, sent := delivered(t, cli{}, pauseIt, early, early, nil)
	require.Equal(t, exitDone, code)
	require.Len(t, sent, 3)
}

func TestASessionThatIsOverTakesNothing(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	c := cli{stderr: &errs, queue: drive.TaskQueue}
	err := c.deliver(t.Context(), &place{}, known{id: "s1", workflow: "s1", status: "consensus", closed: time.Unix(1, 0)}, pauseIt)
	require.Equal(t, exitUsage, c.report(err))
	require.Contains(t, errs.String(), "pause session s1: it has ended already (consensus); `conclave result s1` prints what came out")
}

func TestAnInterruptedUpdateSaysThatItIsNotKnown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := cli{queue: drive.TaskQueue}
	err := c.deliver(ctx, &place{client: &answering{}}, known{id: "s1", workflow: "s1"}, pauseIt)
	require.Equal(t, exitInterrupted, codeOf(err))
	require.ErrorContains(t, err, "`conclave status s1` shows it")
}
