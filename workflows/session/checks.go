package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows"
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

func (s *session) startCheck(c coordination.Check) {
	ctx, cancel := workflow.WithCancel(s.ctx)
	ctx = workflows.Preparing(ctx, "checks of "+c.Answer.Label)
	ctx = workflow.WithStartToCloseTimeout(ctx, time.Duration(len(c.Checks))*checkTime+checkSlack)
	input := acts.CheckInput{Session: s.id, Answer: c.Answer, Checks: c.Checks}
	s.checks = append(s.checks, checkRun{
		id: c.ID, agent: c.Answer.Agent, since: workflow.Now(s.ctx), cancel: cancel,
		future: workflow.ExecuteActivity(ctx, registered.RunChecks, input),
	})
}

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

// checkedSince returns when the checks of an agent's answer started, or the zero time if none are running.
func (s *session) checkedSince(agent string) time.Time {
	for _, c := range s.checks {
		if c.agent == agent {
			return c.since
		}
	}
	return time.Time{}
}

// makePreparations makes the preparations of the session concurrently, unless it has them. They become part of
// Prepared, and the core counts their cost.
func (s *session) makePreparations() error {
	if len(s.prepared.Drafted) > 0 {
		return nil
	}
	s.ledger.due = len(s.prepared.Preparations) > 0
	var made []workflow.Future
	for _, p := range s.prepared.Preparations {
		ctx := workflows.Preparing(s.ctx, "have a model make the "+string(p))
		input := acts.DraftInput{Session: s.id, ConfigHash: s.prepared.ConfigHash, Preparation: p}
		made = append(made, workflow.ExecuteActivity(ctx, registered.Draft, input))
	}
	for _, f := range made {
		var d acts.Drafted
		if err := f.Get(s.ctx, &d); err != nil {
			return err
		}
		s.prepared.Drafted = append(s.prepared.Drafted, d)
		s.core.Step(coordination.Drafted{Usage: d.Usage, Text: draftText(d), Reason: d.Fallback})
	}
	return nil
}

func draftText(d acts.Drafted) string {
	if d.Fallback != "" {
		return fmt.Sprintf("the model made no %s; built-in ones are used", d.Preparation)
	}
	return fmt.Sprintf("the model made %d %s", len(d.Items), d.Preparation)
}
