package session

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/loop"
	"conclave/workflows/drive"
)

// ended feeds a step's outcome to the core.
func (s *session) ended(ctx workflow.Context, launched running, f workflow.Future) {
	i := slices.IndexFunc(s.running, func(r running) bool { return r.launch.ID == launched.launch.ID })
	r := s.running[i] // as it is now: it may have been cancelled since
	s.running = slices.Delete(s.running, i, i+1)
	var result acts.StepResult
	if err := f.Get(ctx, &result); err != nil {
		s.core.Step(unfinished(r, drive.Token(s.ctx, string(r.launch.ID)), err))
		return
	}
	if !drive.IsToken(s.ctx, result.Token, string(r.launch.ID)) {
		s.core.Step(byHand(r.launch, drive.Token(s.ctx, string(r.launch.ID))))
		return
	}
	s.core.Step(finished(r.launch, result))
}

// byHand is the event of an activity that somebody completed with a result of
// their own. There is nothing in the store behind it, so it is no action.
func byHand(l coordination.Launch, token string) coordination.Event {
	return coordination.Failed{End: coordination.End{Launch: l.ID}, Token: token, Cause: coordination.Failure{
		Type:    drive.CompletedByHand,
		Message: "the activity was completed from outside with a result that no step came to; retry the agent, or let the others decide",
	}}
}

// finished is a step's result as an event.
func finished(l coordination.Launch, r acts.StepResult) coordination.Event {
	switch r.Ended {
	case loop.EndRestart:
		return coordination.Restarted{End: coordination.End{Launch: l.ID, Step: r.Step, Usage: r.Usage}}
	case loop.EndAllowance:
		return coordination.Exhausted{End: coordination.End{Launch: l.ID, Step: r.Step, Usage: r.Usage}}
	}
	switch r.Action {
	case coordination.Vote:
		return coordination.Voted{
			End: coordination.End{Launch: l.ID, Step: r.Step, Usage: r.Usage}, Target: r.Target, TargetLabel: r.TargetLabel,
			Reason: r.Reason, Seen: r.Seen, Heard: r.Heard,
		}
	case coordination.Stop:
		return coordination.Stopped{
			End: coordination.End{Launch: l.ID, Step: r.Step, Usage: r.Usage}, Status: r.Status, Summary: r.Summary,
			Seen: r.Seen, Heard: r.Heard,
		}
	case coordination.Submit, coordination.RestartTeam:
		return coordination.Evaluated{
			End: coordination.End{Launch: l.ID, Step: r.Step, Usage: r.Usage}, Again: r.Action == coordination.RestartTeam, Reason: r.Reason,
		}
	default:
		return coordination.Answered{End: coordination.End{Launch: l.ID, Step: r.Step, Usage: r.Usage}, Seen: r.Seen, Heard: r.Heard}
	}
}

// unfinished converts the final error of a step to an event. An error without a token
// gets the given one.
func unfinished(r running, token string, err error) coordination.Event {
	detail := drive.Details(err, token)
	if r.cancelled || temporal.IsCanceledError(err) {
		return coordination.Suspended{End: coordination.End{Launch: r.launch.ID, Step: detail.Step, Usage: detail.Usage}, Token: detail.Token}
	}
	return coordination.Failed{
		End: coordination.End{Launch: r.launch.ID, Step: detail.Step, Usage: detail.Usage}, Cause: drive.Failure(err), Token: detail.Token,
	}
}
