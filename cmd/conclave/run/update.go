package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/workflows"
)

// updateTimeout is the maximum wait for an update's reply. The server replaces a lost worker
// sooner.
const updateTimeout = 2 * cli.ReachTimeout

// Update is a person's request to a run.
type Update struct {
	Name    string // name of the workflow update
	Agent   string // the agent that it concerns; empty for all
	Branch  string // the branch of a pipeline's run that it concerns; empty for all
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

func (u updated) hasAnswers() bool {
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

func applyUpdate(ctx context.Context, conn *cli.Connection, run Run, u Update) error {
	if u.Name == workflows.FinishSignal && run.Kind.Alone != "" {
		return cli.Exitf(cli.ExitUsage, "finish %s: there is no vote that could be decided early; `%s` ends it, `%s` waits for its end",
			run, conn.CommandLine("cancel", run.Name()), conn.CommandLine("result --wait", run.Name()))
	}
	if run.Kind.Actions != nil {
		if err := run.Kind.AdaptUpdate(conn, run, &u); err != nil {
			return err
		}
	}
	if !run.Running() {
		return alreadyEnded(conn, run, u)
	}
	state, err := sendUpdate(ctx, conn, run, u)
	if err != nil {
		return err
	}
	if conn.Scripted() {
		return conn.PrintJSON(accepted{SessionID: run.ID, Accepted: true})
	}
	message, next := u.Accepted, conn.CommandLine(u.Next, run.Name())
	if u.Unanswered != "" && !state.hasAnswers() {
		message = u.Unanswered
	}
	conn.Infof("%s: "+message, run, "`"+next+"`")
	if u.NeedsSteps {
		conn.WarnIdle(ctx, run.queueName(conn))
	}
	return nil
}

func sendUpdate(ctx context.Context, conn *cli.Connection, run Run, u Update) (updated, error) {
	if u.Name == cancelVerb {
		return updated{}, Cancel(ctx, conn, run.Workflow)
	}
	asking, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	state, err := awaitNoting(asking, conn, run, func(ctx context.Context) (state updated, err error) {
		err = Send(ctx, conn, run.Workflow, u.Name, u.Payload, &state)
		return state, err
	}, func(why string, polled bool) error {
		if !polled {
			return &silenceError{why: why}
		}
		conn.Infof("%s", why)
		return nil
	})
	silent, isSilent := errors.AsType[*silenceError](err)
	status := func() string { return conn.CommandLine("status", run.Name()) }
	switch {
	case err == nil:
		return state, nil
	case ctx.Err() != nil:
		return state, cli.Exitf(cli.ExitInterrupted, "interrupted: %s may have received the %s; `%s` shows its state", run, u.Name, status())
	case isSilent:
		return state, fmt.Errorf("%s %s: %s; `%s` shows whether the request has arrived", u.Action, run, silent.why, status())
	case tooEarly(err):
		return state, cli.Exitf(cli.ExitUsage, "%s %s: it is not prepared yet, which takes a worker that runs steps; `%s` follows it",
			u.Action, run, conn.CommandLine("watch", run.Name()))
	case asking.Err() != nil:
		return state, fmt.Errorf("%s %s: no worker answered within %s; start one on the task queue %s; `%s` shows whether the request has arrived",
			u.Action, run, updateTimeout, run.queueName(conn), status())
	}
	return state, explainRefusal(conn, run, u, err)
}

// Send sends an update to a workflow and waits until it is executed. While the workflow is
// being prepared, Send repeats the update until ctx ends. The payload may be nil, and so
// may into, which receives the reply.
func Send(ctx context.Context, conn *cli.Connection, workflow, name string, payload, into any) error {
	for {
		err := sendOnce(ctx, conn, workflow, name, payload, into)
		if !tooEarly(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollInterval):
		}
	}
}

func sendOnce(ctx context.Context, conn *cli.Connection, workflow, name string, payload, into any) error {
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
	return ok && refused.Type() == workflows.TooEarly
}

// The SDK and the server identify these two refusals only by their texts.
const (
	unknownUpdate    = "unknown update"                  // start of the SDK's message: the workflow has no such handler
	endedBeforeReply = "AcceptedUpdateCompletedWorkflow" // the server's error type: the workflow ended while it handled the update
)

func explainRefusal(conn *cli.Connection, run Run, u Update, err error) error {
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
		return cli.Exitf(cli.ExitUsage, "%s %s: its workers are of a version that cannot do that; replace them by newer ones", u.Action, run)
	}
	return cli.Exitf(cli.ExitUsage, "%s %s: %s; `%s` shows its state", u.Action, run, refused.Message(), conn.CommandLine("status", run.Name()))
}

func alreadyEnded(conn *cli.Connection, run Run, u Update) error {
	how := ""
	if !run.Running() {
		how = " (" + run.Status
		if winner := Memo(run.Memo, workflows.MemoWinner, ""); winner != "" && !run.isUndecided() {
			how += " for " + winner
		}
		how += ")"
	}
	return cli.Exitf(cli.ExitUsage, "%s %s: it has ended already%s; `%s` prints the result, `%s` lists the %ss",
		u.Action, run, how, conn.CommandLine("result", run.Name()), conn.CommandLine(run.Kind.List), run.Kind.Noun)
}

// QueryState queries the state of a run. ok is false for an ended run that cannot answer.
func QueryState(ctx context.Context, conn *cli.Connection, run Run, into any) (ok bool, err error) {
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
	return false, fmt.Errorf("ask %s for its state: %w; its status is %s, and a worker has to run on the task queue %s to say more", run, err, run.Status, run.queueName(conn))
}

