package pipeline

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/pipeline"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
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
	result, err := p.execute()
	if err != nil && ctx.Err() != nil && !workflow.IsContinueAsNewError(err) {
		return p.cancelled()
	}
	return result, err
}

// run drives one pipeline.State.
type run struct {
	ctx workflow.Context
	in  Input
	id  string

	prepared acts.Prepared
	core     *pipeline.State // nil while preparing
	begun    bool            // the directory is claimed
	result   *pipeline.Result

	step  *step // the running one; nil for none
	inbox *drive.Inbox[pipeline.Event]
	memo  drive.Memo
	clock clock

	recorder drive.Recorder
	messages []pipeline.Keep // not on record yet
	recorded int             // number of the last event on record
	traced   int             // entries of the trace on record
	over     bool            // the run ends with the next record
	writing  acts.RecordInput
}

func newRun(ctx workflow.Context, in Input) (*run, error) {
	info := workflow.GetInfo(ctx)
	p := &run{ctx: ctx, in: in, id: cmp.Or(in.ID, info.WorkflowExecution.ID)}
	if err := in.faults.Err("a run of a pipeline", `{"request":"…","config":{…}}`); err != nil {
		return nil, err
	}
	if err := in.validate(p.id, info.ContinuedExecutionRunID != ""); err != nil {
		return nil, err
	}
	if c := in.Continued; c != nil {
		p.core, p.prepared, p.recorded, p.traced = c.Core, c.Prepared, c.Recorded, c.Traced
		p.setClock(c.SecondsLeft)
	}
	var err error
	p.inbox, err = drive.Listen(ctx, "run", p, verbs, func() (acts.State, error) { return p.state(), nil }, p.timeline)
	return p, err
}

// execute executes the commands of the core and waits for events, in turn, until the run is over.
func (p *run) execute() (acts.Result, error) {
	p.show()
	if p.in.Continued == nil {
		prepare := p.prepare
		if p.in.Resume {
			prepare = p.reopen
		}
		if err := prepare(); err != nil {
			if p.ctx.Err() == nil {
				p.endUnprepared(string(pipeline.Failed))
			}
			return acts.Result{}, drive.FinalError(err)
		}
		p.index().Begin(p.ctx)
	}
	p.begun = true
	p.inbox.ReceiveAll() // a pause that has arrived prevents the first launch
	for {
		p.windClock()
		if p.step == nil && workflow.GetInfo(p.ctx).GetContinueAsNewSuggested() {
			return acts.Result{}, p.continueAsNew()
		}
		p.carryOut(p.core.Drain())
		if p.result != nil {
			p.awaitCancelled(p.ctx)
			return p.conclude(p.ctx)
		}
		p.record()
		p.wait()
		if p.ctx.Err() != nil {
			return acts.Result{}, p.ctx.Err()
		}
	}
}

func (p *run) index() drive.Index {
	return drive.Index{Kind: drive.KindPipeline, Registered: p.prepared.Attributes}
}

// prepare resolves the pipeline and starts the core.
func (p *run) prepare() error {
	info := workflow.GetInfo(p.ctx)
	input := acts.PrepareInput{
		ID: p.id, Owner: artifact.Owner{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID},
		Request: p.in.Request, Pipeline: p.in.Pipeline, Config: p.in.Config, Material: p.in.Material,
	}
	ctx := drive.Preparing(p.ctx, "resolve the pipeline, claim the run's directory")
	if err := workflow.ExecuteActivity(ctx, registered.PreparePipeline, input).Get(ctx, &p.prepared); err != nil {
		return err
	}
	p.core = pipeline.New(p.prepared.Graph)
	p.setClock(nil)
	return nil
}

// reopen loads the ended run with this workflow ID and continues it, unless its result is final.
func (p *run) reopen() error {
	var r acts.Reopening
	input := acts.ReopenInput{Run: p.in.ID, WorkflowID: workflow.GetInfo(p.ctx).WorkflowExecution.ID}
	ctx := drive.Preparing(p.ctx, "load the run that ended")
	if err := workflow.ExecuteActivity(ctx, registered.ReopenPipeline, input).Get(ctx, &r); err != nil {
		return err
	}
	p.id = cmp.Or(r.Run, p.id)
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
			p.memo.Bell.Epoch++
			p.memo.Bell.Messages = nil
			for n := range c.Messages {
				p.memo.Bell.Messages = append(p.memo.Bell.Messages, coordination.Message{Number: n + 1})
			}
		case pipeline.Stop:
			p.memo.Bell.Epoch++
			p.memo.Bell.Directive = coordination.Ending
			if p.core.Paused {
				p.memo.Bell.Directive = coordination.Pausing
			}
		case pipeline.Done:
			p.result = &c.Result
		case pipeline.Launch, pipeline.Hold, pipeline.Release: // carried out by the second loop
		}
	}
	p.show()
	for _, command := range commands {
		switch c := command.(type) {
		case pipeline.Launch:
			p.launch(c)
		case pipeline.Stop:
			p.step.stop()
		case pipeline.Hold:
			p.step.signal(drive.PauseSignal, nil)
		case pipeline.Release:
			p.step.signal(drive.ResumeSignal, nil)
		case pipeline.Keep:
			if p.step != nil {
				p.step.signal(drive.SaySignal, drive.Request{Text: c.Text})
			}
		case pipeline.Ring, pipeline.Done: // carried out by the first loop
		}
	}
}

// wait blocks until an event arrives, then passes all events that have arrived to the core.
func (p *run) wait() {
	selector := workflow.NewSelector(p.ctx)
	p.selectStep(selector)
	p.recorder.Select(p.ctx, selector, p)
	p.selectClock(selector)
	p.inbox.Wait(selector)
}

// selectStep adds the next result of the running step to the selector. It reports whether a step is
// running.
func (p *run) selectStep(selector workflow.Selector) bool {
	if p.step == nil {
		return false
	}
	p.step.addTo(selector)
	return true
}

// continueAsNew continues the run in a new execution.
func (p *run) continueAsNew() error {
	if err := p.recorder.Flush(p.ctx, p); err != nil {
		return err
	}
	p.inbox.ReceiveAll()
	in := p.in
	in.ID = p.id
	in.Continued = &acts.Saved{Core: p.core, Prepared: p.prepared, Recorded: p.recorded, Traced: p.traced, SecondsLeft: p.secondsLeft()}
	return workflow.NewContinueAsNewError(p.ctx, Workflow, in)
}

var verbs = []drive.Verb[pipeline.Event]{
	{
		Name: drive.SaySignal, Keys: []string{"text"}, About: "Send a message to the steps: {text}.",
		Input: func(in drive.Request) pipeline.Event { return pipeline.Said{Text: in.Text} },
	},
	{Name: drive.RetrySignal, About: "Continue the failed step of a parked run.", Event: pipeline.Retry{}},
	{Name: drive.ResumeSignal, About: "Resume after a pause.", Event: pipeline.Resume{}},
	{Name: drive.PauseSignal, About: "Suspend the running step, keeping its work, and launch nothing.", Event: pipeline.Pause{}},
}

// Refuse, Step, Reply, Over and Unread implement the listener of drive.Inbox.
func (p *run) Refuse(event pipeline.Event) error {
	if p.core == nil {
		return drive.ErrPreparing
	}
	return p.core.Refuse(event)
}

func (p *run) Step(event pipeline.Event) { p.core.Step(event) }

func (p *run) Reply() any { return p.glance() }

func (p *run) Over() bool { return p.result != nil }

func (p *run) Unread(signal, why string) { p.core.Unread(signal, why) }
