package session

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/activities/attempt"
	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows"
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
	result, err := s.driveCore()
	if err != nil && ctx.Err() != nil && !workflow.IsContinueAsNewError(err) {
		return s.endCancelled()
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
	inbox   *workflows.Inbox[coordination.Event]
	ledger  ledger
	memo    workflows.Memo
	teller  workflows.Teller
	waits   bool // the search attribute says that questions to people are open
	asked   bool // the memo has questions, or had some
}

// newSession restores the state of the previous run, then registers the handlers. It must not block
// before that, because updates can arrive immediately.
func newSession(ctx workflow.Context, in Input) (*session, error) {
	info := workflow.GetInfo(ctx)
	s := &session{ctx: workflows.Fair(ctx, in.Team), in: in, id: cmp.Or(in.SessionID, artifact.SessionIDOf(info.WorkflowExecution.ID))}
	if err := in.faults.Err("a session", `{"query":"…"}`); err != nil {
		return nil, err
	}
	if err := in.validate(s.id, info.ContinuedExecutionRunID != ""); err != nil {
		return nil, err
	}
	if c := in.Continued; c != nil {
		s.core, s.prepared, s.ledger.last = c.Core, c.Prepared, c.Recorded
		s.teller.Waited(s.core.View().Parked) // the previous run has told it, and the questions
		tellAsked(nil, &s.teller, s.core)
		s.waits = len(c.Core.OpenQuestions()) > 0
	}
	s.reports = workflow.GetSignalChannelWithOptions(ctx, attempt.ModelSignal, workflow.SignalChannelOptions{
		Description: "Sent by running steps: their model is in an outage, or is back.",
	})
	var err error
	s.inbox, err = workflows.Listen(ctx, "session", s, verbs, func() (acts.State, error) { return s.currentState(), nil }, s.readTimeline)
	return s, err
}

// tellAsked tells the receivers of notices the open questions to people.
func tellAsked(ctx workflow.Context, t *workflows.Teller, core *coordination.State) {
	for _, q := range core.OpenQuestions() {
		t.TellAsked(ctx, string(coordination.PhaseWaitingForPerson), q.ID, q.Ask.Text)
	}
}

// driveCore executes the commands of the core and waits for events, in turn, until the session is decided.
func (s *session) driveCore() (Result, error) {
	if err := s.beginLoop(); err != nil {
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
			return s.endDecided(s.ctx)
		}
		s.teller.TellWait(s.ctx, activities.NoticeParked, s.core.View().Parked)
		tellAsked(s.ctx, &s.teller, s.core)
		s.windClock()
		s.endWait()
		s.endAsking()
		s.clock.windLapse(s.ctx, s.core)
		s.recordWave()
		s.awaitEvents()
		if s.ctx.Err() != nil {
			return Result{}, s.ctx.Err()
		}
	}
}

// beginLoop resolves the team, unless the previous run has done so, and starts the clock.
func (s *session) beginLoop() error {
	s.showProgress()
	s.teller.Subject = workflows.Subject{ID: s.id, Question: s.in.Query, Page: "/sessions/" + s.id}
	seconds, warned := 0, false
	if c := s.in.Continued; c != nil {
		seconds, warned = c.SecondsLeft, c.Warned
	} else {
		prepare := s.prepareSession
		if s.in.Resume {
			prepare = s.reopenSession
		}
		var err error
		if seconds, err = prepare(); err != nil {
			if s.ctx.Err() == nil {
				s.setMemo(s.ctx, string(coordination.FailedAll))
				s.teller.TellRefused(s.ctx, err)
			}
			return workflows.FinalError(err)
		}
	}
	s.begun = true
	s.teller.Subject = workflows.Subject{ID: s.id, Question: s.in.Query, Page: "/sessions/" + s.id, URL: s.prepared.URL, Receivers: s.prepared.Notify}
	s.ctx = workflows.Fair(s.ctx, s.prepared.Team)
	if s.in.Continued == nil {
		s.searchIndex().Begin(s.ctx)
	}
	s.inbox.ReceiveAll() // a pause that has arrived prevents the first launch
	s.setClock(seconds, warned)
	return nil
}

