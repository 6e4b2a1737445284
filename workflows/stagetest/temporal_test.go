//go:build simulate

package stagetest_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"

	"conclave/engine/coordination"
)

// server is Temporal's server: it hands activities to processes, times them out, retries them, and
// keeps the runs of workflows with what has happened to them.
type server struct {
	w     *world
	flows []*flow // the newest last; each root has a test environment
}

var payloads = converter.GetDefaultDataConverter()

func encode(values ...any) *commonpb.Payloads {
	p, err := payloads.ToPayloads(values...)
	if err != nil {
		panic(err) //nolint:forbidigo // a value of a test that has no JSON form
	}
	return p
}

// activity is an activity of a run.
type job struct {
	flow    *flow
	index   int
	name    string
	id      string
	label   string
	args    *commonpb.Payloads
	options workflow.ActivityOptions
	set     workflow.Settable

	attempts  int
	current   *execution // nil while no process works on it
	details   *commonpb.Payloads
	cancelled bool // its workflow has asked for the end
	closed    bool
	answered  bool // the workflow has its result
	reported  int  // the attempt that has reported the end
}

// attempt is an execution of an activity by a process, which may go on when the server has given it up.
type execution struct {
	*job
	number  int
	proc    *process
	began   time.Time
	beat    time.Time // of the last heartbeat that has reached the server
	details *commonpb.Payloads
	cancel  func(error)
	done    bool     // its end has reached the server
	asked   *request // the last one
	tick    int64    // as in facts.clock
}

func (a *execution) String() string { return fmt.Sprintf("%s/%d", a.label, a.number) }

var delivery = []option{{"slow 3s", 15}, {"slow 45s", 5}}

// schedule puts an activity into its queue.
func (s *server) schedule(a *job) {
	at := fmt.Sprintf("%s/%d start", a.label, a.attempts+1)
	s.w.add(&event{at: at, due: time.Now(), options: delivery, fire: func(string) { s.assign(a) }})
	if limit := a.options.ScheduleToStartTimeout; limit > 0 {
		number := a.attempts
		s.w.after(limit, at+" timeout", func() {
			if a.attempts == number && a.current == nil && !a.closed {
				s.close(a, nil, timeout(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil))
			}
		})
	}
}

