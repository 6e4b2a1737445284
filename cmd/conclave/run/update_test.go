package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/workflows"
)

// answering is a Temporal server without pollers that answers updates with these
// outcomes in order, repeating the last one.
type answering struct {
	client.Client
	outcomes []error
	reply    string // JSON of a state
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
	return outcomeHandle{err: outcome, reply: a.reply}, nil
}

func (a *answering) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{}, nil
}

type outcomeHandle struct {
	client.WorkflowUpdateHandle
	err   error
	reply string // JSON; empty for none
}

func (h outcomeHandle) Get(_ context.Context, into any) error {
	if h.reply != "" && into != nil {
		return json.Unmarshal([]byte(h.reply), into)
	}
	return h.err
}

func refused(kind, message string) error {
	return temporal.NewNonRetryableApplicationError(message, kind, nil)
}

// delivered delivers one update to a running session of a cluster.
func delivered(t *testing.T, c cli.CLI, u Update, outcomes ...error) (code int, stdout, stderr string, sent []client.UpdateWorkflowOptions) {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.Queue = &out, &errs, workflows.TaskQueue
	server := &answering{outcomes: outcomes}
	p := &cli.Connection{CLI: &c, Target: cli.Target{Cluster: true}, Client: server}
	code = stage.Report(&c, applyUpdate(t.Context(), p, Run{Kind: session, ID: "s1", Workflow: "s1", Status: workflows.Running}, u))
	return code, out.String(), errs.String(), server.sent
}

var pauseIt = Update{Name: workflows.PauseSignal, Action: "pause", Next: "resume", Accepted: "paused; %s resumes it"}

func TestUpdate_finishWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for reply, says := range map[string]string{
		`{"agents":[{"answers":0},{"answers":2}]}`: "session s1: deciding; `conclave result --wait s1` prints it\n",
		`{"agents":[{"answers":0}]}`:               "session s1: nothing to decide on; `conclave result --wait s1` says how\n",
	} {
		var errs bytes.Buffer
		c := cli.CLI{Stdout: &errs, Stderr: &errs, Queue: workflows.TaskQueue}
		p := &cli.Connection{CLI: &c, Client: &answering{outcomes: []error{nil}, reply: reply}}
		u := Update{Name: workflows.FinishSignal, Next: "result --wait", Accepted: "deciding; %s prints it", Unanswered: "nothing to decide on; %s says how"}
		require.NoError(t, applyUpdate(t.Context(), p, Run{Kind: session, ID: "s1", Workflow: "s1", Status: workflows.Running}, u))
		require.Equal(t, says, errs.String())
	}
}

func TestUpdate_accepted(t *testing.T) {
	t.Parallel()
	code, stdout, stderr, sent := delivered(t, cli.CLI{}, pauseIt, nil)
	require.Equal(t, cli.ExitOK, code)
	require.Empty(t, stdout)
	require.Equal(t, "session s1: paused; `conclave resume s1` resumes it\n", stderr)
	require.Equal(t, []client.UpdateWorkflowOptions{{
		WorkflowID: "s1", UpdateName: "pause", WaitForStage: client.WorkflowUpdateStageCompleted,
	}}, sent)
}

func TestUpdate_acceptedJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]cli.CLI{"json": {JSON: true}, "automation": {Automation: true}} {
		code, stdout, stderr, _ := delivered(t, c, pauseIt, nil)
		require.Equal(t, cli.ExitOK, code, name)
		require.JSONEq(t, `{"session_id": "s1", "accepted": true}`, stdout, name)
		require.Empty(t, stderr, name)
	}
}

func TestUpdate_payload(t *testing.T) {
	t.Parallel()
	for want, payload := range map[string]any{
		`{"text": "Be brief."}`:                     workflows.Request{Text: "Be brief."},
		`{"text": "Be brief.", "agent": "agent_a"}`: workflows.Request{Text: "Be brief.", Agent: "agent_a"},
		`{}`:                   workflows.Request{},
		`{"agent": "agent_a"}`: workflows.Request{Agent: "agent_a"},
	} {
		_, _, _, sent := delivered(t, cli.CLI{}, Update{Name: "x", Accepted: "%s", Payload: payload}, nil)
		require.Len(t, sent[0].Args, 1)
		data, err := json.Marshal(sent[0].Args[0])
		require.NoError(t, err)
		require.JSONEq(t, want, string(data))
	}
}

func TestUpdate_warnsWithoutWorker(t *testing.T) {
	t.Parallel()
	u := pauseIt
	u.NeedsSteps = true
	_, _, stderr, _ := delivered(t, cli.CLI{}, u, nil)
	require.Contains(t, stderr, "no worker polls the task queue conclave")
}

