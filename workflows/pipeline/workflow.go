package pipeline

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	acts "conclave/activities/pipeline"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	"conclave/workflows"
)

// registered is used to refer to the activities by their methods.
var registered *acts.Activities

// Workflow runs a step graph, with a durable activity or the session of a team for each step. The
// workflow completes even if the run has the status error; it fails only for invalid input.
func Workflow(ctx workflow.Context, in Input) (acts.Result, error) {
	p, err := newRun(ctx, in)
	if err != nil {
		return acts.Result{}, err
	}
	result, err := p.driveCore()
	if err != nil && ctx.Err() != nil && !workflow.IsContinueAsNewError(err) {
		return p.endCancelled()
	}
	return result, err
}

// run drives one pipeline.State.
type run struct {
	ctx workflow.Context
	in  Input
	id  string

	prepared acts.Prepared
	before   string          // the run that this one goes on with; empty for none
	core     *pipeline.State // nil while preparing
	begun    bool            // the directory is claimed
	result   *pipeline.Result

	steps []*step // the running ones, in the order of their launches
	waits []wait  // before retries, in the order of their starts
	inbox *workflows.Inbox[pipeline.Event]
	memo  workflows.Memo
	clock clock

	teller workflows.Teller
	asked  bool // the memo has questions to people, or had some
	asks   bool // the search attribute says that questions are open

	recorder workflows.Recorder
	messages []pipeline.Keep  // not on record yet
	replies  []pipeline.Reply // likewise
	events   []pipeline.Entry // likewise
	entered  int              // number of the last event among them
	recorded int              // number of the last event on record
	rested   time.Time        // start of the newest record
	overdue  workflow.Future  // the end of the wait before the next one; nil without one
	traced   int              // entries of the trace on record
	over     bool             // the run ends with the next record
	writing  acts.RecordInput
}

func newRun(ctx workflow.Context, in Input) (*run, error) {
	info := workflow.GetInfo(ctx)
	if in.Request == "" && activities.Given(in.Inputs) {
		in.Request = string(in.Inputs)
	}
	p := &run{ctx: ctx, in: in, id: cmp.Or(in.ID, artifact.SessionIDOf(info.WorkflowExecution.ID))}
	if err := in.faults.Err("a run of a pipeline", `{"request":"…","config":{…}}`); err != nil {
		return nil, err
	}
	if err := in.validate(p.id, info.ContinuedExecutionRunID != ""); err != nil {
		return nil, err
	}
	if c := in.Continued; c != nil {
		p.core, p.prepared, p.recorded, p.traced = c.Core, c.Prepared, c.Recorded, c.Traced
		p.setClock(c.SecondsLeft)
		p.teller.Waited(p.core.View().Parked) // the previous run has told it, and the questions
		p.tellAsked(nil)
		p.asks = len(p.core.OpenQuestions()) > 0
		for _, w := range p.core.BegunWaits() {
			p.startWait(w)
		}
	}
	var err error
	p.inbox, err = workflows.Listen(ctx, "run", p, verbs, func() (acts.State, error) { return p.currentState(), nil }, p.readTimeline)
	return p, err
}

// driveCore prepares the run and drives it to its end.
func (p *run) driveCore() (acts.Result, error) {
	p.showProgress()
	p.teller.Subject = workflows.Subject{ID: p.id, Question: p.in.Request, Page: "/pipelines/" + p.id}
	if p.in.Continued == nil {
		prepare := p.prepareRun
		if p.in.Resume {
			prepare = p.reopenRun
		}
		if err := prepare(); err != nil {
			if p.ctx.Err() == nil {
				p.memo.Set(p.ctx, map[string]any{workflows.MemoStatus: string(pipeline.Failed)})
				p.teller.TellRefused(p.ctx, err)
			}
			return acts.Result{}, workflows.FinalError(err)
		}
		p.searchIndex().Begin(p.ctx)
	}
	p.begun = true
	p.teller.Subject = workflows.Subject{ID: p.id, Question: p.in.Request, Page: "/pipelines/" + p.id, URL: p.prepared.URL, Receivers: p.prepared.Notify}
	p.inbox.ReceiveAll() // a pause that has arrived prevents the first launch
	if err := p.awaitOutcome(); err != nil {
		return acts.Result{}, err
	}
	workflows.AwaitCancelled(p.ctx, p.selectSteps, p.reckonLost)
	return p.concludeRun(p.ctx)
}

