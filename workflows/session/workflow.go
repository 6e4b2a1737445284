package session

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	acts "conclave/activities/session"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// registered is used to refer to the activities by their methods.
var registered *acts.Activities

// Workflow takes a query to a decision. It completes with every outcome of the protocol, including
// failure, and fails only for invalid input.
func Workflow(ctx workflow.Context, in Input) (Result, error) {
	s, err := newSession(ctx, in)
	if err != nil {
		return Result{}, err
	}
	result, err := s.run()
	if err != nil && ctx.Err() != nil && !workflow.IsContinueAsNewError(err) {
		return s.cancelled()
	}
	return result, err
}

// session drives one coordination.State in one coroutine. Update handlers also pass events to the
// State, and then wake the coroutine.
type session struct {
	ctx workflow.Context
	in  Input
	id  string

	prepared acts.Prepared
	core     *coordination.State // nil while preparing
	begun    bool                // the directory is claimed, the loop runs
	decision *coordination.Decision
	final    *acts.FinalAnswer // nil before it is placed

	running []running
	reports workflow.ReceiveChannel // reports of running steps about their models
	checks  []checkRun
	clock   clock
	inbox   *drive.Inbox[coordination.Event]
	ledger  ledger
	memo    drive.Memo
}

// newSession restores the state of the previous run, then registers the handlers. It must not block
// before that, because updates can arrive immediately.
func newSession(ctx workflow.Context, in Input) (*session, error) {
	info := workflow.GetInfo(ctx)
	s := &session{ctx: drive.Fair(ctx, in.Team), in: in, id: cmp.Or(in.SessionID, info.WorkflowExecution.ID)}
	if err := in.faults.Err("a session", `{"query":"…"}`); err != nil {
		return nil, err
	}
	if err := in.validate(s.id, info.ContinuedExecutionRunID != ""); err != nil {
		return nil, err
	}
	if c := in.Continued; c != nil {
		s.core, s.prepared, s.ledger.last = c.Core, c.Prepared, c.Recorded
	}
	s.reports = workflow.GetSignalChannelWithOptions(ctx, attempt.ModelSignal, workflow.SignalChannelOptions{
		Description: "Sent by running steps: their model is in an outage, or is back.",
	})
	var err error
	s.inbox, err = drive.Listen(ctx, "session", s, verbs, func() (acts.State, error) { return s.state(), nil }, s.timeline)
	return s, err
}

// run executes the commands of the core and waits for events, in turn, until the session is
// decided.
func (s *session) run() (Result, error) {
	if err := s.begin(); err != nil {
		return Result{}, err
	}
	for {
		// A new run would lose running steps and waits. All of them end in time, before the history
		// reaches its limit.
		if len(s.running) == 0 && len(s.checks) == 0 && !s.core.Waiting && !s.core.Calling && workflow.GetInfo(s.ctx).GetContinueAsNewSuggested() {
			return Result{}, s.continueAsNew()
		}
		s.carryOut(s.core.Drain())
		if s.decision != nil {
			return s.end(s.ctx)
		}
		s.windClock()
		s.endWait()
		s.endAsking()
		s.record()
		s.wait()
		if s.ctx.Err() != nil {
			return Result{}, s.ctx.Err()
		}
	}
}

// begin resolves the team, unless the previous run has done so, and starts the clock.
func (s *session) begin() error {
	s.show()
	seconds, warned := 0, false
	if c := s.in.Continued; c != nil {
		seconds, warned = c.SecondsLeft, c.Warned
	} else {
		prepare := s.prepare
		if s.in.Resume {
			prepare = s.reopen
		}
		var err error
		if seconds, err = prepare(); err != nil {
			if s.ctx.Err() == nil {
				s.setMemo(s.ctx, string(coordination.FailedAll))
			}
			return drive.FinalError(err)
		}
	}
	s.begun = true
	s.ctx = drive.Fair(s.ctx, s.prepared.Team)
	if s.in.Continued == nil {
		s.index().Begin(s.ctx)
	}
	s.inbox.ReceiveAll() // a pause that has arrived prevents the first launch
	s.setClock(seconds, warned)
	return nil
}

func (s *session) index() drive.Index {
	return drive.Index{Kind: drive.KindSession, Team: s.prepared.Team, Registered: s.prepared.Attributes}
}

// prepare resolves the team and creates the core with the current protocol. It returns the
// session's time in seconds.
func (s *session) prepare() (int, error) {
	info := workflow.GetInfo(s.ctx)
	input := acts.PrepareInput{
		Session: s.id, Owner: artifact.Owner{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID},
		Query: s.in.Query, Team: s.in.Team, Config: s.in.Config, Criteria: s.in.EvalCriteria, Checks: s.in.Checks,
		History: s.in.History, Continues: s.in.Continues, Material: s.in.Material,
		Caller: s.in.caller(), Limits: s.in.Limits,
	}
	ctx := drive.Preparing(s.ctx, "resolve the team, claim the session's directory")
	if err := workflow.ExecuteActivity(ctx, registered.Prepare, input).Get(ctx, &s.prepared); err != nil {
		return 0, err
	}
	s.core = coordination.New(s.prepared.Coordination)
	return s.prepared.TimeoutSeconds, s.draft()
}

