package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// Delays between the attempts of a step whose model's server is away. They double, and vary by a
// quarter to spread the retries of steps that failed together.
const (
	firstOutageDelay   = 5 * time.Second
	longestOutageDelay = time.Minute

	// unreachedPatience bounds the retries of calls to a server that has never replied.
	unreachedPatience = 5 * time.Second
)

// outage is an outage of the model's server, as recorded by the attempts of a step.
type outage struct {
	Since time.Time `json:"since"`
	Tries int       `json:"tries"` // number of attempts that it ended
	What  string    `json:"what"`  // the last failure
}

func (o outage) nextDelay(spread func(time.Duration) time.Duration) time.Duration {
	d := longestOutageDelay
	if o.Tries < 5 {
		d = min(d, firstOutageDelay<<(o.Tries-1))
	}
	return d - d/4 + spread(d/2)
}

// DefaultOutage is the longest outage of a run that does not set outage_seconds.
func DefaultOutage() time.Duration {
	return time.Duration(config.Default().Timeouts.OutageSeconds) * time.Second
}

// LimitOutages sets the longest outage of the model's server, after which the step ends; 0 means no
// limit. since is when the server stopped replying to the step that this one resumes, or zero if it
// was replying.
func (a *Attempt) LimitOutages(d time.Duration, since time.Time) {
	a.outageLimit = d
	a.heart.updateDetails(func(d *details) {
		if d.Outage == nil && !d.Replied && !since.IsZero() {
			d.Outage = &outage{Since: since}
		}
	})
}

// waitOut returns the class of an error that shows the model's server to be away. Attempts that
// wait for the server are not counted. The step ends after the limit, or at once if the server has
// never replied.
func (a *Attempt) waitOut(ctx context.Context, c step.Class, failed *llm.Error) (step.Class, coordination.Outage) {
	if failed.Status == 0 && !a.hasReplied(ctx) {
		return step.Class{Type: activities.Outage, Final: true}, coordination.Unreached
	}
	now, over := a.process.Now(), false
	o := a.heart.updateDetails(func(d *details) {
		if d.Outage == nil {
			d.Outage = &outage{Since: now}
			if !failed.Since.IsZero() {
				d.Outage.Since = failed.Since
			}
		}
		next := *d.Outage // a copy, because reports in flight use the old value
		next.Tries++
		next.What = failed.Message
		d.Outage, a.heart.replying = &next, false
		if over = a.outageLimit > 0 && now.Sub(next.Since) >= a.outageLimit; over {
			a.heart.awayAfter = 0 // the end of the step is the report
		}
	}).Outage
	if over {
		return step.Class{Type: activities.Outage, Final: true}, coordination.Interrupted
	}
	c.Free, c.After = true, max(c.After, o.nextDelay(a.heart.spread))
	if left := a.reportModel(ctx); left > 0 { // so that it is reported in time
		c.After = min(c.After, left)
	}
	return c, coordination.NoOutage
}

// awayMark stores the beginning of an outage while a step waits for its next attempt. A step that
// is cancelled then cannot report it.
type awayMark struct {
	Since      time.Time `json:"since"`
	ModelCalls int64     `json:"model_calls"` // calls of the step so far; a later call ended the outage
}

func awayKey(l artifact.Layout, token string) string { return l.Journals(token) + "away.json" }

// markOutage stores the beginning of the outage before the step waits for its next attempt, or
// deletes the mark of an outage that has ended. If it fails, the next launch waits longer than
// necessary.
func (a *Attempt) markOutage(ctx context.Context) {
	var since time.Time
	d := a.heart.currentDetails()
	if d.Outage != nil {
		since = d.Outage.Since
	}
	if a.Spec.Dir == nil || since.Equal(d.Marked) {
		return
	}
	ctx, stop := context.WithTimeout(ctx, recordTimeout)
	defer stop()
	key := awayKey(a.Spec.Layout, a.Token)
	var err error
	if since.IsZero() {
		err = a.process.Store.DeleteAll(ctx, []string{key})
	} else {
		err = artifact.PutJSON(ctx, a.process.Store, key, awayMark{Since: since, ModelCalls: a.Result.Usage.ModelCalls})
	}
	if err == nil {
		a.heart.updateDetails(func(d *details) { d.Marked = since })
	}
}

// awaySince returns when the model's server stopped replying to a step that ended without a report,
// or zero if the server was replying. launched is the value at the launch of the step.
func (p Process) awaySince(ctx context.Context, s step.Spec, calls int64, launched time.Time) (time.Time, error) {
	mark, err := artifact.ReadJSON[awayMark](ctx, p.Store, awayKey(s.Layout, s.Token))
	switch {
	case err == nil && calls <= mark.ModelCalls:
		return mark.Since, nil
	case err == nil || calls > 0:
		return time.Time{}, nil
	case errors.Is(err, artifact.ErrNotFound):
		return launched, nil
	}
	return time.Time{}, err
}

