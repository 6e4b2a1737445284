package scenario

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/scenario"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// registered is used to refer to the activities by their methods.
var registered *acts.Activities

// Workflow runs a scenario with a durable activity for each step. The workflow completes even if
// the run has failed; it fails only for invalid input.
func Workflow(ctx workflow.Context, in Input) (acts.Result, error) {
	s, err := newRun(ctx, in)
	if err != nil {
		return acts.Result{}, err
	}
	result, err := s.execute()
	if err != nil && ctx.Err() != nil {
		return s.cancelled()
	}
	return result, err
}

// run drives one scenario.State. The number of steps bounds its history, so it never continues as
// new.
type run struct {
	ctx workflow.Context
	in  Input
	id  string

	prepared acts.Prepared
	core     *scenario.State // nil while preparing
	begun    time.Time       // start of this execution
	held     time.Time       // start of the pause; zero without one
	idle     time.Duration   // total time of the earlier pauses
	over     bool            // every command is carried out
	ended    *time.Time      // nil before the end

	step  *step         // the running one; nil for none
	host  string        // the task queue of the process with the run's browser; empty without one
	rest  time.Duration // time that the suspended step has taken
	inbox *drive.Inbox[scenario.Event]
	memo  drive.Memo

	recorder drive.Recorder
	events   []acts.Event
	messages []scenario.Keep   // messages that are not recorded yet
	recorded int               // number of events on record
	due      bool              // the run has changed since the last record
	kept     []scenario.Result // results on record
	writing  acts.RecordInput
}

func newRun(ctx workflow.Context, in Input) (*run, error) {
	s := &run{ctx: ctx, in: in, id: cmp.Or(in.RunID, workflow.GetInfo(ctx).WorkflowExecution.ID), begun: workflow.Now(ctx)}
	if err := in.faults.Err("a run of a scenario", `{"plan":{…},"files":{…},"config":{…}}`); err != nil {
		return nil, err
	}
	if err := in.validate(s.id); err != nil {
		return nil, err
	}
	var err error
	s.inbox, err = drive.Listen(ctx, "run", s, verbs, func() (acts.State, error) { return s.state(), nil }, s.timeline)
	return s, err
}

// execute executes the commands of the core and waits for events, in turn, until the run is over.
func (s *run) execute() (acts.Result, error) {
	s.show()
	if err := s.prepare(); err != nil {
		if s.ctx.Err() == nil {
			s.memo.Set(s.ctx, map[string]any{drive.MemoStatus: string(scenario.Fail)})
		}
		return acts.Result{}, drive.FinalError(err)
	}
	if s.ctx.Err() != nil {
		return acts.Result{}, s.ctx.Err()
	}
	s.index().Begin(s.ctx)
	s.inbox.ReceiveAll() // a pause that has arrived prevents the first launch
	for {
		s.carryOut(s.core.Drain())
		if s.over {
			s.index().End(s.ctx, string(s.core.Status()), "", s.core.Usage)
			if err := s.recorder.Flush(s.ctx, s); err != nil {
				return acts.Result{}, err
			}
			return s.result(), nil
		}
		if s.due && !s.recorder.Writing() {
			s.recorder.Write(s.ctx, s)
		}
		s.wait()
		if s.ctx.Err() != nil {
			return acts.Result{}, s.ctx.Err()
		}
	}
}

func (s *run) index() drive.Index {
	return drive.Index{Kind: drive.KindScenario, Registered: s.prepared.Attributes}
}

// prepare claims the run and creates the core. A cancellation interrupts it only after two minutes,
// so that a claimed run can be completed.
func (s *run) prepare() error {
	info := workflow.GetInfo(s.ctx)
	runID := s.id
	if s.in.Resume {
		runID = s.in.RunID // if empty, the worker finds the run of this workflow ID
	}
	input := acts.PrepareInput{
		RunID: runID, Owner: artifact.Owner{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID},
		Plan: s.in.Plan, Files: s.in.Files, PRD: s.in.PRD, PRDHash: s.in.PRDHash, After: s.in.After, Team: s.in.Team, Config: s.in.Config, Resume: s.in.Resume,
		StepTimeoutSeconds: s.in.StepTimeoutSeconds,
	}
	detached, stop := workflow.NewDisconnectedContext(s.ctx)
	defer stop()
	ctx := drive.Preparing(detached, "store the definition, claim the run")
	preparing := workflow.ExecuteActivity(ctx, registered.PrepareScenario, input)
	done := func(workflow.Future) {}
	workflow.NewSelector(s.ctx).AddFuture(preparing, done).AddReceive(s.ctx.Done(), func(workflow.ReceiveChannel, bool) {}).Select(s.ctx)
	if !preparing.IsReady() {
		grace := workflow.NewTimerWithOptions(detached, 2*time.Minute, workflow.TimerOptions{Summary: "for the run to be claimed"})
		workflow.NewSelector(detached).AddFuture(preparing, done).AddFuture(grace, done).Select(detached)
	}
	if !preparing.IsReady() {
		return s.ctx.Err()
	}
	if err := preparing.Get(detached, &s.prepared); err != nil {
		return err
	}
	s.start()
	return nil
}

