package main

import (
	"context"
	"errors"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"conclave/cmd/conclave/devserver"
	"conclave/cmd/conclave/progress"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

const (
	// lookInterval is how often a followed session is asked for its state.
	lookInterval = 250 * time.Millisecond
	// patience is how long nobody may answer before we find out why.
	patience = 3 * time.Second
)

// follower shows one session until it ends.
type follower struct {
	cli     *cli
	place   *place
	session known
	display progress.Display

	seen   int               // events shown
	state  sessionflow.State // as of the last look
	revote int               // the last round that repeated a vote; 0 for none

	lastAnswer time.Time // when a worker last answered
	described  time.Time // when the server was last asked for delays
	warned     bool
}

// display shows progress where it does not mix with the output: for a person
// and with --json on stderr, in automation as part of stdout.
func (c *cli) display() progress.Display {
	if c.automation {
		return progress.NewLines(c.stdout)
	}
	return progress.New(c.stderr)
}

// follow watches a session to its end. If ctx ends first, or the server is
// lost, the session is not affected: the result says that it is running, and
// the error how to follow it.
func (c *cli) follow(ctx context.Context, p *place, session known) (sessionflow.Result, error) {
	f := &follower{cli: c, place: p, session: session, display: c.display(), lastAnswer: time.Now()}
	r, err := attend(ctx, func(ctx context.Context) (sessionflow.Result, error) { return await(ctx, p, session.workflow) }, f.look)
	if err != nil {
		return f.unfinished(ctx, err)
	}
	f.last(ctx)
	return f.completed(r), nil
}

// attend looks now and then until wait returns, or there is no point in looking.
func attend[R any](ctx context.Context, wait func(context.Context) (R, error), look func(context.Context) error) (R, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		result R
		err    error
	}
	outcomes := make(chan outcome, 1)
	go func() {
		r, err := wait(waiting)
		outcomes <- outcome{r, err}
	}()
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case o := <-outcomes:
			return o.result, o.err
		case <-tick.C:
			if err := look(waiting); err != nil {
				var none R
				return none, err
			}
		}
	}
}

// look asks for the state and shows it. It fails only when there is no point
// in asking again.
func (f *follower) look(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f.describe(asking)
	var state sessionflow.State
	if err := query(asking, f.place, f.session.workflow, drive.StateQuery, &state); err != nil {
		if ctx.Err() != nil || time.Since(f.lastAnswer) < patience {
			return nil
		}
		return f.diagnose(ctx)
	}
	f.lastAnswer = time.Now()
	snapshot := progress.Snapshot{
		State: state, Offline: f.session.offline, Elapsed: f.session.elapsed(), Delays: f.delays(),
		Holds: f.cli.holds(state, f.session.workflow),
		// What a first look finds in an older session was not seen happening.
		Earlier: f.seen == 0 && f.session.elapsed() > patience,
	}
	if state.Events > f.seen {
		var events []coordination.Entry
		if err := query(asking, f.place, f.session.workflow, drive.TimelineQuery, &events); err == nil {
			snapshot.News, snapshot.Missed = f.news(events)
			if revote(state, events) {
				f.revote = state.Round
			}
		}
	}
	snapshot.Revote = f.revote > 0 && f.revote == state.Round
	f.state = state
	f.display.Show(snapshot)
	return nil
}

// describe asks the server now and then what the session waits for. A failure
// says nothing that the next look does not say better.
func (f *follower) describe(ctx context.Context) {
	if !f.session.running() || time.Since(f.described) < describeInterval {
		return
	}
	if k, err := describe(ctx, f.place, f.session.workflow); err == nil {
		f.session.delays, f.described = k.delays, time.Now()
	}
}

// delays are those last heard of, as of now.
func (f *follower) delays() []progress.Delay {
	if !f.session.running() {
		return nil
	}
	delays := slices.Clone(f.session.delays)
	for i := range delays {
		delays[i].Next -= time.Since(f.described)
	}
	return delays
}

// news are the events that have not been shown, and how many between are lost.
func (f *follower) news(events []coordination.Entry) (news []coordination.Entry, missed int) {
	for i, e := range events {
		if e.Seq > f.seen {
			news = events[i:]
			missed = e.Seq - f.seen - 1
			f.seen = events[len(events)-1].Seq
			break
		}
	}
	return news, missed
}

// last shows the end of a session that has closed.
func (f *follower) last(ctx context.Context) {
	if f.session.running() {
		f.session.closed = time.Now()
	}
	// The result is known: a display that misses the last events is no failure.
	_ = f.look(ctx)
}

// diagnose says, once, why nobody answers.
func (f *follower) diagnose(ctx context.Context) error {
	if !f.place.cluster {
		if _, serves, err := devserver.Find(f.place.dataDir); err == nil && !serves {
			return errors.New("the local stack has ended; its log is " + f.place.stack.LogFile)
		}
		return nil
	}
	if f.warned {
		return nil
	}
	if polled, err := workersPoll(ctx, f.place, f.place.queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW); err == nil && !polled {
		f.warned = true
		f.display.Note(noWorker(f.place))
	}
	return nil
}

func noWorker(p *place) string {
	return "no worker polls the task queue " + p.queue + " " + p.where() + ": the session waits until one is started with `conclave worker`, or check --task-queue"
}

// completed adds what Temporal's own ends do not carry.
func (f *follower) completed(r sessionflow.Result) sessionflow.Result {
	if r.Rounds == 0 {
		r.Rounds, r.Cost = f.state.Round, f.state.Cost
		if len(r.Votes) == 0 && f.state.Votes != nil {
			r.Votes = f.state.Votes
		}
	}
	return r
}

// unfinished is how following ends when the session does not.
func (f *follower) unfinished(ctx context.Context, cause error) (sessionflow.Result, error) {
	r, err := f.cli.unfinished(ctx, f.place, f.session, cause)
	return f.completed(r), err
}

// unfinished is how waiting ends when the session does not.
func (c *cli) unfinished(ctx context.Context, p *place, session known, cause error) (sessionflow.Result, error) {
	r := sessionflow.Result{SessionID: session.id, Status: drive.Running, Votes: map[string]int{}}
	return r, c.lostSight(ctx, p, session, cause)
}

// lostSight says how to follow what goes on without us.
func (c *cli) lostSight(ctx context.Context, p *place, k known, cause error) error {
	how := "it goes on without us; follow it with `"
	if !p.cluster {
		how = "it goes on as soon as a worker of this data directory runs; follow it with `"
	}
	how += c.again("watch", k.workflow) + "`"
	if ctx.Err() != nil {
		return end(exitInterrupted, "interrupted: nothing of %s %s is lost, %s", k.noun(), k.id, how)
	}
	return end(exitInterrupted, "lost sight of %s %s: %w; nothing of it is lost, %s", k.noun(), k.id, cause, how)
}