func (s *session) searchIndex() workflows.Index {
	return workflows.Index{Kind: workflows.KindSession, Team: s.prepared.Team, Registered: s.prepared.Attributes}
}

// prepareSession resolves the team and creates the core with the current protocol. It returns the
// session's time in seconds.
func (s *session) prepareSession() (int, error) {
	info := workflow.GetInfo(s.ctx)
	input := acts.PrepareInput{
		Session: s.id, Owner: artifact.Owner{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID},
		Query: s.in.Query, Team: s.in.Team, Config: s.in.Config, Criteria: s.in.EvalCriteria, Checks: s.in.Checks,
		History: s.in.History, Continues: s.in.Continues, Conversation: s.in.Conversation, Material: s.in.Material,
		Caller: s.in.callerInput(), Limits: s.in.Limits,
	}
	if info.ParentWorkflowExecution != nil {
		input.ParentRun = info.ParentWorkflowExecution.RunID
	}
	ctx := workflows.Preparing(s.ctx, "resolve the team, claim the session's directory")
	if err := workflow.ExecuteActivity(ctx, registered.Prepare, input).Get(ctx, &s.prepared); err != nil {
		return 0, err
	}
	s.core = coordination.New(s.prepared.Coordination)
	s.prepared.Coordination = coordination.Config{} // the core has it
	return s.prepared.TimeoutSeconds, s.makePreparations()
}

// reopenSession loads the ended session with this workflow ID and continues it, unless its decision stands.
// It returns the session's remaining time in seconds.
func (s *session) reopenSession() (int, error) {
	var r acts.Reopening
	input := acts.ReopenInput{Session: s.in.SessionID, WorkflowID: workflow.GetInfo(s.ctx).WorkflowExecution.ID, Agent: s.in.Agent, Text: s.in.Text}
	ctx := workflows.Preparing(s.ctx, "seal the ledger, load the session that ended")
	if err := workflow.ExecuteActivity(ctx, registered.Reopen, input).Get(ctx, &r); err != nil {
		return 0, err
	}
	s.id = cmp.Or(r.Session, s.id)
	s.in.Query, s.in.Continues, s.in.Resume, s.in.Agent, s.in.Text = r.Query, r.Continues, false, "", ""
	s.core, s.prepared, s.ledger.last = r.Saved.Core, r.Saved.Prepared, r.Saved.Recorded
	s.core.Step(coordination.Reopened{Run: r.Run, Agent: input.Agent, Text: input.Text, Unclaimed: r.Unclaimed})
	s.ledger.collectEvents(s.ctx, s.core)
	if s.core.Done() { // the decision stands
		d := s.core.Decision()
		s.decision = &d
		return r.Saved.SecondsLeft, nil
	}
	return r.Saved.SecondsLeft, s.makePreparations()
}

