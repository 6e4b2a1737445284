package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/scenario"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows"
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
	result, err := s.driveCore()
	if err != nil && ctx.Err() != nil {
		return s.endCancelled()
	}
	return result, err
}

// run drives one scenario.State. The number of steps bounds its history, so it never continues as new.
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
	inbox *workflows.Inbox[scenario.Event]
	memo  workflows.Memo

	teller workflows.Teller

	recorder workflows.Recorder
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
	s.inbox, err = workflows.Listen(ctx, "run", s, verbs, func() (acts.State, error) { return s.currentState(), nil }, s.readTimeline)
	return s, err
}

// driveCore executes the commands of the core and waits for events, in turn, until the run is over.
func (s *run) driveCore() (acts.Result, error) {
	s.showProgress()
	id := s.in.Plan.Slug + "/" + s.id
	s.teller.Subject = workflows.Subject{ID: id, Question: s.in.Plan.Title, Page: "/scenarios/" + id}
	if err := s.prepareRun(); err != nil {
		if s.ctx.Err() == nil {
			s.memo.Set(s.ctx, map[string]any{workflows.MemoStatus: string(scenario.Fail)})
			s.teller.TellRefused(s.ctx, err)
		}
		return acts.Result{}, workflows.FinalError(err)
	}
	if s.ctx.Err() != nil {
		return acts.Result{}, s.ctx.Err()
	}
	s.searchIndex().Begin(s.ctx)
	s.inbox.ReceiveAll() // a pause that has arrived prevents the first launch
	for {
		s.carryOut(s.core.Drain())
		if s.over {
			s.searchIndex().End(s.ctx, string(s.core.Status()), "", s.core.Usage)
			s.tellEnd()
			if err := s.recorder.Flush(s.ctx, s); err != nil {
				return acts.Result{}, err
			}
			return s.runResult(), nil
		}
		if s.recorder.Due() || s.due && !s.recorder.Writing() {
			s.recorder.Write(s.ctx, s)
		}
		selector := workflow.NewSelector(s.ctx)
		s.selectStep(selector)
		s.recorder.Select(s.ctx, selector, s)
		s.inbox.Wait(selector)
		if s.ctx.Err() != nil {
			return acts.Result{}, s.ctx.Err()
		}
	}
}

func (s *run) searchIndex() workflows.Index {
	return workflows.Index{Kind: workflows.KindScenario, Registered: s.prepared.Attributes}
}

// prepareRun claims the run and creates the core. A cancellation interrupts it only after two minutes,
// so that a claimed run can be completed.
func (s *run) prepareRun() error {
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
	ctx := workflows.Preparing(detached, "store the definition, claim the run")
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
	s.startCore()
	return nil
}

// startCore gives the core the counts of earlier executions, so that numbers of messages and events
// go on and a resumed step is not counted twice.
func (s *run) startCore() {
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
		s.noteEvent("started", "", "the run continues")
	} else {
		s.noteEvent("started", "", "the run began")
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
			s.memo.RingMessages(s.prepared.Messages, c.Messages)
			s.showProgress()
		case scenario.Stop:
			s.step.stopped = true
			s.step.cancel()
		case scenario.Launch:
			s.launchStep(c)
		case scenario.Record:
			s.due = true
		case scenario.Done:
			s.finishRun(c.Status)
		}
	}
	s.showProgress()
}

func (s *run) finishRun(status scenario.Status) {
	if s.over {
		return
	}
	now := workflow.Now(s.ctx)
	s.over, s.ended = true, &now
	s.noteEvent("ended", "", "the run ended: "+string(status))
}

func (s *run) readTimeline() ([]acts.Event, error) { return append([]acts.Event{}, s.events...), nil }

func (s *run) noteEvent(kind, step, text string) {
	s.events = append(s.events, acts.Event{
		Seq: s.prepared.Events + len(s.events) + 1, Time: workflow.Now(s.ctx).UTC(), Kind: kind, Step: step, Text: text,
	})
}

var verbs = []workflows.Verb[scenario.Event]{
	{
		Name: workflows.SaySignal, Kept: true, Keys: []string{"text"}, About: "Send a message to the running step, else to the next one: {text}.",
		Input: func(in workflows.Request) scenario.Event { return scenario.Said{Text: in.Text} },
	},
	{Name: workflows.ResumeSignal, About: "Resume after a pause.", Event: scenario.Resume{}},
	{Name: workflows.PauseSignal, About: "Suspend the running step, keeping its work, and launch nothing.", Event: scenario.Pause{}},
}

