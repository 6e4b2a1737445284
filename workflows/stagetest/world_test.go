//go:build simulate

package stagetest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"conclave/engine/config"
)

// world is one simulated run: processes, a store, models, people and Temporal. Everything that a process
// does outside of itself is a call, which waits until the world lets it return. Between two calls that
// return, the world waits until every goroutine has come to rest, so a run depends on its schedule only.
//
// A world lives in a bubble of testing/synctest, whose time passes when nothing else can happen.
type world struct {
	*schedule
	over chan struct{} // closed at the end
	live sync.WaitGroup

	mu      sync.Mutex // no lock is held over a call: the bubble would never come to rest
	arrived []*event
	ended   bool
	wake    chan struct{}

	queue   []*event
	count   int // events so far
	trace   []string
	tracing bool
	broken  *violation

	scratch  string
	bucket   *bucket
	temporal *server
	procs    []*process
	people   *people
	facts    *facts

	root     string     // ID of the workflow
	frozen   bool       // a process was stopped for a while, perhaps between a read and the write that follows it
	resumed  func() any // the input with which an ended run is gone on with; nil if it is not
	settings map[string]string
	named    map[string]config.Team // the teams of the workers
}

// violation is the first invariant that a run has broken.
type violation struct{ name, text string }

func (v *violation) Error() string { return v.name + ": " + v.text }

// event is something that happens at a time: a call returns, a timer fires, a task is delivered.
type event struct {
	at      string // its place in the schedule
	options []option
	what    string // what the schedule has decided
	due     time.Time
	seq     int
	proc    *process // it waits while this process is frozen or dead; nil for the server's own
	quiet   bool     // nothing strikes after it
	silent  bool     // goroutines that run at the same time decide whether it comes before others
	fire    func(what string)

	// Of a call:
	result    chan error
	perform   func(what string) error
	fault     func(error) error
	local     bool // it does not leave the process
	late      bool // it has not left it
	performed bool
	err       error
}

// errGone is the result of calls at the end of the world.
var errGone = errors.New("the simulation is over")

const (
	patience  = 5 * time.Minute     // for which nothing happens until people look
	maxEvents = 30_000              // of a run
	maxAge    = 40 * 24 * time.Hour // of a run
)

func newWorld(s *schedule, scratch string) *world {
	w := &world{schedule: s, over: make(chan struct{}), wake: make(chan struct{}, 1), scratch: scratch}
	w.bucket = newBucket(w)
	w.temporal = &server{w: w}
	w.facts = newFacts(w)
	w.people = newPeople(w)
	return w
}

// add schedules an event. It may be called by any goroutine.
func (w *world) add(e *event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		if e.result != nil {
			e.result <- errGone
		}
		return
	}
	w.arrived = append(w.arrived, e)
	w.rouse()
}

// after schedules a quiet event of the server.
func (w *world) after(d time.Duration, at string, fire func()) {
	w.add(&event{at: at, due: time.Now().Add(d), quiet: true, fire: func(string) { fire() }})
}

// hurry makes a call that waits return next.
func (w *world) hurry(e *event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.due = time.Now()
	w.rouse()
}

// rouse is called with the lock held.
func (w *world) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// call performs an operation of a process outside of it. An operation without options is one whose time
// depends on the order of goroutines: nothing else may depend on it.
//
// The schedule decides when it returns, and how:
//
//	slow 40s   it is performed at once, and returns after that time
//	failed     it is not performed
//	lost       it is performed, and its response is lost
//	late 10s   its response is lost, and it is performed after that time
//	hang 2m    it is not performed, and its caller gives up after that time
//
// Other outcomes are passed to the operation. What a process has sent is performed even if the process is
// frozen or dead by then, unless the operation is local.
func (w *world) call(ctx context.Context, p *process, at string, options []option, fault func(error) error, perform func(what string) error) error {
	return w.wait(ctx, &event{at: whoIs(ctx, p) + " " + at, options: options, proc: p, fault: fault, perform: perform})
}

func (w *world) wait(ctx context.Context, e *event) error {
	e.due, e.result = time.Now(), make(chan error, 1)
	e.quiet, e.silent = e.options == nil, e.options == nil
	e.late = e.local || e.proc.held()
	e.fire = func(what string) { w.fireCall(ctx, e, what) }
	w.add(e)
	defer context.AfterFunc(ctx, func() { w.hurry(e) })()
	return <-e.result
}

