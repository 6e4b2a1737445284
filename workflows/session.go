package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/coordination"
)

// Session takes a query to a decision. Protocol outcomes, failure included,
// complete it; only invalid input fails it.
func Session(ctx workflow.Context, in SessionInput) (SessionResult, error) {
	s, err := newSession(ctx, in)
	if err != nil {
		return SessionResult{}, err
	}
	return s.run()
}

// session is the driver of one coordination.State. It has one coroutine.
type session struct {
	ctx workflow.Context
	in  SessionInput
	id  string

	prepared activities.Prepared
	core     *coordination.State // nil while preparing
	deadline time.Time
	decision *coordination.Decision

	running []running
	timeUp  workflow.Future
	finish  workflow.ReceiveChannel

	books books
	memo  memo
}

// newSession registers the handlers before anything blocks, so that a session
// can be asked about from its first moment.
func newSession(ctx workflow.Context, in SessionInput) (*session, error) {
	s := &session{ctx: ctx, in: in, id: in.SessionID}
	if s.id == "" {
		s.id = workflow.GetInfo(ctx).WorkflowExecution.ID
	}
	if err := in.validate(s.id, workflow.GetInfo(ctx).ContinuedExecutionRunID != ""); err != nil {
		return nil, err
	}
	s.finish = workflow.GetSignalChannelWithOptions(ctx, FinishSignal, workflow.SignalChannelOptions{
		Description: "Decide now, with the answers and votes that are there.",
	})
	err := workflow.SetQueryHandlerWithOptions(ctx, StateQuery, s.state, workflow.QueryHandlerOptions{
		Description: "The whole state of the session: who is where, votes, what is stale, cost.",
	})
	if err != nil {
		return nil, err
	}
	err = workflow.SetQueryHandlerWithOptions(ctx, TimelineQuery, s.timeline, workflow.QueryHandlerOptions{
		Description: "The newest events, in order.",
	})
	return s, err
}

// run is the loop: drain the core, carry out its commands, wait, step it.
func (s *session) run() (SessionResult, error) {
	if err := s.begin(); err != nil {
		return SessionResult{}, err
	}
	for {
		if s.worn() {
			return SessionResult{}, s.continueAsNew()
		}
		for _, command := range s.core.Drain() {
			s.carryOut(command)
		}
		s.take()
		s.show()
		if s.decision != nil {
			return s.end()
		}
		s.record()
		s.wait()
		if s.ctx.Err() != nil {
			return SessionResult{}, s.cancelled()
		}
	}
}

// begin resolves the team, or takes over from the run before.
func (s *session) begin() error {
	s.show()
	if c := s.in.Continued; c != nil {
		s.core, s.prepared, s.books.told = c.Core, c.Prepared, c.Recorded
		s.startClock(c.SecondsLeft)
		return nil
	}
	info := workflow.GetInfo(s.ctx)
	input := activities.PrepareInput{
		Session: s.id, WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID,
		Query: s.in.Query, Team: s.in.Team, Config: s.in.Config, Criteria: s.in.EvalCriteria,
	}
	ctx := preparing(s.ctx)
	if err := workflow.ExecuteActivity(ctx, activities.PrepareName, input).Get(ctx, &s.prepared); err != nil {
		return s.unprepared(err)
	}
	s.core = coordination.New(s.prepared.Coordination)
	s.startClock(s.prepared.TimeoutSeconds)
	return nil
}

func (s *session) startClock(seconds int) {
	left := time.Duration(seconds) * time.Second
	s.deadline = workflow.Now(s.ctx).Add(left)
	s.timeUp = workflow.NewTimerWithOptions(s.ctx, left, workflow.TimerOptions{Summary: "the session's time"})
}

// carryOut does what the core decided.
func (s *session) carryOut(command coordination.Command) {
	switch c := command.(type) {
	case coordination.Launch:
		s.launch(c)
	case coordination.Cancel:
		s.cancelStep(c.ID)
	case coordination.Record:
		s.books.entries = append(s.books.entries, c.Entry)
	case coordination.Done:
		s.decision = &c.Decision
	}
}

// wait blocks until something happens, and steps the core with everything that
// has happened by then: results that arrive together are one batch.
func (s *session) wait() {
	selector := workflow.NewSelector(s.ctx)
	for _, r := range s.running {
		selector.AddFuture(r.future, func(f workflow.Future) { s.ended(s.ctx, r, f) })
	}
	if s.timeUp != nil {
		selector.AddFuture(s.timeUp, func(f workflow.Future) {
			if f.Get(s.ctx, nil) == nil {
				s.core.Step(coordination.TimeUp{})
			}
			s.timeUp = nil
		})
	}
	if s.books.recording != nil {
		selector.AddFuture(s.books.recording, func(f workflow.Future) { s.wrote(f.Get(s.ctx, nil)) })
	}
	if s.books.overdue != nil {
		selector.AddFuture(s.books.overdue, func(workflow.Future) { s.books.due = true })
	}
	selector.AddReceive(s.finish, func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(s.ctx, nil)
		s.core.Step(coordination.Finish{})
	})
	selector.AddReceive(s.ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	selector.Select(s.ctx)
	for selector.HasPending() && s.ctx.Err() == nil {
		selector.Select(s.ctx)
	}
	s.take()
}
