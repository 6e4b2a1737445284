package workflows

import (
	"errors"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/loop"
)

// ended feeds a step's outcome to the core.
func (s *session) ended(ctx workflow.Context, launched running, f workflow.Future) {
	i := slices.IndexFunc(s.running, func(r running) bool { return r.launch.ID == launched.launch.ID })
	r := s.running[i] // as it is now: it may have been cancelled since
	s.running = slices.Delete(s.running, i, i+1)
	var result activities.StepResult
	if err := f.Get(ctx, &result); err != nil {
		s.core.Step(unfinished(r, workflow.GetInfo(s.ctx).WorkflowExecution.RunID, err))
		return
	}
	run := workflow.GetInfo(s.ctx).WorkflowExecution.RunID
	if s.core.Protocol > 1 && !tokenOf(r.launch, run, result.Token) {
		s.core.Step(byHand(r.launch, token(run, r.launch)))
		return
	}
	s.core.Step(finished(r.launch, result))
}

// token is the execution token of a launch in a run, as the activity makes it.
func token(run string, l coordination.Launch) string { return run + "-" + string(l.ID) }

// tokenOf reports whether t is a token of the launch: in this run, or in one that
// was reset and that this one repeats, of which only the form is known.
func tokenOf(l coordination.Launch, run, t string) bool { return tokenForm(t, run, string(l.ID)) }

// tokenForm is tokenOf for a launch of any workflow.
func tokenForm(t, run, launch string) bool {
	const uuid = 36 // characters of a run ID
	of, found := strings.CutSuffix(t, "-"+launch)
	return found && (of == run || len(of) == uuid)
}

// byHand is the event of an activity that somebody completed with a result of
// their own. There is nothing in the store behind it, so it is no action.
func byHand(l coordination.Launch, token string) coordination.Event {
	return coordination.Failed{Launch: l.ID, Token: token, Cause: coordination.Failure{
		Type:    CompletedByHand,
		Message: "the activity was completed from outside with a result that no step came to; retry the agent, or let the others decide",
	}}
}

// finished is a step's result as an event.
func finished(l coordination.Launch, r activities.StepResult) coordination.Event {
	switch r.Ended {
	case loop.EndRestart:
		return coordination.Restarted{Launch: l.ID, Step: r.Step, Usage: r.Usage}
	case loop.EndAllowance:
		return coordination.Exhausted{Launch: l.ID, Step: r.Step, Usage: r.Usage}
	}
	switch r.Action {
	case coordination.Vote:
		return coordination.Voted{
			Launch: l.ID, Step: r.Step, Target: r.Target, TargetLabel: r.TargetLabel,
			Reason: r.Reason, Seen: r.Seen, Heard: r.Heard, Usage: r.Usage,
		}
	case coordination.Stop:
		return coordination.Stopped{
			Launch: l.ID, Step: r.Step, Status: r.Status, Summary: r.Summary,
			Seen: r.Seen, Heard: r.Heard, Usage: r.Usage,
		}
	case coordination.Submit, coordination.RestartTeam:
		return coordination.Evaluated{
			Launch: l.ID, Step: r.Step, Again: r.Action == coordination.RestartTeam, Reason: r.Reason, Usage: r.Usage,
		}
	default:
		return coordination.Answered{Launch: l.ID, Step: r.Step, Seen: r.Seen, Heard: r.Heard, Usage: r.Usage}
	}
}

// unfinished is the final error of a step of the run as an event. The token of
// one that could not say it is made as the activity makes it.
func unfinished(r running, run string, err error) coordination.Event {
	detail := detailOf(err)
	if detail.Token == "" {
		detail.Token = token(run, r.launch)
	}
	if r.cancelled || temporal.IsCanceledError(err) {
		return coordination.Suspended{Launch: r.launch.ID, Step: detail.Step, Token: detail.Token, Usage: detail.Usage}
	}
	return coordination.Failed{
		Launch: r.launch.ID, Step: detail.Step, Cause: failure(err), Token: detail.Token, Usage: detail.Usage,
	}
}

// detailOf is what a step that came to nothing says of itself.
func detailOf(err error) activities.StepFailure {
	var detail activities.StepFailure
	var application *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &application) && application.HasDetails():
		_ = application.Details(&detail) // of another shape: what it spent stays unknown
	case errors.As(err, &cancelled) && cancelled.HasDetails():
		_ = cancelled.Details(&detail)
	case errors.As(err, &timeout) && timeout.HasLastHeartbeatDetails():
		_ = timeout.LastHeartbeatDetails(&detail) // what its last heartbeat told
	}
	return detail
}

// failure names an activity's error by its stable type.
func failure(err error) coordination.Failure {
	var application *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &application) && application.Type() != "":
		return coordination.Failure{Type: application.Type(), Message: application.Message()}
	case errors.As(err, &application):
		return coordination.Failure{Type: "FailedByHand", Message: application.Message()}
	case errors.As(err, &timeout):
		return coordination.Failure{Type: "Timeout", Message: timeout.Error()}
	default:
		return coordination.Failure{Type: "Unknown", Message: err.Error()}
	}
}
