package pipeline

import (
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/pipeline"
	"conclave/engine/artifact"
	"conclave/engine/pipeline"
	"conclave/engine/step"
	"conclave/workflows/drive"
)

// Pipeline runs a step graph: one durable activity, or the session of a team, for
// each segment. A run that ends with the status error completes the workflow;
// only invalid input fails it.
func Workflow(ctx workflow.Context, in Input) (Result, error) {
	p, err := newPipelineRun(ctx, in)
	if err != nil {
		return Result{}, err
	}
	return p.run()
}

// pipelineRun is the driver of one pipeline.State, as session is that of a
// coordination.State.
type pipelineRun struct {
	ctx workflow.Context
	in  Input
	id  string

	prepared acts.Prepared
	core     *pipeline.State // nil while preparing
	begun    bool            // the directory is ours
	outcome  *pipeline.Outcome

	segment *segment // that runs; nil for none
	signals []pipelineSignal
	asked   workflow.Channel

	messages  []pipeline.Keep // said, and not on record
	recorded  int             // number of the last event on record
	traced    int             // entries of the trace on record
	recording workflow.Future // the record under way, nil for none
	writing   acts.RecordInput
	bell      step.Bell
	told      pipelineMemo
}

func newPipelineRun(ctx workflow.Context, in Input) (*pipelineRun, error) {
	p := &pipelineRun{ctx: ctx, in: in, id: in.ID}
	if p.id == "" {
		p.id = workflow.GetInfo(ctx).WorkflowExecution.ID
	}
	if err := in.validate(p.id, workflow.GetInfo(ctx).ContinuedExecutionRunID != ""); err != nil {
		return nil, err
	}
	if c := in.Continued; c != nil {
		p.core, p.prepared, p.recorded, p.traced = c.Core, c.Prepared, c.Recorded, c.Traced
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, drive.StateQuery, func() (State, error) { return p.state(), nil }, workflow.QueryHandlerOptions{
		Description: "The whole state of the run: the current step, who waits for it, the trace, cost.",
	})
	if err != nil {
		return nil, err
	}
	err = workflow.SetQueryHandlerWithOptions(ctx, drive.TimelineQuery, p.timeline, workflow.QueryHandlerOptions{
		Description: "The newest events, in order.",
	})
	if err != nil {
		return nil, err
	}
	return p, p.listen()
}

// validate refuses an input that cannot become a run.
func (in Input) validate(id string, continued bool) error {
	switch {
	case in.malformed != "":
		return drive.Invalid(`the input is no run of a pipeline: %s; give an object like {"request":"…","config":{…}}`, in.malformed)
	case in.Continued != nil && !continued:
		return drive.Invalid("continued is the workflow's own: leave it out")
	case strings.TrimSpace(in.Request) == "":
		return drive.Invalid(`the input has no request: give {"request":"…","config":{…}}`)
	case len(in.Request) > drive.MaxQuery:
		return drive.Invalid("the request has %d bytes, at most %d are accepted: put large material where the agents can read it", len(in.Request), drive.MaxQuery)
	case len(in.Config) > drive.MaxConfig:
		return drive.Invalid("the config has %d bytes, at most %d are accepted", len(in.Config), drive.MaxConfig)
	}
	if err := artifact.CheckSessionID(id); err != nil {
		return drive.Invalid("%s", err.Error())
	}
	return nil
}

// run is the loop: drain the core, carry out its commands, wait, step it.
func (p *pipelineRun) run() (Result, error) {
	p.show()
	if p.in.Continued == nil {
		if err := p.prepare(); err != nil {
			return Result{}, p.unprepared(err)
		}
	}
	p.begun = true
	p.hearAll() // before the first launch: to pause is to launch nothing
	for {
		if p.segment == nil && workflow.GetInfo(p.ctx).GetContinueAsNewSuggested() {
			return Result{}, p.continueAsNew()
		}
		p.carryOut(p.core.Drain())
		if p.outcome != nil {
			return p.end()
		}
		p.record()
		p.wait()
		if p.ctx.Err() != nil {
			return Result{}, p.cancelled()
		}
	}
}