func TestUpdate_refused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		outcome error
		says    string
	}{
		"by the session": {
			refused("Refused", "the session is paused already"),
			"conclave: pause session s1: the session is paused already; `conclave status s1` shows its state\n",
		},
		"by an old worker": {
			refused("", "unknown update pause. KnownUpdates=[]"),
			"conclave: pause session s1: its workers are of a version that cannot do that; replace them by newer ones\n",
		},
		"it ended before it was asked": {
			serviceerror.NewNotFound("workflow execution already completed"),
			"conclave: pause session s1: it has ended already; `conclave result s1` prints the result, `conclave list` lists the sessions\n",
		},
		"it ended before it had answered": {
			refused("AcceptedUpdateCompletedWorkflow", "Workflow completed before the Update completed."),
			"conclave: pause session s1: it has ended already; `conclave result s1` prints the result, `conclave list` lists the sessions\n",
		},
		"by the server": {
			errors.New("it is on fire"),
			"conclave: pause session s1: it is on fire\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr, sent := delivered(t, cli.CLI{JSON: true}, pauseIt, tt.outcome)
			require.Equal(t, cli.ExitUsage, code)
			require.Empty(t, stdout)
			require.Equal(t, tt.says, stderr)
			require.Len(t, sent, 1, "a refusal is not argued with")
		})
	}
}

func TestUpdate_retriedDuringPreparation(t *testing.T) {
	t.Parallel()
	early := refused(workflows.TooEarly, "the session is still being prepared")
	code, _, _, sent := delivered(t, cli.CLI{}, pauseIt, early, early, nil)
	require.Equal(t, cli.ExitOK, code)
	require.Len(t, sent, 3)
}

func TestUpdate_endedSession(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	c := cli.CLI{Stderr: &errs, Queue: workflows.TaskQueue}
	winner, err := converter.GetDefaultDataConverter().ToPayload("agent2.1")
	require.NoError(t, err)
	ended := Run{
		Kind: session, ID: "s1", Workflow: "s1", Status: "consensus", Closed: time.Unix(1, 0),
		Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{workflows.MemoWinner: winner}},
	}
	err = applyUpdate(t.Context(), &cli.Connection{CLI: &c}, ended, pauseIt)
	require.Equal(t, cli.ExitUsage, stage.Report(&c, err))
	require.Contains(t, errs.String(), "pause session s1: it has ended already (consensus for agent2.1); `conclave result s1` prints the result")
}

func TestUpdate_interrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := cli.CLI{Queue: workflows.TaskQueue}
	err := applyUpdate(ctx, &cli.Connection{CLI: &c, Client: &answering{}}, Run{Kind: session, ID: "s1", Workflow: "s1"}, pauseIt)
	require.Equal(t, cli.ExitInterrupted, cli.ExitCode(err))
	require.ErrorContains(t, err, "`conclave status s1` shows it")
}

// The matched texts are still those of the SDK and the server of go.mod.
func TestRefusalTexts(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var rejected error
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow("pause", "u1", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { rejected = err }, OnComplete: func(any, error) {},
		})
	}, 0)
	env.ExecuteWorkflow(func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Second) })
	require.ErrorContains(t, rejected, unknownUpdate)
	require.True(t, strings.HasPrefix(rejected.Error(), unknownUpdate), rejected)

	require.True(t, sourceHas(t, "go.temporal.io/server", endedBeforeReply))
	require.True(t, sourceHas(t, "go.temporal.io/sdk", "TMPRL1100"))
}

// sourceHas reports whether a Go file of a module contains a text.
func sourceHas(t *testing.T, module, text string) bool {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	require.NoError(t, err)
	return exec.CommandContext(t.Context(), "grep", "-rqF", "--include=*.go", text, strings.TrimSpace(string(dir))).Run() == nil
}

// failing is a service whose first queries fail with these errors, in order.
type failing struct {
	client.Client
	errs  []error
	asked int
}

func (f *failing) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	f.asked++
	if f.asked <= len(f.errs) {
		return nil, f.errs[f.asked-1]
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads("here")
	return client.NewValue(payloads), err
}

// A query that lost a race with its workflow, or that the server dropped, is repeated.
func TestQuery(t *testing.T) {
	t.Parallel()
	outrun := serviceerror.NewQueryFailed("[TMPRL1100] invalid state transition: attempt to handleInitiatedEvent")
	stopped := serviceerror.NewCanceled("stream terminated by RST_STREAM with error code: CANCEL")
	other := serviceerror.NewQueryFailed("unknown queryType state")
	for name, tt := range map[string]struct {
		errs  []error
		asked int
		err   error
	}{
		"at once":       {nil, 1, nil},
		"outrun twice":  {[]error{outrun, outrun}, 3, nil},
		"outrun always": {[]error{outrun, outrun, outrun, outrun, outrun, outrun}, queryTries, outrun},
		"dropped once":  {[]error{stopped}, 2, nil},
		"another cause": {[]error{other}, 1, other},
		"out of reach":  {[]error{errors.ErrUnsupported}, 1, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := &failing{errs: tt.errs}
			var got string
			err := Query(t.Context(), &cli.Connection{Client: service}, "s1", "state", &got)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.asked, service.asked)
			require.Equal(t, err == nil, got == "here")
		})
	}
}
