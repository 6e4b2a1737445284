package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/coordination"
)

// running is a step under way.
type running struct {
	launch coordination.Launch
	future workflow.Future
	cancel workflow.CancelFunc
}

// launch starts a step. Its activity ID is typable, for `temporal activity …`.
func (s *session) launch(l coordination.Launch) {
	ctx, cancel := workflow.WithCancel(s.ctx)
	ctx = steps(ctx, launchSummary(l), time.Duration(s.prepared.TimeoutSeconds)*time.Second)
	options := workflow.GetActivityOptions(ctx)
	options.ActivityID = fmt.Sprintf("%s-%s", l.Agent, l.ID)
	ctx = workflow.WithActivityOptions(ctx, options)
	input := activities.StepInput{Session: s.id, ConfigHash: s.prepared.ConfigHash, Launch: l}
	s.running = append(s.running, running{
		launch: l, cancel: cancel,
		future: workflow.ExecuteActivity(ctx, activities.RunStepName, input),
	})
}

// launchSummary is the step in the Web UI's event list.
func launchSummary(l coordination.Launch) string {
	if len(l.Shown) == 0 {
		return fmt.Sprintf("%s (agent%d) · round %d · first answer", l.Agent, l.Number, l.Round)
	}
	labels := make([]string, len(l.Shown))
	for i, shown := range l.Shown {
		labels[i] = shown.Label
	}
	const most = 8 // a summary holds 400 bytes
	more := ""
	if len(labels) > most {
		labels, more = labels[:most], fmt.Sprintf(" and %d more", len(l.Shown)-most)
	}
	return fmt.Sprintf("%s (agent%d) · round %d · sees %s%s", l.Agent, l.Number, l.Round, strings.Join(labels, " "), more)
}

func (s *session) cancelStep(id coordination.LaunchID) {
	for _, r := range s.running {
		if r.launch.ID == id {
			r.cancel()
		}
	}
}

// ended feeds a step's outcome to the core.
func (s *session) ended(ctx workflow.Context, r running, f workflow.Future) {
	s.running = slices.DeleteFunc(s.running, func(other running) bool { return other.launch.ID == r.launch.ID })
	var result activities.StepResult
	if err := f.Get(ctx, &result); err != nil {
		event := failed(r.launch, err)
		if temporal.IsCanceledError(err) {
			s.core.Step(coordination.Stopped{Launch: event.Launch, Usage: event.Usage})
			return
		}
		s.core.Step(event)
		return
	}
	s.core.Step(finished(r.launch, result))
}

// finished is a step's result as an event.
func finished(l coordination.Launch, r activities.StepResult) coordination.Event {
	if r.Action == coordination.Vote {
		return coordination.Voted{
			Launch: l.ID, Step: r.Step, Target: r.Target, TargetLabel: r.TargetLabel,
			Reason: r.Reason, Seen: r.Seen, Usage: r.Usage,
		}
	}
	return coordination.Answered{Launch: l.ID, Step: r.Step, Seen: r.Seen, Usage: r.Usage}
}

// failed is a step's final error as an event.
func failed(l coordination.Launch, err error) coordination.Failed {
	event := coordination.Failed{Launch: l.ID, Cause: failure(err)}
	var detail activities.StepFailure
	var application *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &application) && application.HasDetails():
		_ = application.Details(&detail) // of another shape: what it spent stays unknown
	case errors.As(err, &cancelled) && cancelled.HasDetails():
		_ = cancelled.Details(&detail)
	}
	event.Step, event.Usage = detail.Step, detail.Usage
	return event
}

// failure names an activity's error by its stable type.
func failure(err error) coordination.Failure {
	var application *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &application):
		return coordination.Failure{Type: application.Type(), Message: application.Message()}
	case errors.As(err, &timeout):
		return coordination.Failure{Type: "Timeout", Message: timeout.Error()}
	case temporal.IsCanceledError(err):
		return coordination.Failure{Type: "Cancelled", Message: "the step was cancelled"}
	default:
		return coordination.Failure{Type: "Unknown", Message: err.Error()}
	}
}