// prepare resolves the pipeline and starts the core.
func (p *pipelineRun) prepare() error {
	info := workflow.GetInfo(p.ctx)
	input := acts.PrepareInput{
		Protocol: pipeline.Protocol, ID: p.id, WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID,
		Request: p.in.Request, Pipeline: p.in.Pipeline, Config: p.in.Config,
	}
	ctx := drive.Preparing(p.ctx, "resolve the pipeline, claim the run's directory")
	if err := workflow.ExecuteActivity(ctx, acts.PrepareName, input).Get(ctx, &p.prepared); err != nil {
		return err
	}
	p.core = pipeline.New(p.prepared.Graph)
	return nil
}

// carryOut does what the core decided. The memo is set before a segment is
// stopped: what a step is told outruns its end.
func (p *pipelineRun) carryOut(commands []pipeline.Command) {
	for _, command := range commands {
		switch c := command.(type) {
		case pipeline.Keep:
			p.messages = append(p.messages, c)
		case pipeline.Ring:
			p.ring(c.Messages)
		case pipeline.Stop:
			p.bell.Epoch++
			p.bell.Directive = p.directive()
		case pipeline.Done:
			p.outcome = &c.Outcome
		case pipeline.Launch, pipeline.Hold, pipeline.Release: // act
		}
	}
	p.show()
	for _, command := range commands {
		switch c := command.(type) {
		case pipeline.Launch:
			p.launch(c)
		case pipeline.Stop:
			p.segment.stop()
		case pipeline.Hold:
			p.segment.signal(p.ctx, drive.PauseSignal, nil)
		case pipeline.Release:
			p.segment.signal(p.ctx, drive.ResumeSignal, nil)
		case pipeline.Keep:
			if p.segment != nil {
				p.segment.signal(p.ctx, drive.SaySignal, drive.SayInput{Text: c.Text})
			}
		case pipeline.Ring, pipeline.Done: // noted
		}
	}
}

// ring tells the running step how many human messages there are.
func (p *pipelineRun) ring(messages int) {
	p.bell.Epoch++
	p.bell.Messages = nil
	for n := range messages {
		p.bell.Messages = append(p.bell.Messages, step.BellMessage{Number: n + 1})
	}
}

// directive is what a step that is stopped is told by the doorbell.
func (p *pipelineRun) directive() step.Directive {
	if p.core.Paused {
		return step.Pausing
	}
	return step.Ending
}

// wait blocks until something happens, and steps the core with everything that has
// happened by then.
func (p *pipelineRun) wait() {
	selector := workflow.NewSelector(p.ctx)
	if p.segment != nil {
		p.segment.hear(selector)
	}
	if p.recording != nil {
		selector.AddFuture(p.recording, func(f workflow.Future) { p.wrote(f.Get(p.ctx, nil)) })
	}
	for _, sig := range p.signals {
		selector.AddReceive(sig.channel, func(workflow.ReceiveChannel, bool) { p.hear(sig) })
	}
	selector.AddReceive(p.asked, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
	selector.AddReceive(p.ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	selector.Select(p.ctx)
	for selector.HasPending() && p.ctx.Err() == nil {
		selector.Select(p.ctx)
	}
}

// continueAsNew hands the run over to a new execution.
func (p *pipelineRun) continueAsNew() error {
	if err := p.flush(p.ctx, false); err != nil {
		return p.orCancelled(err)
	}
	p.hearAll()
	in := p.in
	in.ID = p.id
	in.Continued = &Continued{Core: p.core, Prepared: p.prepared, Recorded: p.recorded, Traced: p.traced}
	return workflow.NewContinueAsNewError(p.ctx, Workflow, in)
}

// unprepared ends a run that could not begin.
func (p *pipelineRun) unprepared(err error) error {
	if p.ctx.Err() != nil {
		return p.cancelled()
	}
	return drive.FinalError(err)
}

// refusal is why an update is refused; nil if it is accepted. It changes nothing.
func (p *pipelineRun) refusal(event pipeline.Event) error {
	switch {
	case p.core == nil:
		return temporal.NewNonRetryableApplicationError(
			"the run is still being prepared: ask again in a moment, or send a signal, which waits", drive.TooEarly, nil)
	case p.ctx.Err() != nil:
		return temporal.NewNonRetryableApplicationError("the run is cancelled", drive.Refused, nil)
	}
	if err := p.core.Refuse(event); err != nil {
		return temporal.NewNonRetryableApplicationError(err.Error(), drive.Refused, nil)
	}
	return nil
}