// assign hands an activity to a process that polls its queue. While there is none, it waits.
func (s *server) assign(a *job) {
	if a.closed {
		return
	}
	var names []string
	for _, p := range s.w.procs {
		if p.polls(a.options.TaskQueue) {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 {
		s.w.after(time.Second, a.label+" waits for a worker", func() { s.assign(a) })
		return
	}
	name := s.w.pick(fmt.Sprintf("%s/%d goes to", a.label, a.attempts+1), names...)
	p := s.w.proc(name)
	if p == nil || !slices.Contains(names, name) { // of a script whose other decisions have changed
		p = s.w.proc(names[0])
	}
	a.attempts++
	a.current = &execution{job: a, number: a.attempts, proc: p, began: time.Now(), beat: time.Now(), details: a.details}
	s.watch(a.current)
	p.start(a.current)
}

// watch times an attempt out.
func (s *server) watch(at *execution) {
	due := at.began.Add(at.options.StartToCloseTimeout)
	kind := enumspb.TIMEOUT_TYPE_START_TO_CLOSE
	if h := at.options.HeartbeatTimeout; h > 0 && at.beat.Add(h).Before(due) {
		due, kind = at.beat.Add(h), enumspb.TIMEOUT_TYPE_HEARTBEAT
	}
	s.w.add(&event{at: at.String() + " timeout", due: due, quiet: true, silent: true, fire: func(string) {
		switch {
		case !at.open():
		case kind == enumspb.TIMEOUT_TYPE_HEARTBEAT && time.Since(at.beat) < at.options.HeartbeatTimeout:
			s.watch(at)
		default:
			s.fail(at, timeout(kind, at.job.details))
		}
	}})
}

func (a *execution) open() bool { return !a.closed && a.current == a }

func timeout(kind enumspb.TimeoutType, details *commonpb.Payloads) *failurepb.Failure {
	return &failurepb.Failure{
		Message: "activity " + kind.String(),
		FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{
			TimeoutType: kind, LastHeartbeatDetails: details,
		}},
	}
}

// report is the end of an attempt as its process reports it.
func (s *server) report(at *execution, result *commonpb.Payloads, err error) {
	if !at.open() {
		return // the server answers NotFound
	}
	at.reported = at.number
	if err == nil {
		s.close(at.job, result, nil)
		return
	}
	failure := temporal.GetDefaultFailureConverter().ErrorToFailure(err)
	if failure.GetCanceledFailureInfo() != nil && at.cancelled {
		s.close(at.job, nil, failure)
		return
	}
	s.fail(at, failure)
}

// fail ends an attempt without a result. The activity is retried, unless its error is final, it is being
// cancelled, or it has no attempts left.
func (s *server) fail(at *execution, failure *failurepb.Failure) {
	a := at.job
	a.current = nil
	application := failure.GetApplicationFailureInfo()
	kind := failure.GetTimeoutFailureInfo().GetTimeoutType()
	policy := a.options.RetryPolicy
	final := application.GetNonRetryable() || application != nil && slices.Contains(policy.NonRetryableErrorTypes, application.GetType()) ||
		failure.GetCanceledFailureInfo() != nil
	if final || a.cancelled || policy.MaximumAttempts > 0 && a.attempts >= int(policy.MaximumAttempts) {
		s.close(a, nil, failure)
		return
	}
	delay := policy.InitialInterval
	for range min(a.attempts-1, 20) {
		delay = min(time.Duration(float64(delay)*policy.BackoffCoefficient), policy.MaximumInterval)
	}
	if next := application.GetNextRetryDelay(); next != nil {
		delay = steady(next)
	}
	if kind != enumspb.TIMEOUT_TYPE_UNSPECIFIED {
		a.details = at.job.details
	}
	number := a.attempts
	s.w.after(delay, fmt.Sprintf("%s/%d retry", a.label, number+1), func() {
		if a.attempts == number && !a.closed {
			s.schedule(a)
		}
	})
}

// steady returns a delay without its random part, which is less than the delay.
func steady(d *durationpb.Duration) time.Duration {
	delay := d.AsDuration()
	for _, usual := range []time.Duration{10 * time.Second, 2 * time.Second, time.Second} {
		if delay >= usual && delay < 15*time.Second {
			return usual
		}
	}
	return delay
}

// close ends an activity. Its workflow learns of it in its next task.
func (s *server) close(a *job, result *commonpb.Payloads, failure *failurepb.Failure) {
	a.closed, a.current = true, nil
	if a.answered { // it did not wait for the cancellation
		return
	}
	a.answered = true
	a.flow.receive(happening{kind: completed, index: a.index, result: result, failure: failure})
}

// cancel asks an activity to end.
func (s *server) cancel(a *job) {
	if a.closed || a.cancelled {
		return
	}
	a.cancelled = true
	if !a.options.WaitForCancellation && !a.answered {
		a.answered = true
		a.set.SetError(temporal.NewCanceledError())
	}
	at := a.current
	switch {
	case a.flow.forced: // its history has the end
		return
	case at == nil: // it waits for an attempt
		s.abandon(a)
		return
	}
	options := []option{{"dropped", 100}, {"slow 4s", 50}}
	s.w.add(&event{at: at.String() + " cancel", due: time.Now(), options: options, proc: at.proc, fire: func(what string) {
		if what != "dropped" {
			at.cancel(errCancelled)
		}
	}})
}

// abandon ends an activity that is cancelled before an attempt has begun.
func (s *server) abandon(a *job) {
	s.w.facts.abandoned(a)
	s.close(a, nil, temporal.GetDefaultFailureConverter().ErrorToFailure(temporal.NewCanceledError("ACTIVITY_ID_NOT_STARTED")))
}

// heartbeat records a heartbeat, and returns what the server answers.
func (s *server) heartbeat(at *execution, details *commonpb.Payloads) error {
	if !at.open() {
		return serviceerror.NewNotFound("activity not found")
	}
	if time.Since(at.beat) > time.Second { // which of two heartbeats comes first depends on goroutines
		at.beat = time.Now()
	}
	if details != nil {
		at.job.details = details
		var d struct{ Doing *coordination.Doing }
		if payloads.FromPayloads(details, &d) == nil && d.Doing != nil && d.Doing.Kind == coordination.CallsModel && at.asked != nil {
			at.asked.told = true
		}
	}
	if at.cancelled {
		return temporal.NewCanceledError()
	}
	return nil
}

// lose fails the open attempts of a dead process, as whoever finds its roster does.
func (s *server) lose(p *process) {
	for _, f := range s.flows {
		for _, a := range f.activities {
			if at := a.current; at != nil && at.proc == p {
				options := temporal.ApplicationErrorOptions{NextRetryDelay: time.Millisecond, Category: temporal.ApplicationErrorCategoryBenign}
				if a.details != nil {
					var details any
					if payloads.FromPayloads(a.details, &details) == nil {
						options.Details = []any{details}
					}
				}
				err := temporal.NewApplicationErrorWithOptions("the worker process died", "WorkerLost", options)
				s.fail(at, temporal.GetDefaultFailureConverter().ErrorToFailure(err))
			}
		}
	}
}

// open returns the run of a workflow that has not ended, or nil.
func (s *server) open(id string) *flow {
	for _, f := range slices.Backward(s.flows) {
		if f.id == id && !f.closed {
			return f
		}
	}
	return nil
}

func (s *server) find(id, run string) *flow {
	for _, f := range s.flows {
		if f.id == id && f.run == run {
			return f
		}
	}
	return nil
}

var errNotFound = errors.New("simulated: workflow not found")
