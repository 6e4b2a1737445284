package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/run"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/text"
	"conclave/workflows"
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

// wants names the parts of a session that a follower sees besides its end.
type wants struct {
	events bool
	tools  bool // calls of its tools
}

// watch observes a session until it ends or its last follower leaves.
type watch struct {
	desk *Desk
	id   string
	stop context.CancelFunc
	wake chan struct{} // a follower has joined

	mu        sync.Mutex
	followers map[wants]int // number of followers
	begun     int           // number of looks that have begun
	last      look
	changed   chan struct{} // closed by the next look
	interval  time.Duration // until the next look
}

// look is an observation of a session.
type look struct {
	number int
	events []coordination.Entry
	state  *acts.State // nil if unknown
	end    *ending     // nil while the session runs
}

// ending is the end of a session, or the error that prevents waiting for it.
type ending struct {
	result sessionflow.Result
	err    error
}

// attendSession adds a follower to the watch of a session, and returns the function that removes it. The
// state in looks up to the number since may be out of date: a session that waited for tool results
// may have received them.
func (d *Desk) attendSession(id string, f wants) (w *watch, since int, leave func()) {
	d.watches.mu.Lock()
	defer d.watches.mu.Unlock()
	w = d.watches.of[id]
	if w == nil {
		ctx, stop := context.WithCancel(context.Background())
		w = &watch{desk: d, id: id, stop: stop, wake: make(chan struct{}, 1), followers: map[wants]int{}, changed: make(chan struct{})}
		d.watches.of[id] = w
		go w.keepLooking(ctx)
	}
	return w, w.countFollower(f, 1), func() {
		d.watches.mu.Lock()
		defer d.watches.mu.Unlock()
		w.countFollower(f, -1)
		if len(w.followers) == 0 {
			d.watches.removeLocked(w)
		}
	}
}