// lacksEverywhere reports whether no other worker can be expected to be better equipped: none
// polls the queue, or none has taken the step during the time limit of outages.
func (a *Attempt) lacksEverywhere(ctx context.Context) bool {
	since := a.heart.updateDetails(func(d *details) {
		if d.Lacking.IsZero() {
			d.Lacking = a.process.Now()
		}
	}).Lacking
	limit := cmp.Or(a.outageLimit, DefaultOutage())
	return a.process.Alone(ctx) || a.process.Now().Sub(since) >= limit
}

func (a *Attempt) suspendInOutage(ctx context.Context, kind coordination.Outage, err error) error {
	away := &awayError{err: err}
	if kind == coordination.Interrupted {
		away.since = a.process.Now().Sub(a.Failure().AwaySince).Round(time.Second)
	}
	return a.suspendAway(ctx, kind, activities.Outage, away)
}

// suspendAway records the step without an action and returns the activity's error. The journal
// remains, so that the step can be resumed.
func (a *Attempt) suspendAway(ctx context.Context, kind coordination.Outage, errorType string, err error) error {
	failure := a.Failure()
	failure.Outage = kind
	if a.Spec.Dir != nil {
		abandoned := step.Abandon(ctx, a.Ports, a.Spec, a.Result, artifact.Error{Type: errorType, Message: textOf(err)})
		if abandoned != nil {
			activity.GetLogger(ctx).Warn("the files of a step that is resumed later were not kept", "step", a.Result.Step, "error", abandoned)
		}
	}
	return applicationError(err, step.Class{Type: errorType, Final: true}, failure)
}

// awayError reports a server that has sent no usable reply for the time since; 0 if it never
// replied.
type awayError struct {
	since time.Duration
	err   error
}

func (e *awayError) Error() string {
	if e.since == 0 {
		return "no reply since the start: " + textOf(e.err)
	}
	return fmt.Sprintf("no usable reply for %s: %s", e.since, textOf(e.err))
}

func (e *awayError) Unwrap() error { return e.err }

// attemptKey is the context key of the running attempt.
type attemptKey struct{}

// Patience returns how long the step of ctx retries a call to a server that is away: briefly if the
// server has never replied in this run, not at all if it was away in an earlier attempt, and
// otherwise a minute, or the limit of outages if that is shorter. Outside a step it is a minute.
func Patience(ctx context.Context, responded bool) time.Duration {
	a, ok := ctx.Value(attemptKey{}).(*Attempt)
	switch {
	case !ok:
		return time.Minute
	case a.heart.currentDetails().Outage != nil: // an earlier attempt has tried for a minute
		return 0
	case !responded && !a.hasReplied(ctx):
		return unreachedPatience
	case a.outageLimit > 0:
		return min(a.outageLimit, time.Minute)
	}
	return time.Minute
}

// watched is a model that reports its calls in the heartbeats. Its first reply marks the server as
// reached.
type watched struct {
	loop.Model
	attempt *Attempt
}

func (m watched) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	if !m.attempt.heart.admitsCall() {
		return llm.Reply{}, errStopped
	}
	defer m.attempt.heart.beginCall(coordination.CallsModel, m.attempt.modelCall())()
	reply, err := m.Model.Generate(llm.WithSaid(llm.WithDepth(ctx, m.attempt.Depth), m.attempt.noteHeard), req)
	failed, ok := errors.AsType[*llm.Error](err)
	m.attempt.heart.updateDetails(func(d *details) {
		if err == nil {
			reply.Usage.Repeated, d.Cut = reply.Usage.Repeated+d.Cut, 0
		} else if ctx.Err() != nil && d.Doing != nil && !d.Doing.Waits() {
			d.Cut++
		}
		if err == nil && d.Doing != nil && d.Doing.Kind == coordination.CallsModel {
			d.LongestCall = max(d.LongestCall, time.Since(d.Doing.Since).Truncate(time.Second).Seconds())
		}
	})
	if err == nil || ok && failed.Status != 0 {
		m.attempt.markReached(ctx)
	}
	if err == nil || ok && failed.Status != 0 && !failed.Outage() {
		m.attempt.heart.endOutage()
	}
	return reply, err
}

// Responded ends the recorded outage of the step of ctx, after its model's server has replied, even
// with an error. Outside a step Responded does nothing.
func Responded(ctx context.Context) {
	if h, ok := ctx.Value(heartKey{}).(*heart); ok {
		h.endOutage()
	}
}

func (h *heart) endOutage() {
	h.updateDetails(func(d *details) { d.Outage, d.Replied, h.replying = nil, true, true })
}