// carryOut executes the commands of the core. It sets the memo, which contains the doorbell, before
// it cancels a step, so that the step can read the reason.
func (s *session) carryOut(commands []coordination.Command) {
	for _, command := range commands {
		switch c := command.(type) {
		case coordination.Record:
			s.ledger.addEntry(c.Entry)
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
	s.ledger.collectEvents(s.ctx, s.core)
	s.showProgress()
	for _, command := range commands {
		switch c := command.(type) {
		case coordination.Launch:
			s.launchStep(c)
		case coordination.Check:
			s.startCheck(c)
		case coordination.Cancel:
			s.cancelStep(c)
			s.cancelCheck(c.ID)
		case coordination.Record, coordination.Ring, coordination.Wait, coordination.AskCaller, coordination.Done: // carried out by the first loop
		}
	}
}

func (s *session) awaitEvents() {
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
	s.ledger.collectEvents(s.ctx, s.core)
}

// continueAsNew continues the session in a new run, after it has handled all signals and updates.
func (s *session) continueAsNew() error {
	if err := s.flushRecords(s.ctx, false); err != nil {
		return err
	}
	s.inbox.ReceiveAll()
	in := s.in
	in.SessionID, in.History = s.id, nil
	in.Continued = s.savedState(s.ledger.last - len(s.ledger.events))
	return workflow.NewContinueAsNewError(s.ctx, Type, in) // by name: the worker registers no function under its own
}

// savedState returns the session for the next run. recorded is the number of the last event on record.
func (s *session) savedState(recorded int) *acts.Saved {
	return &acts.Saved{
		Core: s.core, Prepared: s.prepared, Recorded: recorded,
		SecondsLeft: int(s.timeLeft() / time.Second), Warned: s.clock.warned,
	}
}

var verbs = []workflows.Verb[coordination.Event]{
	{
		Name: workflows.SaySignal, Kept: true, Keys: []string{"text", "agent"}, About: "Send a message to all agents, or to one: {text, agent?}.",
		Input: func(in workflows.Request) coordination.Event {
			return coordination.Said{Agent: in.Agent, Text: in.Text}
		},
	},
	{
		Name: workflows.RetrySignal, Keys: []string{"agent"}, About: "Run failed steps again, of all agents or of one: {agent?}.",
		Input: func(in workflows.Request) coordination.Event { return coordination.Retry{Agent: in.Agent} },
	},
	{
		Name: workflows.ToolResultsSignal, Kept: true, Keys: []string{"results"}, About: "Return results of calls of the caller's tools: {results: [{id, content}]}.",
		Input: func(in workflows.Request) coordination.Event { return coordination.ToolResults{Results: in.Results} },
	},
	{
		Name: workflows.ReplySignal, Kept: true, Keys: []string{"question", "text", "option", "by"}, About: "Reply to a question of an agent: {question, text} or {question, option}.",
		Input: func(in workflows.Request) coordination.Event {
			return coordination.Replied{Question: in.Question, Text: in.Text, Option: in.Option, By: in.By}
		},
	},
	{
		Name: workflows.ApproveSignal, Kept: true, Keys: []string{"question", "allow", "note", "by"}, About: "Allow or refuse a call: {question, allow, note?}.",
		Input: func(in workflows.Request) coordination.Event {
			return coordination.Replied{Question: in.Question, Allow: in.Allow, Note: in.Note, By: in.By}
		},
	},
	{Name: workflows.ResumeSignal, About: "Resume after a pause.", Event: coordination.Resume{}},
	{Name: workflows.PauseSignal, About: "Suspend running steps, keeping their work, and launch nothing.", Event: coordination.Pause{}},
	{Name: workflows.FinishSignal, About: "Decide now, with the present answers and votes.", Event: coordination.Finish{}},
}

// Refuse, Step, Keep, Reply, Over and Unread implement the listener of workflows.Inbox.
func (s *session) Refuse(event coordination.Event) error {
	if s.core == nil {
		return workflows.ErrPreparing
	}
	if e, ok := event.(coordination.ToolResults); ok {
		if err := s.ledger.checkResults(e); err != nil {
			return err
		}
	}
	err := s.core.Refuse(event)
	if errors.Is(err, coordination.ErrNotWaiting) {
		return fmt.Errorf("%w: %w", err, workflows.ErrTooEarly)
	}
	return err
}

func (s *session) Step(event coordination.Event) {
	if e, ok := event.(coordination.ToolResults); ok {
		if s.Refuse(e) != nil {
			return
		}
		s.ledger.addResults(s.core.Answered(e))
	}
	s.core.Step(event)
	s.ledger.collectEvents(s.ctx, s.core)
}

func (s *session) Keep(ctx workflow.Context) { s.ledger.recorder.Keep(ctx) }

func (s *session) Reply() any { return s.smallState() }

func (s *session) Over() bool { return s.decision != nil }

func (s *session) Unread(signal, why string) {
	s.core.Unread(signal, why)
	s.ledger.collectEvents(s.ctx, s.core)
}

// recordEvery bounds the time until an entry is recorded. Short waves share a record.
const recordEvery = 10 * time.Second

// ledger has the entries and events that are not yet on record.
type ledger struct {
	recorder workflows.Recorder
	entries  []coordination.Accepted
	events   []coordination.Entry
	results  []coordination.ToolResult // results of the caller's tools
	replies  []coordination.Reply      // replies to questions to people
	last     int                       // number of the last event collected from the core

	writing acts.RecordInput // the newest record

	round   int             // round in which the newest record started, at first the first round
	began   time.Time       // when it started
	overdue workflow.Future // fires recordEvery after the first waiting entry; nil without one
	stop    func()          // stops that timer
	due     bool            // write a record at once
	over    bool            // the session ends with the next record
}

// addEntry adds a ledger entry. A message is due immediately, because running steps read it.
func (l *ledger) addEntry(entry coordination.Accepted) {
	l.entries = append(l.entries, entry)
	if entry.Action == coordination.Say {
		l.due = true
	}
}

// collectEvents stamps the new events of the core with the time and copies them, because the core keeps
// only the newest events.
func (l *ledger) collectEvents(ctx workflow.Context, core *coordination.State) {
	core.Stamp(artifact.Timestamp(workflow.Now(ctx)))
	for _, e := range core.Timeline() {
		if e.Seq > l.last {
			l.events = append(l.events, e)
			l.last = e.Seq
		}
	}
}

// recordWave writes the entries of a wave after recordEvery, at the end of the wave if the newest record is as
// old as that, or immediately if they are due.
func (s *session) recordWave() {
	l := &s.ledger
	if l.began.IsZero() { // the first wave has just begun
		l.round, l.began = s.core.Round, workflow.Now(s.ctx)
	}
	l.takeReplies(s.core)
	switch {
	case l.recorder.Writing() || len(l.entries) == 0 && !l.due && !l.recorder.Due():
	case l.due || l.recorder.Due() || l.round != s.core.Round && workflow.Now(s.ctx).Sub(l.began) >= recordEvery:
		l.recorder.Write(s.ctx, s)
	case l.overdue == nil:
		ctx, cancel := workflow.WithCancel(s.ctx)
		l.overdue = workflow.NewTimerWithOptions(ctx, recordEvery, workflow.TimerOptions{Summary: "until the ledger is written"})
		l.stop = cancel
	}
}

// takeReplies makes a record due at once, because steps wait for the replies.
func (l *ledger) takeReplies(core *coordination.State) {
	taken := core.TakeReplies()
	l.replies, l.due = append(l.replies, taken...), l.due || len(taken) > 0
}

// flushRecords writes everything that is not yet on record. over is true for the last record of the session.
func (s *session) flushRecords(ctx workflow.Context, over bool) error {
	s.ledger.over = over
	return s.ledger.recorder.Flush(ctx, s)
}

// StartRecord starts the activity that writes the new entries. It is part of workflows.Recorder's history.
func (s *session) StartRecord(ctx workflow.Context) workflow.Future {
	l := &s.ledger
	for _, entry := range s.core.TakeAccepted() { // of an update that came when nothing is drained any more
		l.addEntry(entry)
	}
	l.takeReplies(s.core)
	if l.stop != nil {
		l.stop()
	}
	l.overdue, l.stop, l.due, l.round, l.began = nil, nil, false, s.core.Round, workflow.Now(ctx)
	l.writing = acts.RecordInput{
		Session: s.id, Team: s.prepared.Team, Entries: l.entries, Events: l.events, Results: l.results, Replies: l.replies, Status: s.smallState(), Over: l.over,
		Seal: s.prepared.Seal, Saved: s.savedState(l.last),
	}
	l.writing.Saved.Prepared.Drafted, l.writing.Saved.Core = nil, s.core.Outline()
	l.entries, l.events, l.results, l.replies = nil, nil, nil, nil
	return workflow.ExecuteActivity(workflows.Bookkeeping(ctx, "write the ledger"), registered.Record, l.writing)
}

// Recorded receives the result of the activity that StartRecord started.
func (s *session) Recorded(ctx workflow.Context, written workflow.Future) error {
	err := written.Get(ctx, nil)
	if err != nil {
		l := &s.ledger
		l.entries = append(l.writing.Entries, l.entries...)
		l.events = append(l.writing.Events, l.events...)
		l.results = append(l.writing.Results, l.results...)
		l.replies = append(l.writing.Replies, l.replies...)
	}
	return err
}