// fireCall performs a call, or returns its result.
func (w *world) fireCall(ctx context.Context, e *event, what string) {
	switch kind, rest, _ := strings.Cut(what, " "); {
	case context.Cause(ctx) != nil:
		if !e.performed && w.choose(e.at+" cut", option{"applied", 300}) != "" {
			_ = e.perform("")
		}
		e.err = e.fault(context.Cause(ctx))
	case e.performed:
	case kind == "failed", kind == "hang":
		e.err = e.fault(errors.New("simulated: " + what))
	case kind == "lost":
		_ = e.perform("")
		e.err = e.fault(errors.New("simulated: no response"))
	case kind == "late":
		w.add(&event{at: e.at + " late", due: time.Now().Add(length(rest)), quiet: true, fire: func(string) { _ = e.perform("") }})
		e.err = e.fault(errors.New("simulated: no response"))
	case kind == "slow":
		e.err = e.perform("")
		e.due = time.Now().Add(length(rest))
	default:
		e.err = e.perform(what)
	}
	e.performed = true
	if e.proc.held() || e.due.After(time.Now()) && ctx.Err() == nil {
		w.queue = append(w.queue, e)
		return
	}
	e.result <- e.err
}

func length(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// admit takes the events that have arrived, in the order of their places: goroutines arrive in any order.
func (w *world) admit() {
	w.mu.Lock()
	arrived := w.arrived
	w.arrived = nil
	w.mu.Unlock()
	slices.SortStableFunc(arrived, func(a, b *event) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.at, b.at)) })
	for _, e := range arrived {
		w.count++
		e.seq = w.count
		if len(e.options) > 0 {
			e.what = w.choose(e.at, e.options...)
			e.at = w.lastPlace(e.at)
		}
		if kind, rest, _ := strings.Cut(e.what, " "); kind == "hang" || kind == "slow" && e.result == nil {
			e.due = e.due.Add(length(rest))
		}
		w.queue = append(w.queue, e)
	}
}

// lastPlace returns the name of the place that has just been reached.
func (s *schedule) lastPlace(at string) string {
	if n := s.taken[at]; n > 1 {
		return fmt.Sprintf("%s #%d", at, n)
	}
	return at
}

// next removes and returns the event that is due. If none is, it returns the time until one may be.
func (w *world) next() (*event, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	best := -1
	for i, e := range w.queue {
		if e.proc != nil && e.proc.held() && (e.result == nil || e.late || e.performed) {
			continue
		}
		if best < 0 || cmp.Or(e.due.Compare(w.queue[best].due), cmp.Compare(e.at, w.queue[best].at), cmp.Compare(e.seq, w.queue[best].seq)) < 0 {
			best = i
		}
	}
	if best < 0 {
		return nil, maxAge
	}
	e := w.queue[best]
	if wait := time.Until(e.due); wait > 0 {
		return nil, wait
	}
	w.queue = slices.Delete(w.queue, best, best+1)
	return e, 0
}

// run lets the events happen until done reports the end, or an invariant is broken.
func (w *world) run(done func() bool) {
	began := time.Now()
	for w.broken == nil {
		synctest.Wait()
		w.facts.check()
		if w.broken != nil || done() {
			return
		}
		w.admit()
		if w.count > maxEvents || time.Since(began) > maxAge {
			w.breaks("no run goes on for ever", "%d events in %v", w.count, time.Since(began))
			return
		}
		e, wait := w.next()
		if e == nil {
			if wait > patience {
				w.facts.idle(wait)
			}
			w.idle(min(wait, patience))
			continue
		}
		time.Sleep(time.Millisecond) // so that timers that were set one after the other never fire at once
		synctest.Wait()
		if w.tracing && (!e.silent || os.Getenv("TRACE") == "all") {
			w.trace = append(w.trace, fmt.Sprintf("%9.3fs %s %s", time.Since(began).Seconds(), e.at, e.what))
		}
		e.fire(e.what)
		if !e.quiet {
			w.people.strike(e.at, e.proc)
		}
	}
}

// idle lets time pass until something happens.
func (w *world) idle(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.wake:
	case <-timer.C:
	}
}

// breaks records that an invariant is broken.
func (w *world) breaks(name, format string, args ...any) {
	if w.broken == nil {
		w.broken = &violation{name, fmt.Sprintf(format, args...)}
	}
}

// end ends everything that is still alive.
func (w *world) end() {
	w.mu.Lock()
	w.ended = true
	waiting := slices.Concat(w.queue, w.arrived)
	w.mu.Unlock()
	close(w.over)
	for _, e := range waiting {
		if e.result != nil {
			e.result <- errGone
		}
	}
	for _, p := range w.procs {
		p.endAll(errGone)
	}
	w.temporal.end()
	w.live.Wait()
	w.facts.checkHistory()
	w.facts.checkTranscripts()
	time.Sleep(time.Hour) // steps that have outlived their attempts end by themselves
}

// violated returns the invariant that is broken as an error.
func (w *world) violated() error {
	if w.broken == nil {
		return nil
	}
	return w.broken
}
