package session

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/loop"
	"conclave/workflows/drive"
)

// ended feeds a step's outcome to the core.
func (s *session) ended(ctx workflow.Context, launched running, f workflow.Future) {
	i := slices.IndexFunc(s.running, func(r running) bool { return r.launch.ID == launched.launch.ID })
	r := s.running[i] // as it is now: it may have been cancelled since
	s.running = slices.Delete(s.running, i, i+1)
	var result activities.StepResult
	if err := f.Get(ctx, &result); err != nil {
		s.core.Step(unfinished(r, drive.Token(s.ctx, string(r.launch.ID)), err))
		return
	}
	if s.core.Protocol > 1 && !drive.IsToken(s.ctx, result.Token, string(r.launch.ID)) {
		s.core.Step(byHand(r.launch, drive.Token(s.ctx, string(r.launch.ID))))
		return
	}
	s.core.Step(finished(r.launch, result))
}

// byHand is the event of an activity that somebody completed with a result of
// their own. There is nothing in the store behind it, so it is no action.
func byHand(l coordination.Launch, token string) coordination.Event {
	return coordination.Failed{Launch: l.ID, Token: token, Cause: coordination.Failure{
		Type:    drive.CompletedByHand,
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

// unfinished converts the final error of a step to an event. An error without a token
// gets the given one.
func unfinished(r running, token string, err error) coordination.Event {
	detail := drive.Details(err, token)
	if r.cancelled || temporal.IsCanceledError(err) {
		return coordination.Suspended{Launch: r.launch.ID, Step: detail.Step, Token: detail.Token, Usage: detail.Usage}
	}
	return coordination.Failed{
		Launch: r.launch.ID, Step: detail.Step, Cause: drive.Failure(err), Token: detail.Token, Usage: detail.Usage,
	}
}
