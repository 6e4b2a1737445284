package main

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
)

const (
	// describeInterval is how often a followed session's pending activities are
	// looked at.
	describeInterval = 3 * time.Second
	// silence is how long a running step may go without a heartbeat, of which
	// there are several in that time, until its worker is taken for gone.
	silence = attempt.HeartbeatTimeout * 4 / 10
	// untaken is how long a step may wait for a worker before that is told.
	untaken = 10 * time.Second
	// maxFailure is how much of a failure's message is shown, in bytes.
	maxFailure = 160
)

// delaysOf says what does not get on among a workflow's activities, in the
// order of their names.
func delaysOf(pending []*workflowpb.PendingActivityInfo, now time.Time) []progress.Delay {
	var delays []progress.Delay
	for _, a := range pending {
		d, held := delayOf(a, now)
		if !held {
			continue
		}
		if isStep(a) {
			// Its ID is the agent's, or, in a pipeline, the step's, and the launch's: no launch has a hyphen.
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

// delayOf says why an activity does not get on, if it does not.
func delayOf(a *workflowpb.PendingActivityInfo, now time.Time) (d progress.Delay, held bool) {
	failed := ""
	if a.GetAttempt() > 1 && a.GetLastFailure() != nil {
		failed = fmt.Sprintf("attempt %d, %s", a.GetAttempt(), failureWords(a.GetLastFailure()))
	}
	switch a.GetState() {
	case enumspb.PENDING_ACTIVITY_STATE_STARTED, enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED:
		heard := a.GetLastStartedTime().AsTime()
		if beat := a.GetLastHeartbeatTime(); beat != nil && beat.AsTime().After(heard) {
			heard = beat.AsTime()
		}
		if isStep(a) && now.Sub(heard) > silence {
			return progress.Delay{
				Why:  "its worker is gone; the step is given to another",
				Next: max(heard.Add(attempt.HeartbeatTimeout).Sub(now), time.Second),
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
		case now.Sub(due) > untaken:
			return progress.Delay{Why: "no worker has taken it yet: none has room, or none runs"}, true
		}
	}
	return progress.Delay{}, false
}

// failureWords are the type and the start of the message of an attempt's failure.
func failureWords(f *failurepb.Failure) string {
	switch {
	case f.GetTimeoutFailureInfo() != nil:
		if f.GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT {
			return "the worker of the last one was lost"
		}
		return "the last one ran out of time"
	case f.GetApplicationFailureInfo().GetType() != "":
		return f.GetApplicationFailureInfo().GetType() + ": " + progress.Cut(progress.Line(f.GetMessage()), maxFailure)
	}
	return progress.Cut(progress.Line(f.GetMessage()), maxFailure)
}
