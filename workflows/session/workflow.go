package session

import (
	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/workflows/drive"
)

// Session takes a query to a decision. Protocol outcomes, failure included,
// complete it; only invalid input fails it.
func Workflow(ctx workflow.Context, in Input) (Result, error) {
	s, err := newSession(ctx, in)
	if err != nil {
		return Result{}, err
	}
	return s.run()
}

// session is the driver of one coordination.State. It has one coroutine; the
// handlers of updates step the core, too, and wake it.
type session struct {
	ctx workflow.Context
	in  Input
	id  string

	prepared acts.Prepared
	core     *coordination.State // nil while preparing
	begun    bool                // the directory is ours, the loop runs
	decision *coordination.Decision
	final    *acts.FinalAnswer // nil until it is there

	running []running
	clock   clock
	signals []signal
	asked   workflow.Channel // an update has stepped the core

	books books
	bell  step.Bell // rung last in this run
	memo  memo
}

// newSession registers the handlers before anything blocks, so that a session
// can be asked about from its first moment, and takes over from the run before,
// so that an update that comes in between finds it.
func newSession(ctx workflow.Context, in Input) (*session, error) {
	s := &session{ctx: ctx, in: in, id: in.SessionID}
	if s.id == "" {
		s.id = workflow.GetInfo(ctx).WorkflowExecution.ID
	}
	if err := in.validate(s.id, workflow.GetInfo(ctx).ContinuedExecutionRunID != ""); err != nil {
		return nil, err
	}
	if c := in.Continued; c != nil {
		s.core, s.prepared, s.books.told = c.Core, c.Prepared, c.Recorded
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, drive.StateQuery, s.state, workflow.QueryHandlerOptions{
		Description: "The whole state of the session: who is where, votes, what is stale, cost.",
	})
	if err != nil {
		return nil, err
	}
	err = workflow.SetQueryHandlerWithOptions(ctx, drive.TimelineQuery, s.timeline, workflow.QueryHandlerOptions{
		Description: "The newest events, in order.",
	})
	if err != nil {
		return nil, err
	}
	return s, s.listen()
}

// run is the loop: drain the core, carry out its commands, wait, step it.
func (s *session) run() (Result, error) {
	if err := s.begin(); err != nil {
		return Result{}, err
	}
	for {
		if s.worn() {
			return Result{}, s.continueAsNew()
		}
		s.carryOut(s.core.Drain())
		if s.decision != nil {
			return s.end()
		}
		s.windClock()
		s.record()
		s.wait()
		if s.ctx.Err() != nil {
			return Result{}, s.cancelled()
		}
	}
}

// begin resolves the team, unless the run before has, and starts the clock.
func (s *session) begin() error {
	s.show()
	seconds, warned := 0, false
	if c := s.in.Continued; c != nil {
		seconds, warned = c.SecondsLeft, c.Warned
	} else {
		if err := s.prepare(); err != nil {
			return s.unprepared(err)
		}
		seconds = s.prepared.TimeoutSeconds
	}
	s.begun = true
	s.hearAll() // before the first launch: to pause is to launch nothing
	s.setClock(seconds, warned)
	return nil
}

// prepare resolves the team and starts the core under the rules that were
// current then, for good: a history from before they were counted has the first.
func (s *session) prepare() error {
	info := workflow.GetInfo(s.ctx)
	input := acts.PrepareInput{
		Session: s.id, WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID, Protocol: coordination.Protocol,
		Query: s.in.Query, Team: s.in.Team, Config: s.in.Config, Criteria: s.in.EvalCriteria,
	}
	ctx := drive.Preparing(s.ctx, "resolve the team, claim the session's directory")
	if err := workflow.ExecuteActivity(ctx, acts.PrepareName, input).Get(ctx, &s.prepared); err != nil {
		return err
	}
	s.core = coordination.Start(s.prepared.Protocol, s.prepared.Coordination)
	return nil
}

// carryOut does what the core decided. The memo, with the doorbell in it, is set
// once, before a step is cancelled: what a step is told outruns its end.
func (s *session) carryOut(commands []coordination.Command) {
	for _, command := range commands {
		s.note(command)
	}
	s.take()
	s.show()
	for _, command := range commands {
		s.act(command)
	}
}

// note keeps what a command says.
func (s *session) note(command coordination.Command) {
	switch c := command.(type) {
	case coordination.Record:
		s.books.enter(c.Entry)
	case coordination.Ring:
		s.bell = bellOf(c)
	case coordination.Done:
		s.decision = &c.Decision
	case coordination.Launch, coordination.Cancel: // acts
	}
}

// act starts and cancels steps.
func (s *session) act(command coordination.Command) {
	switch c := command.(type) {
	case coordination.Launch:
		s.launch(c)
	case coordination.Cancel:
		s.cancelStep(c.ID)
	case coordination.Record, coordination.Ring, coordination.Done: // noted
	}
}

// wait blocks until something happens, and steps the core with everything that
// has happened by then: results that arrive together are one batch.
func (s *session) wait() {
	selector := workflow.NewSelector(s.ctx)
	for _, r := range s.running {
		selector.AddFuture(r.future, func(f workflow.Future) { s.ended(s.ctx, r, f) })
	}
	s.hearClock(selector)
	if s.books.recording != nil {
		selector.AddFuture(s.books.recording, func(f workflow.Future) { s.wrote(f.Get(s.ctx, nil)) })
	}
	if s.books.overdue != nil {
		selector.AddFuture(s.books.overdue, func(workflow.Future) { s.books.due = true })
	}
	for _, sig := range s.signals {
		selector.AddReceive(sig.channel, func(workflow.ReceiveChannel, bool) { s.hear(sig) })
	}
	selector.AddReceive(s.asked, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
	selector.AddReceive(s.ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	selector.Select(s.ctx)
	for selector.HasPending() && s.ctx.Err() == nil {
		selector.Select(s.ctx)
	}
	s.take()
}