// reopen loads the ended session with this workflow ID and continues it, unless its decision stands.
// It returns the session's remaining time in seconds.
func (s *session) reopen() (int, error) {
	var r acts.Reopening
	input := acts.ReopenInput{Session: s.in.SessionID, WorkflowID: workflow.GetInfo(s.ctx).WorkflowExecution.ID, Agent: s.in.Agent, Text: s.in.Text}
	ctx := drive.Preparing(s.ctx, "seal the ledger, load the session that ended")
	if err := workflow.ExecuteActivity(ctx, registered.Reopen, input).Get(ctx, &r); err != nil {
		return 0, err
	}
	s.id = cmp.Or(r.Session, s.id)
	s.in.Query, s.in.Continues, s.in.Resume, s.in.Agent, s.in.Text = r.Query, r.Continues, false, "", ""
	s.core, s.prepared, s.ledger.last = r.Saved.Core, r.Saved.Prepared, r.Saved.Recorded
	s.core.Step(coordination.Reopened{Run: r.Run, Agent: input.Agent, Text: input.Text, Unclaimed: r.Unclaimed})
	s.ledger.collect(s.ctx, s.core)
	if s.core.Done() { // the decision stands
		d := s.core.Decision()
		s.decision = &d
	}
	return r.Saved.SecondsLeft, nil
}

// carryOut executes the commands of the core. It sets the memo, which contains the doorbell, before
// it cancels a step, so that the step can read the reason.
func (s *session) carryOut(commands []coordination.Command) {
	for _, command := range commands {
		switch c := command.(type) {
		case coordination.Record:
			s.ledger.enter(c.Entry)
		case coordination.Ring:
			s.memo.Bell = c
		case coordination.Done:
			s.decision = &c.Decision
		case coordination.Wait:
			s.startWait(c)
		case coordination.AskCaller:
			s.askCaller(c)
		case coordination.Launch, coordination.Check, coordination.Cancel: // carried out by the second loop
		}
	}
	s.ledger.collect(s.ctx, s.core)
	s.show()
	for _, command := range commands {
		switch c := command.(type) {
		case coordination.Launch:
			s.launch(c)
		case coordination.Check:
			s.check(c)
		case coordination.Cancel:
			s.cancelStep(c)
			s.cancelCheck(c.ID)
		case coordination.Record, coordination.Ring, coordination.Wait, coordination.AskCaller, coordination.Done: // carried out by the first loop
		}
	}
}

// wait blocks until an event arrives, then passes all events that have arrived to the core.
func (s *session) wait() {
	selector := workflow.NewSelector(s.ctx)
	s.selectSteps(s.ctx, selector)
	s.selectReports(selector)
	s.selectChecks(selector)
	s.selectClock(selector)
	s.ledger.recorder.Select(s.ctx, selector, s)
	if s.ledger.overdue != nil {
		selector.AddFuture(s.ledger.overdue, func(workflow.Future) { s.ledger.due = true })
	}
	s.inbox.Wait(selector)
	s.ledger.collect(s.ctx, s.core)
}

// continueAsNew continues the session in a new run, after it has handled all signals and updates.
func (s *session) continueAsNew() error {
	if err := s.flush(s.ctx, false); err != nil {
		return err
	}
	s.inbox.ReceiveAll()
	in := s.in
	in.SessionID, in.History = s.id, nil
	in.Continued = s.saved(s.ledger.last - len(s.ledger.events))
	return workflow.NewContinueAsNewError(s.ctx, Workflow, in)
}

// saved returns the session for the next run. recorded is the number of the last event on record.
func (s *session) saved(recorded int) *acts.Saved {
	return &acts.Saved{
		Core: s.core, Prepared: s.prepared, Recorded: recorded,
		SecondsLeft: int(s.timeLeft() / time.Second), Warned: s.clock.warned,
	}
}

var verbs = []drive.Verb[coordination.Event]{
	{
		Name: drive.SaySignal, Keys: []string{"text", "agent"}, About: "Send a message to all agents, or to one: {text, agent?}.",
		Input: func(in drive.Request) coordination.Event { return coordination.Said{Agent: in.Agent, Text: in.Text} },
	},
	{
		Name: drive.RetrySignal, Keys: []string{"agent"}, About: "Run failed steps again, of all agents or of one: {agent?}.",
		Input: func(in drive.Request) coordination.Event { return coordination.Retry{Agent: in.Agent} },
	},
	{
		Name: drive.ToolResultsSignal, Keys: []string{"results"}, About: "Return results of calls of the caller's tools: {results: [{id, content}]}.",
		Input: func(in drive.Request) coordination.Event { return coordination.ToolResults{Results: in.Results} },
	},
	{Name: drive.ResumeSignal, About: "Resume after a pause.", Event: coordination.Resume{}},
	{Name: drive.PauseSignal, About: "Suspend running steps, keeping their work, and launch nothing.", Event: coordination.Pause{}},
	{Name: drive.FinishSignal, About: "Decide now, with the present answers and votes.", Event: coordination.Finish{}},
}

// Refuse, Step, Reply, Over and Unread implement the listener of drive.Inbox.
func (s *session) Refuse(event coordination.Event) error {
	if s.core == nil {
		return drive.ErrPreparing
	}
	if e, ok := event.(coordination.ToolResults); ok {
		if err := s.ledger.accepts(e); err != nil {
			return err
		}
	}
	err := s.core.Refuse(event)
	if errors.Is(err, coordination.ErrNotWaiting) {
		return fmt.Errorf("%w: %w", err, drive.ErrTooEarly)
	}
	return err
}

func (s *session) Step(event coordination.Event) {
	if e, ok := event.(coordination.ToolResults); ok {
		if s.Refuse(e) != nil {
			return
		}
		s.ledger.answer(s.core.Answered(e))
	}
	s.core.Step(event)
	s.ledger.collect(s.ctx, s.core)
}

func (s *session) Reply() any { return s.glance() }

func (s *session) Over() bool { return s.decision != nil }

func (s *session) Unread(signal, why string) {
	s.core.Unread(signal, why)
	s.ledger.collect(s.ctx, s.core)
}