// removeWatch ends a watch. Later callers start a new one.
func (s *watches) removeWatch(w *watch) {
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

// countFollower adds or removes a follower, and returns the number of looks that have begun. The lock of
// watches is held.
func (w *watch) countFollower(f wants, change int) (begun int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.followers[f] += change; w.followers[f] == 0 {
		delete(w.followers, f)
	}
	if change > 0 {
		w.interval = firstPoll
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return w.begun
}

// lastLook returns the last look and a channel that the next look closes.
func (w *watch) lastLook() (look, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.changed
}

// keepLooking observes the session at growing intervals and once more when it ends.
func (w *watch) keepLooking(ctx context.Context) {
	result, err := runs.Poll(ctx, firstPoll, w.wake, w.awaitEnd, func(ctx context.Context) (time.Duration, error) { return w.lookAgain(ctx), nil })
	if ctx.Err() != nil {
		return
	}
	w.desk.watches.removeWatch(w)
	w.observeSession(context.Background(), &ending{result, err})
}

func (w *watch) awaitEnd(ctx context.Context) (result sessionflow.Result, err error) {
	run := runs.Order{Kind: kind, ID: w.id}.Run()
	err = throughOutage(ctx, followPatience, func(ctx context.Context) (err error) {
		result, err = runs.Await(ctx, w.desk.conn, run, endedResult)
		return err
	})
	return result, err
}

// endedResult returns the result of a session that Temporal ended without one.
func endedResult(run runs.Run, status string, err *artifact.Error) sessionflow.Result {
	return sessionflow.Result{SessionID: run.ID, Status: status, Error: err, DurationSeconds: run.Seconds()}
}

// lookAgain observes the session and returns the interval until the next look.
func (w *watch) lookAgain(ctx context.Context) time.Duration {
	news, tools := w.observeSession(ctx, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case news:
		w.interval = firstPoll
	case tools:
		w.interval = min(w.interval*3/2, toolsPoll)
	default:
		w.interval = min(w.interval*3/2, lastPoll)
	}
	return w.interval
}

// observeSession queries the parts that the followers want and shows them. It reports whether there are new
// events, and whether a follower has tools. If a query fails, the next look repeats it; after the
// end it waits only briefly, to avoid delaying the answer.
func (w *watch) observeSession(ctx context.Context, end *ending) (news, tools bool) {
	const patience = 2 * time.Second
	if end != nil {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, patience)
		defer stop()
	}
	w.mu.Lock()
	w.begun++
	next, known := look{number: w.begun, events: w.last.events, end: end}, lastNumber(w.last.events)
	listens := false
	for f := range w.followers {
		tools, listens = tools || f.tools, listens || f.events
	}
	w.mu.Unlock()

	var events []coordination.Entry
	if listens && runs.Query(ctx, w.desk.conn, w.id, workflows.TimelineQuery, &events) == nil {
		next.events = events
	}
	var state acts.State
	if tools && end == nil && runs.Query(ctx, w.desk.conn, w.id, workflows.StateQuery, &state) == nil {
		next.state = &state
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = next
	close(w.changed)
	w.changed = make(chan struct{})
	return lastNumber(next.events) > known, tools
}

func lastNumber(events []coordination.Entry) int {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Seq
}

// Reply is the end of a session, or its wait for tools, as its caller receives it.
type Reply struct {
	Session string
	Answer  string // the whole answer
	Usage   llm.Usage
	Result  sessionflow.Result

	// Calls are the calls of the caller's tools that the session waits for. If there are any,
	// there is no answer yet.
	Calls []coordination.Call
}

// Follow waits until a session ends or, if its caller has tools, until it calls them.
// Meanwhile it reports the session's events in sentences without the agents' texts. If the
// session has no answer, the error is a *Refusal with the reason.
func (d *Desk) Follow(ctx context.Context, id string, tools bool, progress func(string)) (Reply, error) {
	w, since, leave := d.attendSession(id, wants{events: progress != nil, tools: tools})
	defer leave()
	shown := 0
	for {
		l, changed := w.lastLook()
		if progress != nil {
			shown = reportEvents(l.events, shown, progress)
		}
		switch {
		case l.end != nil && l.end.err != nil:
			return Reply{}, unavailableRefusal("wait for session "+id, l.end.err)
		case l.end != nil:
			return d.endReply(ctx, id, l.end.result)
		case tools && l.number > since && l.state != nil && l.state.Phase == coordination.PhaseWaitingForTools:
			return d.callsReply(ctx, id, l.state)
		}
		select {
		case <-ctx.Done():
			return Reply{}, unavailableRefusal("wait for session "+id, ctx.Err())
		case <-changed:
		}
	}
}

// PersonAsked begins a sentence of Follow about a question to a person.
const PersonAsked = "A person is asked: "

// Peek returns the reply of a caller's session if it has ended or waits for tools, and otherwise
// that it is running.
func (d *Desk) Peek(ctx context.Context, by access.Caller, id string) (reply Reply, running bool, err error) {
	run, err := d.Find(ctx, by, id)
	switch {
	case err != nil:
		return reply, false, err
	case !run.Running():
		reply, err = d.Follow(ctx, id, false, nil)
		return reply, false, err
	}
	state, err := d.State(ctx, by, id)
	if err != nil || state.Phase != coordination.PhaseWaitingForTools {
		return reply, true, err
	}
	reply, err = d.callsReply(ctx, id, &state)
	return reply, false, err
}

// AnswerSchema returns the schema that a session was started with; empty for none, and before its start is
// recorded.
func (d *Desk) AnswerSchema(ctx context.Context, id string) json.RawMessage {
	session, _ := artifact.ReadJSON[artifact.Session](ctx, d.conn.Store, artifact.InBucket(id).File("session.json"))
	return session.AnswerSchema
}

// Cancel cancels a caller's session and waits shortly for its end.
func (d *Desk) Cancel(ctx context.Context, by access.Caller, id string) error {
	if _, err := d.Find(ctx, by, id); err != nil {
		return err
	}
	if err := runs.Cancel(ctx, d.conn, id); err != nil {
		return unavailableRefusal("cancel session "+id, err)
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	_, _ = d.Follow(ctx, id, false, nil) // its status is read afterwards
	return nil
}

func reportEvents(events []coordination.Entry, shown int, progress func(string)) int {
	for _, e := range events {
		if e.Seq > shown && !e.Ignored() {
			line := e.Text
			if e.Question != "" && e.Reason != "" && !e.Closes() {
				line = PersonAsked + line + ": " + e.Reason
			}
			progress(text.OneLine(text.Terminal(line)))
		}
	}
	return max(shown, lastNumber(events))
}

func (d *Desk) callsReply(ctx context.Context, id string, state *acts.State) (Reply, error) {
	reply := Reply{Session: id, Usage: state.Cost.Since(state.Reported)}
	err := throughOutage(ctx, followPatience, func(ctx context.Context) (err error) {
		reply.Calls, err = d.wholeCalls(ctx, id, state.Calls)
		return err
	})
	return reply, err
}

// endReply returns the reply of an ended session. A long answer is read from the store, because the
// result does not contain it.
func (d *Desk) endReply(ctx context.Context, id string, r sessionflow.Result) (Reply, error) {
	reply := Reply{Session: id, Answer: r.Answer, Usage: r.Cost.Since(r.Reported), Result: r}
	if r.Winner == "" || r.Status == string(coordination.Undecided) {
		return reply, noAnswer(id, r)
	}
	err := throughOutage(ctx, followPatience, func(ctx context.Context) (err error) {
		reply.Answer, err = runs.WholeText(ctx, d.conn, artifact.InBucket(id), runs.Text{Content: r.Answer, Truncated: r.AnswerTruncated, Path: r.AnswerPath})
		return err
	})
	if err != nil {
		return reply, unavailableRefusal("read the answer of session "+id, err)
	}
	return reply, nil
}

// noAnswer returns the reason why a session has no answer, with the command that continues it.
func noAnswer(id string, r sessionflow.Result) *Refusal {
	why := "no agent has an answer"
	if r.Status == string(coordination.Undecided) {
		why = "its best answer has too little support"
	}
	if r.Error != nil && r.Error.Message != "" {
		why = r.Error.Message
	}
	if r.Error != nil && runs.RefusedInput(r.Error.Type) {
		return &Refusal{Status: http.StatusBadRequest, Code: "invalid_input", Message: why}
	}
	return &Refusal{
		Status: http.StatusInternalServerError, Code: "session_" + r.Status,
		Message: fmt.Sprintf("session %s ended as %s without an answer: %s; `conclave retry %s` goes on with it", id, r.Status, why, text.ShellQuote(id)),
	}
}

// How long Temporal or the store may be unavailable before the caller gets an error.
const (
	startPatience  = time.Minute      // longest wait until a request has its session
	followPatience = 10 * time.Minute // while the caller waits for the reply
)

// longCall exceeds the time for which the SDK retries a call by itself. A longer call was
// answered by the service at some point, so its failure begins another outage.
const longCall = 2 * time.Minute

// throughOutage repeats a call that fails because a service is unavailable, until the
// outage has lasted for patience.
func throughOutage(ctx context.Context, patience time.Duration, call func(context.Context) error) error {
	const first, last = 250 * time.Millisecond, 5 * time.Second
	var since time.Time // begin of the outage
	for interval := first; ; interval = min(2*interval, last) {
		began := time.Now()
		err := call(ctx)
		if !isAway(err) || ctx.Err() != nil {
			return err
		}
		switch now := time.Now(); {
		case now.Sub(began) > longCall:
			since, interval = now, first
		case since.IsZero():
			since = began
		}
		if time.Since(since)+interval > patience {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(interval):
		}
	}
}

// isAway reports whether an error is that of a service that may soon be available again.
func isAway(err error) bool {
	if _, unreachable := errors.AsType[net.Error](err); unreachable {
		return true // a deadline is one, too
	}
	failed, ok := errors.AsType[serviceerror.ServiceError](err)
	if !ok {
		return false
	}
	switch failed.Status().Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Internal, codes.Canceled:
		return true
	}
	return false
}