// awaitOutcome carries out the commands of the core and waits for events, in turn, until the run has its outcome.
func (p *run) awaitOutcome() error {
	for {
		p.windClock()
		full := workflow.GetInfo(p.ctx).GetContinueAsNewSuggested()
		if full && len(p.steps) == 0 && p.core.Closing == nil {
			return p.continueAsNew()
		}
		if full && p.core.Closing == nil { // branches launch nothing more until their steps have ended
			p.carryOut(p.core.DrainRunning())
		} else {
			p.carryOut(p.core.Drain())
		}
		if p.result != nil {
			return nil
		}
		p.teller.TellWait(p.ctx, activities.NoticeParked, p.core.View().Parked)
		p.tellAsked(p.ctx)
		p.collectEvents()
		p.recordNews()
		p.awaitEvents()
		if p.ctx.Err() != nil {
			return p.ctx.Err()
		}
	}
}

// collectEvents keeps the events that are not on record, of which the core has only the newest.
func (p *run) collectEvents() {
	p.core.Stamp(artifact.Timestamp(workflow.Now(p.ctx)))
	for _, e := range p.core.Timeline() {
		if e.Seq > max(p.entered, p.recorded) {
			p.events, p.entered = append(p.events, e), e.Seq
		}
	}
}

// fewLanes is the number of lanes up to which every change is recorded at once. The outline of more is too long for
// that: each lane adds laneRest to the time between two records.
const (
	fewLanes = 20
	laneRest = 10 * time.Millisecond
)

// recordNews starts a record of the news, or waits for one. Running steps read messages from the store, so these
// are recorded at once.
func (p *run) recordNews() {
	rest := time.Duration(0)
	if lanes := p.core.CountLanes(); lanes > fewLanes {
		rest = time.Duration(lanes)*laneRest - workflow.Now(p.ctx).Sub(p.rested)
	}
	switch {
	case p.recorder.Writing() || len(p.events)+len(p.messages) == 0 && !p.recorder.Due():
	case len(p.messages) > 0 || p.recorder.Due() || rest <= 0:
		p.rested = workflow.Now(p.ctx)
		p.recorder.Write(p.ctx, p)
	case p.overdue == nil:
		p.overdue = workflow.NewTimerWithOptions(p.ctx, rest, workflow.TimerOptions{Summary: "before the next record"})
	}
}

// tellAsked tells the receivers of notices the open questions to people. Without a context they only count as told.
func (p *run) tellAsked(ctx workflow.Context) {
	for _, q := range p.core.OpenQuestions() {
		p.teller.TellAsked(ctx, string(coordination.PhaseWaitingForPerson), q.ID, q.Text)
	}
}

func (p *run) searchIndex() workflows.Index {
	return workflows.Index{Kind: workflows.KindPipeline, Registered: p.prepared.Attributes}
}

func (p *run) prepareRun() error {
	info := workflow.GetInfo(p.ctx)
	input := acts.PrepareInput{
		ID: p.id, Owner: artifact.Owner{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID},
		Request: p.in.Request, Pipeline: p.in.Pipeline, Config: p.in.Config, Inputs: p.in.Inputs, Material: p.in.Material,
	}
	ctx := workflows.Preparing(p.ctx, "resolve the pipeline, claim the run's directory")
	if err := workflow.ExecuteActivity(ctx, registered.PreparePipeline, input).Get(ctx, &p.prepared); err != nil {
		return err
	}
	p.core = pipeline.New(p.prepared.Graph)
	p.setClock(nil)
	return nil
}

