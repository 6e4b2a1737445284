package runs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"conclave/activities/attempt"
	pipelineacts "conclave/activities/pipeline"
	sessionacts "conclave/activities/session"
	"conclave/cmd/conclave/progress"
	"conclave/engine/text"
)

const (
	// silence is how long a running step may go without a heartbeat, sent several
	// times in that period, until its worker counts as lost.
	silence = attempt.HeartbeatTimeout * 4 / 10
	// queueTime is how long a step may wait for a worker before that is reported.
	queueTime = 10 * time.Second
	// MaxFailure is how much of a failure's message is shown, in bytes.
	MaxFailure = 160
)

// delaysOf are the pending activities that make no progress, sorted by name.
func delaysOf(pending []*workflowpb.PendingActivityInfo, now time.Time) []progress.Delay {
	var delays []progress.Delay
	for _, a := range pending {
		d, delayed := delayOf(a, now)
		if !delayed {
			continue
		}
		if isStep(a) {
			// The activity ID is the agent's, or in a pipeline the step's, then a hyphen,
			// then the launch's, which has no hyphen.
			if i := strings.LastIndexByte(a.GetActivityId(), '-'); i > 0 {
				d.Agent = a.GetActivityId()[:i]
			}
		} else {
			d.Work = a.GetActivityType().GetName()
		}
		delays = append(delays, d)
	}
	slices.SortStableFunc(delays, func(a, b progress.Delay) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Work, b.Work))
	})
	return delays
}

// isStep reports whether an activity is a step of an agent or of a pipeline.
func isStep(a *workflowpb.PendingActivityInfo) bool {
	name := a.GetActivityType().GetName()
	return name == sessionacts.RunStepName || name == pipelineacts.RunSegmentName
}

// delayOf is the reason why an activity makes no progress, if there is one.
func delayOf(a *workflowpb.PendingActivityInfo, now time.Time) (d progress.Delay, delayed bool) {
	failed := ""
	if a.GetAttempt() > 1 && a.GetLastFailure() != nil {
		failed = fmt.Sprintf("attempt %d, %s", a.GetAttempt(), describeFailure(a.GetLastFailure()))
	}
	switch a.GetState() {
	case enumspb.PENDING_ACTIVITY_STATE_STARTED, enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED:
		alive := a.GetLastStartedTime().AsTime()
		if beat := a.GetLastHeartbeatTime(); beat != nil && beat.AsTime().After(alive) {
			alive = beat.AsTime()
		}
		if isStep(a) && now.Sub(alive) > silence {
			return progress.Delay{
				Why:  "its worker is gone; the step is given to another",
				Next: max(alive.Add(attempt.HeartbeatTimeout).Sub(now), time.Second),
			}, true
		}
		return progress.Delay{Why: failed}, failed != ""
	case enumspb.PENDING_ACTIVITY_STATE_SCHEDULED:
		due := a.GetScheduledTime().AsTime()
		if next := a.GetNextAttemptScheduleTime(); next != nil {
			due = next.AsTime()
		}
		switch {
		case failed != "":
			return progress.Delay{Why: failed + "; again", Next: due.Sub(now)}, true
		case now.Sub(due) > queueTime:
			return progress.Delay{Why: "no worker has taken it yet: none has room, or none runs"}, true
		}
	}
	return progress.Delay{}, false
}

// describeFailure is the type and the shortened message of an attempt's failure.
func describeFailure(f *failurepb.Failure) string {
	switch {
	case f.GetTimeoutFailureInfo() != nil:
		if f.GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT {
			return "the worker of the last one was lost"
		}
		return "the last one ran out of time"
	case f.GetApplicationFailureInfo().GetType() != "":
		return f.GetApplicationFailureInfo().GetType() + ": " + text.Truncate(progress.Line(f.GetMessage()), MaxFailure)
	}
	return text.Truncate(progress.Line(f.GetMessage()), MaxFailure)
}
