package session

import (
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// checkRun is an activity that runs checks on an answer.
type checkRun struct {
	id     coordination.LaunchID
	agent  string
	since  time.Time
	future workflow.Future
	cancel workflow.CancelFunc
}

// Limits of the activity: a time for each check and a time for the rest. After the last
// attempt the checks count as not run.
const (
	checkTime  = 75 * time.Second
	checkSlack = 10 * time.Minute
)

// check starts the activity for a Check command.
func (s *session) check(c coordination.Check) {
	ctx, cancel := workflow.WithCancel(s.ctx)
	ctx = drive.Preparing(ctx, "checks of "+c.Answer.Label)
	ctx = workflow.WithStartToCloseTimeout(ctx, time.Duration(len(c.Checks))*checkTime+checkSlack)
	input := acts.CheckInput{Session: s.id, Answer: c.Answer, Checks: c.Checks}
	s.checks = append(s.checks, checkRun{
		id: c.ID, agent: c.Answer.Agent, since: workflow.Now(s.ctx), cancel: cancel,
		future: workflow.ExecuteActivity(ctx, registered.RunChecks, input),
	})
}

// selectChecks adds the ends of running checks to the selector.
func (s *session) selectChecks(selector workflow.Selector) {
	for _, c := range s.checks {
		selector.AddFuture(c.future, func(f workflow.Future) {
			var r acts.CheckResult
			if err := f.Get(s.ctx, &r); err != nil {
				workflow.GetLogger(s.ctx).Warn("checks could not be run", "checks", c.id, "error", err)
			}
			s.forgetCheck(c.id)
			s.core.Step(coordination.Checked{ID: c.id, Verdicts: r.Verdicts})
		})
	}
}

// cancelCheck cancels a check and drops its outcome.
func (s *session) cancelCheck(id coordination.LaunchID) {
	for _, c := range s.checks {
		if c.id == id {
			c.cancel()
			s.forgetCheck(id)
			return
		}
	}
}

func (s *session) forgetCheck(id coordination.LaunchID) {
	var left []checkRun
	for _, c := range s.checks {
		if c.id != id {
			left = append(left, c)
		}
	}
	s.checks = left
}

// checkedSince returns when the checks of an agent's answer started, or the zero time if none are
// running.
func (s *session) checkedSince(agent string) time.Time {
	for _, c := range s.checks {
		if c.agent == agent {
			return c.since
		}
	}
	return time.Time{}
}