// reopenRun loads the ended run with this workflow ID and continues it, unless its result is final.
func (p *run) reopenRun() error {
	var r acts.Reopening
	input := acts.ReopenInput{Run: p.in.ID, WorkflowID: workflow.GetInfo(p.ctx).WorkflowExecution.ID}
	ctx := workflows.Preparing(p.ctx, "load the run that ended")
	if err := workflow.ExecuteActivity(ctx, registered.ReopenPipeline, input).Get(ctx, &r); err != nil {
		return err
	}
	p.id, p.before = cmp.Or(r.Run, p.id), r.Event.Run
	p.in.Request, p.in.Resume = r.Request, false
	p.core, p.prepared, p.recorded, p.traced = r.Saved.Core, r.Saved.Prepared, r.Saved.Recorded, r.Saved.Traced
	p.setClock(r.Saved.SecondsLeft)
	p.core.Step(r.Event)
	p.result = p.core.Result // nil unless the result stands
	return nil
}

// carryOut executes the commands of the core. It sets the memo, which contains the doorbell, before
// it stops the step, so that the step can read the reason.
func (p *run) carryOut(commands []pipeline.Command) {
	for _, command := range commands {
		switch c := command.(type) {
		case pipeline.Keep:
			p.messages = append(p.messages, c)
		case pipeline.Ring:
			p.memo.RingMessages(0, c.Messages)
		case pipeline.Stop:
			p.memo.Bell.Epoch++
			p.memo.Bell.Directive = coordination.Ending
			if p.core.Paused {
				p.memo.Bell.Directive = coordination.Pausing
			}
		case pipeline.Done:
			p.result = &c.Result
		case pipeline.Launch, pipeline.Hold, pipeline.Release, pipeline.Wait: // carried out by the second loop
		}
	}
	p.showProgress()
	for _, command := range commands {
		switch c := command.(type) {
		case pipeline.Launch:
			p.launchStep(c)
		case pipeline.Stop:
			if s := p.findStep(c.ID); s != nil {
				s.stopped = true
				s.cancel()
			}
		case pipeline.Hold:
			p.findStep(c.ID).passVerb(workflows.PauseSignal, nil)
		case pipeline.Release:
			p.findStep(c.ID).passVerb(workflows.ResumeSignal, nil)
		case pipeline.Wait:
			p.startWait(c)
		case pipeline.Keep:
			for _, s := range p.steps {
				if c.IsFor(s.launch.Branch) {
					s.passVerb(workflows.SaySignal, workflows.Request{Text: c.Text})
				}
			}
		case pipeline.Ring, pipeline.Done: // carried out by the first loop
		}
	}
}

func (p *run) findStep(launch string) *step {
	if i := slices.IndexFunc(p.steps, func(s *step) bool { return s.launch.ID == launch }); i >= 0 {
		return p.steps[i]
	}
	return nil
}

// wait is the wait before a retry.
type wait struct {
	id    int
	timer workflow.Future
}

// startWait starts the wait before a retry. After a continue-as-new it begins anew.
func (p *run) startWait(w pipeline.Wait) {
	timer := workflow.NewTimerWithOptions(p.ctx, time.Duration(w.Seconds*float64(time.Second)), workflow.TimerOptions{Summary: "before the next try of " + w.Step})
	p.waits = append(p.waits, wait{id: w.ID, timer: timer})
}

func (p *run) awaitEvents() {
	selector := workflow.NewSelector(p.ctx)
	p.selectSteps(selector)
	for _, w := range p.waits {
		selector.AddFuture(w.timer, func(workflow.Future) {
			p.waits = slices.DeleteFunc(p.waits, func(of wait) bool { return of.id == w.id })
			p.core.Step(pipeline.Waited{ID: w.id})
		})
	}
	if p.overdue != nil {
		selector.AddFuture(p.overdue, func(workflow.Future) { p.overdue = nil })
	}
	p.recorder.Select(p.ctx, selector, p)
	p.selectClock(selector)
	p.inbox.Wait(selector)
}

