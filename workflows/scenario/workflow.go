package scenario

import (
	"regexp"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/scenario"
	"conclave/engine/scenario"
	"conclave/workflows/drive"
)

// Scenario runs a scenario: one durable activity for each step. A run that fails
// completes the workflow; only invalid input fails it.
func Workflow(ctx workflow.Context, in Input) (Result, error) {
	s, err := newScenarioRun(ctx, in)
	if err != nil {
		return Result{}, err
	}
	return s.run()
}

// scenarioRun is the driver of one scenario.State, as session is that of a
// coordination.State. Its history is bounded by the number of steps, so it never
// continues as new.
type scenarioRun struct {
	ctx workflow.Context
	in  Input
	id  string

	prepared acts.Prepared
	core     *scenario.State // nil while preparing
	begun    time.Time       // when this workflow began to work on the run
	over     bool            // everything is done that the core wanted done
	ended    *time.Time      // when the run did; nil while it goes on

	trial   *trial        // the step that runs; nil for none
	worked  time.Duration // on the step that was suspended
	signals []scenarioSignal
	asked   workflow.Channel

	events    []acts.Event
	recorded  int // how many of them are on record
	stale     bool
	kept      []scenario.Result // the steps that are on record
	recording workflow.Future   // the record under way, nil for none
	writing   acts.RecordInput
	told      scenarioMemo
}

func newScenarioRun(ctx workflow.Context, in Input) (*scenarioRun, error) {
	s := &scenarioRun{ctx: ctx, in: in, id: in.RunID, begun: workflow.Now(ctx)}
	if s.id == "" {
		s.id = workflow.GetInfo(ctx).WorkflowExecution.ID
	}
	if err := in.validate(s.id); err != nil {
		return nil, err
	}
	if s.in.StepTimeoutSeconds == 0 {
		s.in.StepTimeoutSeconds = DefaultStepSeconds
	}
	err := workflow.SetQueryHandlerWithOptions(ctx, drive.StateQuery, func() (State, error) { return s.state(), nil }, workflow.QueryHandlerOptions{
		Description: "The whole state of the run: the steps with their status, evidence and cost.",
	})
	if err != nil {
		return nil, err
	}
	err = workflow.SetQueryHandlerWithOptions(ctx, drive.TimelineQuery, func() ([]Event, error) {
		return append([]Event{}, s.events...), nil
	}, workflow.QueryHandlerOptions{Description: "What happened in this workflow, in order."})
	if err != nil {
		return nil, err
	}
	return s, s.listen()
}

// validate refuses an input that cannot become a run.
func (in Input) validate(id string) error {
	switch {
	case in.malformed != "":
		return drive.Invalid(`the input is no run of a scenario: %s; give an object like {"plan":{…},"files":{…},"config":{…}}`, in.malformed)
	case len(in.Config) > drive.MaxConfig:
		return drive.Invalid("the config has %d bytes, at most %d are accepted", len(in.Config), drive.MaxConfig)
	case in.StepTimeoutSeconds < 0 || in.StepTimeoutSeconds > MaxStepSeconds:
		return drive.Invalid("step_timeout_seconds is %d; a step may take 1 to %d seconds", in.StepTimeoutSeconds, MaxStepSeconds)
	case in.After < 0:
		return drive.Invalid("after is %d; run numbers begin with 1", in.After)
	}
	if err := scenario.CheckRunID(id); err != nil {
		return drive.Invalid("%s", err.Error())
	}
	if in.Resume {
		return in.validateResume()
	}
	if err := in.Plan.Check(); err != nil {
		return drive.Invalid("%s", err.Error())
	}
	return in.validateFiles()
}

// hashForm is a SHA-256 in hex.
var hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// validateResume refuses what is not looked at when a run is gone on with.
func (in Input) validateResume() error {
	if err := scenario.CheckSlug(in.Plan.Slug); err != nil {
		return drive.Invalid("%s", err.Error())
	}
	if in.RunID == "" {
		return drive.Invalid("run_id is missing: it names the run to resume")
	}
	if len(in.Plan.Steps) > 0 || len(in.Files) > 0 || in.PRD != "" || in.PRDHash != "" {
		return drive.Invalid("a run is gone on with by the definition that it began with: leave plan.steps, files, prd and prd_sha256 out, or start a new run")
	}
	return nil
}

// validateFiles holds the files to the plan.
func (in Input) validateFiles() error {
	switch {
	case in.PRD != "" && in.PRDHash != "":
		return drive.Invalid("prd and prd_sha256 exclude each other: prd.md is in the input or in the store; leave one out")
	case in.PRDHash != "" && !hashForm.MatchString(in.PRDHash):
		return drive.Invalid("prd_sha256 is %.80q; it takes the SHA-256 of prd.md, 64 digits of lower-case hex", in.PRDHash)
	}
	size := len(in.PRD)
	for _, s := range in.Plan.Steps {
		text, ok := in.Files[s.File]
		switch {
		case !ok:
			return drive.Invalid("files lacks %s, the file of step %s", s.File, s.ID)
		case strings.TrimSpace(text) == "":
			return drive.Invalid("%s, the file of step %s, is empty: say what the step does", s.File, s.ID)
		}
		size += len(text) + len(s.Title)
	}
	switch {
	case len(in.Files) > len(in.Plan.Steps):
		return drive.Invalid("files has %d files for %d steps: give those that the plan names", len(in.Files), len(in.Plan.Steps))
	case size > MaxDefinition:
		return drive.Invalid("the files of the steps and prd.md have %d bytes, at most %d are accepted", size, MaxDefinition)
	}
	return nil
}

