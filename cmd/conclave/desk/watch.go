package desk

import (
	"context"
	"maps"
	"sync"
	"time"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

// Intervals of the queries for progress. They grow while nothing happens, to limit the
// load that many waiting callers put on a worker.
const (
	firstPoll = 200 * time.Millisecond
	lastPoll  = 4 * time.Second
	toolsPoll = time.Second // where a caller has tools
)

// watches are the sessions that callers follow. All followers of a session share one watch,
// so an additional follower adds no load on Temporal and the worker.
type watches struct {
	mu sync.Mutex
	of map[string]*watch
}

// watch observes a session until it ends or its last follower leaves.
type watch struct {
	desk *Desk
	id   string
	stop context.CancelFunc
	wake chan struct{} // a follower has joined

	mu        sync.Mutex
	followers map[*follower]bool
	events    []coordination.Entry // events as of the last look
}

// follower is a caller who follows a session.
type follower struct {
	progress func(string) // nil if it wants no events
	tools    bool         // it may be asked to run tools
	looks    chan look    // the newest look
	shown    int          // number of the last event that was reported
}

// look is an observation of a session.
type look struct {
	events []coordination.Entry
	state  *acts.State // nil if unknown
	end    *ending     // nil while the session runs
}

// ending is the end of a session, or the error that prevents waiting for it.
type ending struct {
	result sessionflow.Result
	err    error
}

// follow adds a follower to the watch of a session, and returns the function that removes it.
func (d *Desk) follow(id string, f *follower) (leave func()) {
	d.watches.mu.Lock()
	defer d.watches.mu.Unlock()
	w := d.watches.of[id]
	if w == nil {
		ctx, stop := context.WithCancel(context.Background())
		w = &watch{desk: d, id: id, stop: stop, wake: make(chan struct{}, 1), followers: map[*follower]bool{}}
		d.watches.of[id] = w
		go w.run(ctx)
	}
	w.join(f)
	return func() {
		d.watches.mu.Lock()
		defer d.watches.mu.Unlock()
		if w.leave(f) == 0 {
			d.watches.removeLocked(w)
		}
	}
}

// remove ends a watch. Later callers start a new one.
func (s *watches) remove(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(w)
}

func (s *watches) removeLocked(w *watch) {
	w.stop()
	if s.of[w.id] == w {
		delete(s.of, w.id)
	}
}

// join adds a follower, which immediately receives the events so far.
func (w *watch) join(f *follower) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.followers[f] = true
	if len(w.events) > 0 {
		f.see(look{events: w.events})
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// leave removes a follower, and returns how many are left.
func (w *watch) leave(f *follower) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.followers, f)
	return len(w.followers)
}

// run observes the session at growing intervals and once more when it ends.
func (w *watch) run(ctx context.Context) {
	ends := make(chan ending, 1)
	go func() { ends <- w.await(ctx) }()
	interval := firstPoll
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case end := <-ends:
			w.desk.watches.remove(w)
			w.show(w.all(), look{events: w.lastNews(), end: &end})
			return
		case <-w.wake:
			interval = firstPoll
		case <-timer.C:
			interval = w.look(ctx, interval)
		}
		timer.Reset(interval)
	}
}

// await waits for the end of the session.
func (w *watch) await(ctx context.Context) (end ending) {
	run := runs.Run{Kind: kind, ID: w.id, Workflow: w.id}
	end.err = throughOutage(ctx, followPatience, func(ctx context.Context) (err error) {
		end.result, err = runs.Await(ctx, w.desk.conn, run, ended)
		return err
	})
	return end
}

// ended returns the result of a session that Temporal ended without one.
func ended(run runs.Run, status string, err *artifact.Error) sessionflow.Result {
	return sessionflow.Result{SessionID: run.ID, Status: status, Error: err, DurationSeconds: run.Seconds()}
}

// look queries the news that the followers want and returns the interval until the next
// look. Followers that join meanwhile wait for the next look, because the state in this one
// may be out of date: a session that waited for tool results may have received them.
func (w *watch) look(ctx context.Context, interval time.Duration) time.Duration {
	present, known := w.all(), newest(w.events)
	next, tools := look{events: w.news(ctx)}, false
	for f := range present {
		tools = tools || f.tools
	}
	var state acts.State
	if tools && runs.Query(ctx, w.desk.conn, w.id, drive.StateQuery, &state) == nil {
		next.state = &state
	}
	w.show(present, next)
	switch {
	case newest(next.events) > known:
		return firstPoll
	case tools:
		return min(interval*3/2, toolsPoll)
	}
	return min(interval*3/2, lastPoll)
}

// news returns the events if a follower wants them. If the query fails, it returns the
// events known so far; the next look repeats the query.
func (w *watch) news(ctx context.Context) []coordination.Entry {
	wanted := false
	for f := range w.all() {
		wanted = wanted || f.progress != nil
	}
	var events []coordination.Entry
	if !wanted || runs.Query(ctx, w.desk.conn, w.id, drive.TimelineQuery, &events) != nil {
		return w.events
	}
	return events
}

// lastNews returns the events of an ended session. It waits only briefly, to avoid delaying the
// answer.
func (w *watch) lastNews() []coordination.Entry {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.news(ctx)
}

// newest returns the number of the last event, or 0 if events is empty.
func newest(events []coordination.Entry) int {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Seq
}

// all returns the followers.
func (w *watch) all() map[*follower]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.followers)
}

// show passes a look to followers.
func (w *watch) show(to map[*follower]bool, l look) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = l.events
	for f := range to {
		f.see(l)
	}
}

// see replaces the look that the follower has not received yet. The caller holds the watch's lock.
func (f *follower) see(l look) {
	select {
	case <-f.looks:
	default:
	}
	f.looks <- l
}