// selectSteps adds the next results of the running steps to the selector. It reports whether any step is running.
func (p *run) selectSteps(selector workflow.Selector) bool {
	for _, s := range p.steps {
		s.addTo(selector)
	}
	return len(p.steps) > 0
}

func (p *run) continueAsNew() error {
	if err := p.recorder.Flush(p.ctx, p); err != nil {
		return err
	}
	p.inbox.ReceiveAll()
	in := p.in
	in.ID = p.id
	in.Continued = &acts.Saved{Core: p.core, Prepared: p.prepared, Recorded: p.recorded, Traced: p.traced, SecondsLeft: p.secondsLeft()}
	return workflow.NewContinueAsNewError(p.ctx, Type, in) // by name: the worker registers no function under its own
}

var verbs = []workflows.Verb[pipeline.Event]{
	{
		Name: workflows.SaySignal, Kept: true, Keys: []string{"text", "branch"}, About: "Send a message to the steps, or to those of a branch: {text, branch}.",
		Input: func(in workflows.Request) pipeline.Event { return pipeline.Said{Text: in.Text, Branch: in.Branch} },
	},
	{
		Name: workflows.RetrySignal, Keys: []string{"branch"}, About: "Continue the failed steps of a parked run, or that of a branch: {branch}.",
		Input: func(in workflows.Request) pipeline.Event { return pipeline.Retry{Branch: in.Branch} },
	},
	{
		Name: workflows.ReplySignal, Kept: true, Keys: []string{"question", "text", "option", "by"}, About: "Choose an option of a step's question: {question, option}.",
		Input: func(in workflows.Request) pipeline.Event {
			return pipeline.Replied{Question: in.Question, Text: in.Text, Option: in.Option, By: in.By}
		},
	},
	{
		Name: workflows.ApproveSignal, Kept: true, Keys: []string{"question", "allow", "note", "by"}, About: "Approve or deny what a step asks: {question, allow, note?}.",
		Input: func(in workflows.Request) pipeline.Event {
			return pipeline.Replied{Question: in.Question, Allow: in.Allow, Note: in.Note, By: in.By}
		},
	},
	{Name: workflows.ResumeSignal, About: "Resume after a pause.", Event: pipeline.Resume{}},
	{Name: workflows.PauseSignal, About: "Suspend the running step, keeping its work, and launch nothing.", Event: pipeline.Pause{}},
}

// Refuse, Step, Keep, Reply, Over and Unread implement the listener of workflows.Inbox.
func (p *run) Refuse(event pipeline.Event) error {
	if p.core == nil {
		return workflows.ErrPreparing
	}
	return p.core.Refuse(event)
}

func (p *run) Step(event pipeline.Event) { p.core.Step(event) }

func (p *run) Keep(ctx workflow.Context) { p.recorder.Keep(ctx) }

func (p *run) Reply() any { return p.smallState() }

func (p *run) Over() bool { return p.result != nil }

func (p *run) Unread(signal, why string) { p.core.Unread(signal, why) }

func (p *run) concludeRun(ctx workflow.Context) (acts.Result, error) {
	p.over = true
	if err := p.recorder.Flush(ctx, p); err != nil {
		return acts.Result{}, err
	}
	result := p.runResult()
	p.searchIndex().End(ctx, string(result.Status), "", result.Usage)
	input := acts.ConcludeInput{Run: p.id, Final: p.result.Final, History: p.core.History, Result: result}
	ctx = workflows.Bookkeeping(ctx, "write result.json")
	err := workflow.ExecuteActivity(ctx, registered.ConcludePipeline, input).Get(ctx, &result)
	if err == nil && p.ctx.Err() == nil {
		overspent := result.Error != nil && result.Error.Type == pipeline.BudgetSpent
		p.teller.TellEnd(p.ctx, string(result.Status), result.Final, result.Error, workflows.EndTypes(result.Status != pipeline.Failed, overspent)...)
	}
	return result, err
}