// queryTries is the maximum number of tries of a query that races with its workflow.
const queryTries = 5

// Query queries an open or closed workflow. It waits longer than the server waits for a lost
// worker.
func Query(ctx context.Context, conn *cli.Connection, workflow, name string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	value, err := conn.Client.QueryWorkflow(ctx, workflow, "", name)
	for tries := 1; tries < queryTries && (lostRace(err) || wasDropped(ctx, err)); tries++ {
		value, err = conn.Client.QueryWorkflow(ctx, workflow, "", name)
	}
	if err != nil {
		return err
	}
	return value.Get(into)
}

// wasDropped reports whether the server dropped a query, for example because the worker was
// stopping.
func wasDropped(ctx context.Context, err error) bool {
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

// Request is a person's request to a run, made on its page.
type Request struct {
	Verb  string // the name of the command
	Agent string // the agent that it concerns; empty for all
	Text  string // text of say, or of a reply

	Branch string // the branch of a pipeline's run that it concerns; empty for all

	Question string // that is answered
	Option   int    // the option that is the reply, from 1; 0 for none
	Note     string // on an approval
	By       string // the person who answers
}

// cancelVerb is the request that no update makes: Temporal cancels the workflow, whose end is not awaited.
const cancelVerb = "cancel"

func (r Request) asUpdate() (Update, error) {
	switch r.Verb {
	case workflows.PauseSignal:
		return Update{
			Name: workflows.PauseSignal, Action: "pause", Next: "resume",
			Accepted: "paused, nothing is lost; %s resumes it",
		}, nil
	case workflows.ResumeSignal:
		return Update{
			Name: workflows.ResumeSignal, Action: "resume", Next: "watch", NeedsSteps: true,
			Accepted: "resumed; %s follows it",
		}, nil
	case workflows.FinishSignal:
		return Update{
			Name: workflows.FinishSignal, Action: "finish", Next: "result --wait",
			Accepted:   "deciding with the answers so far; %s prints the answer",
			Unanswered: "no agent has an answer yet, so it ends without one; %s prints the result",
		}, nil
	case workflows.RetrySignal:
		return Update{
			Name: workflows.RetrySignal, Agent: r.Agent, Branch: r.Branch, Payload: workflows.Request{Agent: r.Agent, Branch: r.Branch},
			Action: "retry failed steps of", Next: "watch", NeedsSteps: true,
			Accepted: "retrying; %s follows it",
		}, nil
	case cancelVerb:
		return Update{Name: cancelVerb, Action: "cancel", Next: "status", Accepted: "asked to end; what it has made stays on record, %s shows its state"}, nil
	case workflows.SaySignal:
		return r.sayUpdate()
	case workflows.ReplySignal, workflows.ApproveSignal, denyVerb:
		return r.answerUpdate()
	}
	return Update{}, fmt.Errorf("%q is not a request to a run; it is one of say, pause, resume, finish, retry, cancel, reply, approve, deny", r.Verb)
}

func (r Request) sayUpdate() (Update, error) {
	if strings.TrimSpace(r.Text) == "" {
		return Update{}, fmt.Errorf("the message is empty; write one")
	}
	if err := cli.CheckText("TEXT", r.Text, coordination.MaxText, "shorten it, or send several messages"); err != nil {
		return Update{}, err
	}
	who := "agents read it"
	switch {
	case r.Agent != "":
		who = r.Agent + " reads it"
	case r.Branch != "":
		who = "the steps of " + r.Branch + " read it"
	}
	return Update{
		Name: workflows.SaySignal, Agent: r.Agent, Branch: r.Branch, Payload: workflows.Request{Text: r.Text, Agent: r.Agent, Branch: r.Branch},
		Action: "say something to", Next: "watch", NeedsSteps: true,
		Accepted: "sent; " + who + " at the next safe point, %s follows it",
	}, nil
}

// Steer sends a request to the run with an ID, like the command of the same name, and returns
// the command's message.
func Steer(ctx context.Context, conn *cli.Connection, kinds []*Kind, id string, r Request) (string, error) {
	u, err := r.asUpdate()
	if err != nil {
		return "", err
	}
	said := Told(conn, func(conn *cli.Connection) {
		var run Run
		if run, err = findRun(ctx, conn, kinds, id); err == nil {
			err = deliverUpdate(ctx, conn, run, u)
		}
	})
	return said, err
}

// Told returns the text that use prints to a person.
func Told(conn *cli.Connection, use func(*cli.Connection)) string {
	var said bytes.Buffer
	use(conn.PrintingTo(&said))
	return strings.TrimSpace(said.String())
}

// IsOpen reports whether there is an open run of one of the kinds with an ID.
func IsOpen(ctx context.Context, conn *cli.Connection, kinds []*Kind, id string) bool {
	run, err := findRun(ctx, conn.PrintingTo(io.Discard), kinds, id)
	return err == nil && run.Running()
}

// All returns the runs of a kind with their usage, the newest first.
func All(ctx context.Context, conn *cli.Connection, kind *Kind) ([]Run, error) {
	found, err := listRuns(ctx, conn, kind, 0)
	if err != nil {
		return nil, fmt.Errorf("list the %ss %s: %w", kind.Noun, conn.Target, err)
	}
	return addUsage(ctx, conn, found), nil
}