// Refuse, Step, Keep, Reply, Over and Unread implement the listener of workflows.Inbox.
func (s *run) Refuse(event scenario.Event) error {
	if s.core == nil {
		return workflows.ErrPreparing
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
		s.noteEvent("said", "", "a person said: "+text.Truncate(e.Text, maxLine))
	case scenario.Pause:
		s.held = workflow.Now(s.ctx)
		s.noteEvent("paused", "", "the run was paused")
	default:
		s.endPause()
		s.noteEvent("resumed", "", "the run was resumed")
	}
	s.due = true
}

func (s *run) Keep(ctx workflow.Context) { s.recorder.Keep(ctx) }

func (s *run) Over() bool { return s.over }

// Unread records a signal that could not be decoded.
func (s *run) Unread(signal, why string) {
	s.noteEvent("ignored", "", signal+" ignored: "+text.Truncate(why, maxLine))
	s.due = true
}

func (s *run) Reply() any {
	now := s.currentState()
	now.Steps, now.Plan = []scenario.Result{}, []scenario.StepRef{}
	return now
}

// showProgress updates the details in the Web UI and the memo. The memo can be read without a worker.
func (s *run) showProgress() {
	now := s.currentState()
	workflow.SetCurrentDetails(s.ctx, boardMarkdown(now, s.prepared))
	fields := map[string]any{
		MemoScenario: s.in.Plan.Slug, MemoRun: s.id, workflows.MemoQuery: s.in.Plan.Title, workflows.MemoStatus: string(now.Status),
		workflows.MemoStep: now.Step, workflows.MemoPaused: now.Paused,
	}
	if now.Status == scenario.Running && now.Paused {
		fields[workflows.MemoStatus] = workflows.Paused
	}
	if now.RunNumber > 0 {
		fields[memoRunNumber], fields[workflows.MemoOffline] = now.RunNumber, s.prepared.Offline
	}
	s.memo.Set(s.ctx, fields)
}

func (s *run) currentState() acts.State {
	now := acts.State{Result: s.runResult(), Plan: s.in.Plan.All(), Ignored: s.inbox.Ignored()}
	if now.Plan == nil {
		now.Plan = []scenario.StepRef{}
	}
	if s.core == nil {
		return now
	}
	now.Plan = s.prepared.Plan.All()
	if s.step != nil {
		now.Step = s.step.launch.Step.ID
	}
	return now
}

func boardMarkdown(r acts.State, p acts.Prepared) string {
	var b workflows.Board
	headline := string(r.Status)
	if r.Status == scenario.Running && r.Step != "" {
		headline = "at step " + r.Step
	}
	b.Headline(headline, fmt.Sprintf("%s · run %d", text.Markdown(r.Scenario), r.RunNumber), r.Cost)
	if r.Title != "" {
		b.Quote(r.Title)
	}
	if r.Status == scenario.Running && r.Paused {
		b.Print("**Paused:** nothing runs\n\n")
	}
	b.Ignored(r.Ignored)
	if p.Offline {
		b.WriteString("Offline: the built-in deterministic model plays the agents.\n\n")
	}
	printSteps(&b, r)
	b.Files(p.URL)
	return b.String()
}

func printSteps(b *workflows.Board, r acts.State) {
	b.WriteString("| step | | status | time | evidence |\n|---|---|---|---|---|\n")
	for i, ref := range r.Plan {
		status, spent, evidence := "–", "", 0
		switch {
		case i < len(r.Steps):
			one := r.Steps[i]
			status, evidence = string(one.Status), len(one.EvidencePaths)
			if one.Status != scenario.Skipped {
				spent = (time.Duration(one.DurationMS) * time.Millisecond).Round(100 * time.Millisecond).String()
			}
		case ref.ID == r.Step:
			status = string(scenario.Running)
		}
		b.Print("| %s | %s | %s | %s | %d |\n", ref.ID, text.Markdown(text.Truncate(ref.Title, maxText)), status, spent, evidence)
	}
	b.WriteString("\n")
	for _, one := range r.Steps {
		if one.Error != nil {
			b.Print("- step %s: %s\n", one.ID, text.Markdown(text.Truncate(*one.Error, maxText)))
		}
	}
}