// start creates the core from the prepared run.
func (s *run) start() {
	p := s.prepared
	s.id = cmp.Or(p.RunID, s.id)
	s.in.StepTimeoutSeconds = cmp.Or(p.StepTimeoutSeconds, s.in.StepTimeoutSeconds, DefaultStepSeconds)
	s.in.Plan.Slug, s.in.Plan.Title = p.Plan.Slug, p.Plan.Title // slug and title of a resumed run
	s.core = scenario.New(p.Plan, p.Earlier)
	s.core.Rest, s.core.RestStep, s.core.Open = p.Rest, p.RestStep, p.Open
	s.core.Said, s.core.Heard, s.core.Announced = p.Messages, p.Messages, p.Messages
	if s.core.Uncounted = p.RestStep == "" || p.Unrecorded; !s.core.Uncounted {
		s.core.Continues = p.RestStep
	}
	s.kept = slices.Clone(s.core.Results)
	if p.Execution > 1 {
		s.note("started", "", "the run continues")
	} else {
		s.note("started", "", "the run began")
	}
}

// carryOut executes the commands of the core. It sets the memo, which contains the doorbell, before
// it launches a step, so that the step can read the messages.
func (s *run) carryOut(commands []scenario.Command) {
	for _, command := range commands {
		switch c := command.(type) {
		case scenario.Keep:
			s.messages = append(s.messages, c)
			s.due = true
		case scenario.Ring:
			s.memo.Bell.Epoch++
			s.memo.Bell.Messages = nil
			for n := s.prepared.Messages + 1; n <= c.Messages; n++ {
				s.memo.Bell.Messages = append(s.memo.Bell.Messages, coordination.Message{Number: n})
			}
			s.show()
		case scenario.Stop:
			s.step.stop()
		case scenario.Launch:
			s.launch(c)
		case scenario.Record:
			s.due = true
		case scenario.Done:
			s.finish(c.Status)
		}
	}
	s.show()
}

func (s *run) finish(status scenario.Status) {
	if s.over {
		return
	}
	now := workflow.Now(s.ctx)
	s.over, s.ended = true, &now
	s.note("ended", "", "the run ended: "+string(status))
}

// timeline handles TimelineQuery.
func (s *run) timeline() ([]acts.Event, error) { return append([]acts.Event{}, s.events...), nil }

// note adds an event to the timeline.
func (s *run) note(kind, step, text string) {
	s.events = append(s.events, acts.Event{
		Seq: s.prepared.Events + len(s.events) + 1, Time: workflow.Now(s.ctx).UTC(), Kind: kind, Step: step, Text: text,
	})
}

// wait blocks until an event arrives, then passes all events that have arrived to the core.
func (s *run) wait() {
	selector := workflow.NewSelector(s.ctx)
	s.selectStep(selector)
	s.recorder.Select(s.ctx, selector, s)
	s.inbox.Wait(selector)
}

var verbs = []drive.Verb[scenario.Event]{
	{
		Name: drive.SaySignal, Keys: []string{"text"}, About: "Send a message to the running step, else to the next one: {text}.",
		Input: func(in drive.Request) scenario.Event { return scenario.Said{Text: in.Text} },
	},
	{Name: drive.ResumeSignal, About: "Resume after a pause.", Event: scenario.Resume{}},
	{Name: drive.PauseSignal, About: "Suspend the running step, keeping its work, and launch nothing.", Event: scenario.Pause{}},
}

// Refuse, Step, Reply, Over and Unread implement the listener of drive.Inbox.
func (s *run) Refuse(event scenario.Event) error {
	if s.core == nil {
		return drive.ErrPreparing
	}
	return s.core.Refuse(event)
}

func (s *run) Step(event scenario.Event) {
	if s.core.Refuse(event) != nil {
		return
	}
	s.core.Step(event)
	switch e := event.(type) {
	case scenario.Said:
		s.note("said", "", "a person said: "+text.Truncate(e.Text, maxLine))
	case scenario.Pause:
		s.held = workflow.Now(s.ctx)
		s.note("paused", "", "the run was paused")
	default:
		s.endPause()
		s.note("resumed", "", "the run was resumed")
	}
	s.due = true
}

func (s *run) Over() bool { return s.over }

// Unread records a signal that could not be decoded.
func (s *run) Unread(signal, why string) {
	s.note("ignored", "", signal+" ignored: "+text.Truncate(why, maxLine))
	s.due = true
}

func (s *run) Reply() any {
	now := s.state()
	now.Steps, now.Plan = []scenario.Result{}, []scenario.StepRef{}
	return now
}