// run is the loop: drain the core, carry out its commands, wait, step it.
func (s *scenarioRun) run() (Result, error) {
	s.show()
	if err := s.prepare(); err != nil {
		if s.ctx.Err() != nil {
			s.refused(string(scenario.Cancelled))
			return Result{}, s.ctx.Err()
		}
		s.refused(string(scenario.Fail))
		return Result{}, drive.FinalError(err)
	}
	if s.ctx.Err() != nil {
		return Result{}, s.cancelled()
	}
	s.hearAll() // before the first launch: to pause is to launch nothing
	for {
		s.carryOut(s.core.Drain())
		if s.over {
			return s.end()
		}
		s.record()
		s.wait()
		if s.ctx.Err() != nil {
			return Result{}, s.cancelled()
		}
	}
}

// prepare claims the run and starts the core. It is finished also if the run is
// cancelled meanwhile, so that what was begun can be completed; but a store that is
// away does not keep the run from ending.
func (s *scenarioRun) prepare() error {
	info := workflow.GetInfo(s.ctx)
	input := acts.PrepareInput{
		Protocol: scenario.Protocol, RunID: s.id, WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID,
		Plan: s.in.Plan, Files: s.in.Files, PRD: s.in.PRD, PRDHash: s.in.PRDHash, After: s.in.After, Team: s.in.Team, Config: s.in.Config, Resume: s.in.Resume,
	}
	detached, stop := workflow.NewDisconnectedContext(s.ctx)
	defer stop()
	ctx := drive.Preparing(detached, "keep the definition, claim the run")
	preparing := workflow.ExecuteActivity(ctx, acts.PrepareName, input)
	done := func(workflow.Future) {}
	workflow.NewSelector(s.ctx).AddFuture(preparing, done).AddReceive(s.ctx.Done(), func(workflow.ReceiveChannel, bool) {}).Select(s.ctx)
	if !preparing.IsReady() {
		grace := workflow.NewTimerWithOptions(detached, drive.StoreGrace, workflow.TimerOptions{Summary: "for the run to be claimed"})
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

// start makes the core.
func (s *scenarioRun) start() {
	p := s.prepared
	s.core = scenario.New(p.Plan, p.Earlier)
	s.core.Rest, s.core.Carried = p.Rest, p.Spent
	s.core.Usage = s.core.Usage.Add(p.Spent)
	s.worked = time.Duration(p.SpentMS) * time.Millisecond
	s.kept = append([]scenario.Result{}, p.Earlier...)
	if p.Execution > 1 {
		s.note("started", "", "the run goes on")
	} else {
		s.note("started", "", "the run began")
	}
}

// carryOut does what the core decided.
func (s *scenarioRun) carryOut(commands []scenario.Command) {
	for _, command := range commands {
		switch c := command.(type) {
		case scenario.Stop:
			s.trial.stop()
		case scenario.Launch:
			s.launch(c)
		case scenario.Record:
			s.stale = true
		case scenario.Done:
			s.finish(c.Status)
		}
	}
	s.show()
}

// finish notes that the run is over.
func (s *scenarioRun) finish(status scenario.Status) {
	if s.over {
		return
	}
	now := workflow.Now(s.ctx)
	s.over, s.ended = true, &now
	s.note("ended", "", "the run ended: "+string(status))
}

// note adds to the timeline.
func (s *scenarioRun) note(kind, step, text string) {
	s.events = append(s.events, acts.Event{
		Seq: s.prepared.Events + len(s.events) + 1, At: workflow.Now(s.ctx).UTC(), Kind: kind, Step: step, Text: text,
	})
}

// wait blocks until something happens, and steps the core with everything that has
// happened by then.
func (s *scenarioRun) wait() {
	selector := workflow.NewSelector(s.ctx)
	if s.trial != nil {
		s.trial.hear(selector)
	}
	if s.recording != nil {
		selector.AddFuture(s.recording, func(f workflow.Future) { _ = s.wrote(s.ctx, f) })
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
}

// refusal is why an update is refused; nil if it is accepted. It changes nothing.
func (s *scenarioRun) refusal(event scenario.Event) error {
	switch {
	case s.core == nil:
		return temporal.NewNonRetryableApplicationError(
			"the run is still being prepared: ask again in a moment, or send a signal, which waits", drive.TooEarly, nil)
	case s.ctx.Err() != nil:
		return temporal.NewNonRetryableApplicationError("the run is cancelled", drive.Refused, nil)
	}
	if err := s.core.Refuse(event); err != nil {
		return temporal.NewNonRetryableApplicationError(err.Error(), drive.Refused, nil)
	}
	return nil
}
