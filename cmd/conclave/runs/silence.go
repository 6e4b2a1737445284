package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/workflows/drive"
)

const (
	// patience is how long a worker may take to answer before a person is notified.
	patience = 3 * time.Second
	// probeDelay is how long a request may take before the workers are probed.
	probeDelay = time.Second
	// probeInterval is the time between two probes.
	probeInterval = 10 * time.Second
)

// NoteSilence probes the workers of other processes with queries of a run until stop is
// called. It calls note from another goroutine once for each silence; polled is false if no
// worker polls the task queue. stop waits for a running call of note.
func NoteSilence(ctx context.Context, conn *hall.Connection, run Run, note func(why string, polled bool)) (stop func()) {
	queue := run.queue(conn)
	if conn.Polls(queue) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		probe(ctx, conn, run.Workflow, queue, note)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func probe(ctx context.Context, conn *hall.Connection, workflow, queue string, note func(why string, polled bool)) {
	noted := false
	for wait := probeDelay; ; wait = probeInterval {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		silent := isSilent(ctx, conn, workflow)
		if silent && !noted {
			if why, polled := conn.Silence(ctx, queue); why != "" && ctx.Err() == nil {
				note(why, polled)
			}
		}
		noted = silent
	}
}

// isSilent reports whether no worker answers a query in time.
func isSilent(ctx context.Context, conn *hall.Connection, workflow string) bool {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := conn.Client.QueryWorkflow(asking, workflow, "", drive.StateQuery)
	return unanswered(asking, err) && ctx.Err() == nil
}

// unanswered reports whether a query failed for lack of a worker: it timed out, the server
// has seen no poll, or the workflow has not had its first task.
func unanswered(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	_, refused := errors.AsType[*serviceerror.FailedPrecondition](err)
	_, early := errors.AsType[*serviceerror.WorkflowNotReady](err)
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err)
	return refused || early || late || ctx.Err() != nil
}

// silenceError is the reason why no worker answers.
type silenceError struct{ why string }

func (e *silenceError) Error() string { return e.why }

// queryInTime queries the state of a run. It returns a silenceError if no worker of another
// process answers. For a person, or if no worker polls the task queue, it gives up early.
func queryInTime(ctx context.Context, conn *hall.Connection, run Run, into any) error {
	if conn.Polls(run.queue(conn)) {
		return Query(ctx, conn, run.Workflow, drive.StateQuery, into)
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	impatient := time.AfterFunc(patience, func() {
		if _, polled := conn.Silence(asking, run.queue(conn)); !polled || !conn.Scripted() {
			stop()
		}
	})
	defer impatient.Stop()
	err := Query(asking, conn, run.Workflow, drive.StateQuery, into)
	_, answered := errors.AsType[*serviceerror.QueryFailed](err)
	if err == nil || answered || ctx.Err() != nil {
		return err
	}
	if why, _ := conn.Silence(ctx, run.queue(conn)); why != "" {
		return &silenceError{why: why}
	}
	return err
}

// printMemo prints the part of a run's state that is in the memo and needs no worker.
func printMemo(ctx context.Context, conn *hall.Connection, run Run, why string) error {
	if conn.Scripted() {
		conn.Warnf("%s; this is only the memo of %s", why, run)
		return conn.PrintJSON(run.remembered())
	}
	parts := []string{progress.Line(run.ID), run.Shown()}
	if round := Memo(run.Memo, drive.MemoRound, 0); round > 0 {
		parts = append(parts, fmt.Sprintf("round %d", round))
	}
	if step := Memo(run.Memo, drive.MemoStep, ""); step != "" {
		parts = append(parts, "at "+progress.Line(step))
	}
	parts = append(parts, progress.Clock(run.Elapsed()))
	if run.Offline {
		parts = append(parts, "offline models")
	}
	lines := []string{strings.Join(parts, " · ")}
	if query := progress.Line(run.Query); query != "" {
		lines = append(lines, "  "+query)
	}
	if run.Continues != "" {
		lines = append(lines, "  continues "+run.Continues)
	}
	paused, parked := run.holds()
	for _, h := range Holds(conn.CLI, run.Workflow, paused, parked, "runs the failed steps again, `cancel` ends it") {
		lines = append(lines, "  "+h.Why, "    "+h.Release)
	}
	return PrintStatus(ctx, conn, run, append(lines, "  the rest is unknown: "+why), "")
}

// queue returns the task queue of the run, or else that of the command.
func (r Run) queue(conn *hall.Connection) string { return cmp.Or(r.taskQueue, conn.Queue) }

// holds reports whether an open run is paused, and returns the reason if it is parked.
func (r Run) holds() (paused bool, parked *string) {
	if !r.Running() {
		return false, nil
	}
	if why := Memo(r.Memo, drive.MemoParked, ""); why != "" {
		parked = &why
	}
	return Memo(r.Memo, drive.MemoPaused, false), parked
}

// remembered returns the keys of the state that are in the memo.
func (r Run) remembered() map[string]any {
	paused, parked := r.holds()
	known := map[string]any{r.Kind.StateKeys[0]: r.ID, r.Kind.StateKeys[1]: r.Query, "status": r.Shown(), "paused": paused, "parked": parked}
	if round := Memo(r.Memo, drive.MemoRound, 0); round > 0 {
		known["round"] = round
	}
	if step := Memo(r.Memo, drive.MemoStep, ""); step != "" {
		known["step"] = step
	}
	if r.Continues != "" {
		known["continues"] = r.Continues
	}
	return known
}