func (p *run) runResult() acts.Result {
	r := acts.Result{
		ID: p.id, Status: p.result.Status, EndedAs: p.result.EndedAs, Trace: p.core.Trace, History: []acts.HistoryEntry{}, Transitions: p.core.Transitions, Usage: p.core.Usage,
	}
	if p.result.Reason != "" {
		r.Error = &artifact.Error{Type: cmp.Or(p.result.Limit, string(p.result.Status)), Message: p.result.Reason}
	}
	if last := len(r.Trace) - 1; last >= 0 && p.result.Limit == "" && r.Trace[last].Error != nil && p.result.Status == pipeline.Failed {
		r.Error = &artifact.Error{Type: r.Trace[last].Error.Type, Message: r.Trace[last].Error.Message}
	}
	return r
}

// endCancelled ends a cancelled run, even if the store is unavailable. The run ends as cancelled,
// unless it had a result before the cancellation.
func (p *run) endCancelled() (acts.Result, error) {
	ctx, stop := workflow.NewDisconnectedContext(p.ctx)
	defer stop()
	if p.core == nil {
		p.memo.Set(p.ctx, map[string]any{workflows.MemoStatus: workflows.Cancelled})
		return acts.Result{}, p.ctx.Err()
	}
	late := p.result != nil
	p.core.Step(pipeline.Cancel{})
	if p.core.Closing != nil && !p.core.Done() { // its finally step is not cancelled
		p.ctx = ctx
		p.inbox.GoOn(ctx)
		if err := p.awaitOutcome(); err != nil {
			return acts.Result{}, err
		}
	} else {
		p.carryOut(p.core.Drain())
	}
	workflows.AwaitCancelled(ctx, p.selectSteps, p.reckonLost)
	if p.result == nil { // the run had ended before
		p.result = p.core.Result
	}
	var result acts.Result
	written := workflows.FlushInTime(ctx, func(ctx workflow.Context) (err error) {
		result, err = p.concludeRun(ctx)
		return err
	})
	switch {
	case late && written:
		return result, nil
	case !written:
		result = p.runResult()
	}
	result.Status = pipeline.Cancelled
	return acts.Result{}, workflows.CanceledError(result.Usage, result)
}

// StartRecord starts the activity that writes the new entries. It is part of workflows.Recorder's history.
func (p *run) StartRecord(ctx workflow.Context) workflow.Future {
	p.collectEvents()
	p.messages = append(p.messages, p.core.TakeMessages()...) // of an update that came when nothing is drained any more
	p.replies = append(p.replies, p.core.TakeReplies()...)
	p.writing = acts.RecordInput{
		Run: p.id, Messages: p.messages, Replies: p.replies, Status: p.smallState(), Over: p.over, Traced: p.traced, Trace: slices.Clone(p.core.Trace[p.traced:]),
	}
	if p.over {
		p.writing.Began = workflow.GetInfo(ctx).WorkflowStartTime
	}
	p.writing.Events = p.events
	p.writing.Saved = &acts.Saved{Core: p.core.Outline(), Prepared: p.prepared, Recorded: p.core.Events, Traced: len(p.core.Trace), SecondsLeft: p.secondsLeft()}
	p.writing.Saved.Prepared.Graph = pipeline.Graph{}
	p.messages, p.replies, p.events = nil, nil, nil
	return workflow.ExecuteActivity(workflows.Bookkeeping(ctx, "write status.json"), registered.RecordPipeline, p.writing)
}

// Recorded receives the result of the activity that StartRecord started.
func (p *run) Recorded(ctx workflow.Context, written workflow.Future) error {
	if err := written.Get(ctx, nil); err != nil {
		p.messages, p.replies = append(p.writing.Messages, p.messages...), append(p.writing.Replies, p.replies...)
		p.events = append(p.writing.Events, p.events...)
		return err
	}
	if n := len(p.writing.Events); n > 0 {
		p.recorded = p.writing.Events[n-1].Seq
	}
	p.traced = p.writing.Traced + len(p.writing.Trace)
	return nil
}
