package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
)

// update is what a person asks of a running session: an update of its workflow,
// which takes it or refuses it with a reason.
type update struct {
	name    string // of the update; the command's, too
	what    string // is attempted, in messages, before the words "session ID"
	payload any    // nil for none
	next    string // the command that shows what comes of it
	done    string // said when it was taken; next stands for %s
	steps   bool   // what comes of it needs a worker that runs steps
	agent   string // whom it concerns, in a session; empty for all
}

// taken is what --json prints.
type taken struct {
	SessionID string `json:"session_id"`
	Accepted  bool   `json:"accepted"`
}

// updateTimeout bounds how long a session may take to answer. It is longer than
// the server waits for a worker that is gone before it asks another.
const updateTimeout = 2 * reachTimeout

// update sends the update to a session. On a local stack a worker of this
// process lets the session answer.
func (c *cli) update(ctx context.Context, id string, u update) error {
	return c.withLooker(ctx, id, func(p *place, k known) error { return c.deliver(ctx, p, k, u) })
}

// deliver sends the update to a session that has not ended, and says what comes
// next.
func (c *cli) deliver(ctx context.Context, p *place, k known, u update) error {
	if err := c.fits(&u, k); err != nil {
		return err
	}
	if !k.running() {
		return c.over(u, k)
	}
	if err := c.send(ctx, p, k, u); err != nil {
		return err
	}
	if !c.people() {
		return c.printJSON(taken{SessionID: k.id, Accepted: true})
	}
	c.say("%s %s: "+u.done, k.noun(), k.id, "`"+c.again(u.next, k.workflow)+"`")
	if u.steps {
		c.warnIdle(ctx, p)
	}
	return nil
}

// fits refuses what makes no sense for the run of a pipeline, which has one step at
// a time and nothing to decide, and leaves out what only sessions take.
func (c *cli) fits(u *update, k known) error {
	switch {
	case k.kind != pipelineflow.Type:
		return nil
	case u.name == drive.FinishSignal:
		return end(exitUsage, "finish pipeline run %s: there is no vote that could be decided early; `%s` ends it, `%s` waits for its end",
			k.id, c.again("cancel", k.workflow), c.again("result --wait", k.workflow))
	case u.agent != "":
		return end(exitUsage, "%s pipeline run %s: it runs one step at a time; leave out --agent", u.what, k.id)
	case u.name == drive.RetrySignal:
		u.payload = nil
	}
	return nil
}

// send carries the update to the workflow and waits until it is carried out. A
// session that is being prepared is asked again until it is ready.
func (c *cli) send(ctx context.Context, p *place, k known, u update) error {
	asking, stop := context.WithTimeout(ctx, updateTimeout)
	defer stop()
	err := tryUpdate(asking, p, k, u)
	for tooEarly(err) && pause(asking, lookInterval) {
		err = tryUpdate(asking, p, k, u)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return end(exitInterrupted, "interrupted: it is not known whether %s %s was told to %s; `%s` shows it", k.noun(), k.id, u.name, c.again("status", k.workflow))
	case tooEarly(err):
		return end(exitUsage, "%s %s %s: it is still being prepared, for which it needs a worker that runs steps; `%s` follows it", u.what, k.noun(), k.id, c.again("watch", k.workflow))
	case asking.Err() != nil:
		return fmt.Errorf("%s %s %s: nobody answered within %s; a worker has to run on the task queue %s; `%s` shows whether it was taken all the same",
			u.what, k.noun(), k.id, updateTimeout, p.queue, c.again("status", k.workflow))
	}
	return c.refused(u, k, err)
}

// tryUpdate sends the update once.
func tryUpdate(ctx context.Context, p *place, k known, u update) error {
	options := client.UpdateWorkflowOptions{
		WorkflowID: k.workflow, UpdateName: u.name, WaitForStage: client.WorkflowUpdateStageCompleted,
	}
	if u.payload != nil {
		options.Args = []any{u.payload}
	}
	handle, err := p.client.UpdateWorkflow(ctx, options)
	if err != nil {
		return err
	}
	return handle.Get(ctx, nil)
}

// tooEarly reports that a session is not ready yet.
func tooEarly(err error) bool {
	var refusal *temporal.ApplicationError
	return errors.As(err, &refusal) && refusal.Type() == drive.TooEarly
}

// pause waits, and reports whether ctx lasted.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// refused puts into words why a session did not take an update.
func (c *cli) refused(u update, k known, err error) error {
	var (
		gone    *serviceerror.NotFound
		refusal *temporal.ApplicationError
	)
	switch {
	case errors.As(err, &gone):
		return c.over(u, k) // it ended in between
	case !errors.As(err, &refusal):
		return fmt.Errorf("%s %s %s: %w", u.what, k.noun(), k.id, err)
	case refusal.Type() == "AcceptedUpdateCompletedWorkflow": // the server's word
		return c.over(u, k)
	case strings.HasPrefix(refusal.Message(), "unknown update"): // the SDK's
		return end(exitUsage, "%s %s %s: its workers are of a version that cannot do that; replace them by newer ones", u.what, k.noun(), k.id)
	}
	return end(exitUsage, "%s %s %s: %s; `%s` shows how it stands", u.what, k.noun(), k.id, refusal.Message(), c.again("status", k.workflow))
}

// over says that a session has ended.
func (c *cli) over(u update, k known) error {
	how := ""
	if !k.running() {
		how = " (" + k.status + ")"
	}
	return end(exitUsage, "%s %s %s: it has ended already%s; `%s` prints what came out, `%s` shows the %ss there are",
		u.what, k.noun(), k.id, how, c.again("result", k.workflow), c.again(k.lister(), ""), k.noun())
}
