package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	acts "conclave/activities/pipeline"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows"
	"conclave/workflows/session"
)

// stepTime bounds one attempt at a step. A pipeline may have no time limit; its steps are bounded
// by model calls.
const stepTime = 24 * time.Hour

// step is a running step. It is either an activity or, for a session step, three parts in sequence:
// the activity that asks the team, the team's session, and the activity that stores the decision.
type step struct {
	p       *run
	launch  pipeline.Launch
	cancel  workflow.CancelFunc
	stopped bool

	question workflow.Future              // nil unless the question to the team or to a person is being written
	team     workflow.ChildWorkflowFuture // nil unless the session is running
	session  string                       // ID of the session
	renamed  bool                         // the first ID belonged to another session
	resumed  bool                         // an ended session is continued
	delay    workflow.Future              // set while the launch waits for the session to end
	delays   int                          // number of delays so far
	verbs    []teamVerb                   // received since the step began
	outbox   []teamVerb                   // to be sent to the session
	sending  workflow.Future              // of the verb on its way to the session; nil without one
	spent    llm.Usage                    // usage of the session, once it has decided
	began    time.Time                    // start of the session
	took     time.Duration                // duration of the session, once it has ended
	activity workflow.Future              // nil until the step's own activity runs

	reckoning *workflows.Reckoning // nil unless the activity has ended without reporting its end
	ctx       workflow.Context
}

func (p *run) launchStep(l pipeline.Launch) {
	s := &step{p: p, launch: l}
	s.ctx, s.cancel = workflow.WithCancel(p.ctx)
	p.steps = append(p.steps, s)
	switch {
	case l.Asks():
		ctx := workflows.Preparing(s.ctx, stepName(l)+" · its question to a person")
		s.question = workflow.ExecuteActivity(ctx, registered.AskPerson, s.activityInput(nil))
	case l.Kind == pipeline.Session:
		s.askTeam()
	default:
		s.beginActivity(nil)
	}
}

func (s *step) askTeam() {
	ctx := workflows.Preparing(s.ctx, stepName(s.launch)+" · the team's question")
	s.question = workflow.ExecuteActivity(ctx, registered.AskTeam, s.activityInput(nil))
}

func (s *step) activityInput(d *acts.TeamDecision) acts.StepInput {
	return acts.StepInput{Run: s.p.id, Before: s.p.before, ConfigHash: s.p.prepared.ConfigHash, Launch: s.launch, Decision: d}
}

func (s *step) beginActivity(d *acts.TeamDecision) {
	ctx := workflows.Step(s.ctx, fmt.Sprintf("%s-%s", s.launch.Step, s.launch.ID), stepSummary(s.launch), stepTime, s.p.prepared.HeartbeatTimeoutSeconds)
	s.activity = workflow.ExecuteActivity(ctx, acts.StepActivity, s.activityInput(d))
}

// stepName returns the name of a launch's step, with its branch.
func stepName(l pipeline.Launch) string {
	if l.Branch != "" {
		return l.Branch + " · " + l.Step
	}
	return l.Step
}

func stepSummary(l pipeline.Launch) string {
	text := fmt.Sprintf("%s · %s", stepName(l), l.Kind)
	switch {
	case l.Reply != nil:
		text += " · goes on with the reply"
	case l.Join != nil:
		text += " · joins its branches"
	case l.ResumeFrom != "":
		text += " · resumed"
	case l.Return != nil:
		text += " · returned from " + l.Return.Called.Step
	}
	return text
}

func (s *step) passVerb(name string, input any) {
	if s.launch.Kind != pipeline.Session || s.activity != nil {
		return
	}
	verb := teamVerb{name, input}
	s.verbs = append(s.verbs, verb) // kept for a session that replaces this one
	if s.team != nil {
		s.outbox = append(s.outbox, verb)
		s.sendVerb()
	}
}

// sendVerb sends the next verb once the one before has arrived, because the server may deliver two that
// are on their way in either order.
func (s *step) sendVerb() {
	if s.team == nil || s.sending != nil || len(s.outbox) == 0 {
		return
	}
	s.sending = s.team.SignalChildWorkflow(s.p.ctx, s.outbox[0].name, s.outbox[0].input)
	s.outbox = s.outbox[1:]
}

// teamVerb is a verb for the team of a session step.
type teamVerb struct {
	name  string
	input any
}

func (s *step) addTo(selector workflow.Selector) {
	switch {
	case s.reckoning != nil:
		selector.AddFuture(s.reckoning.Future, func(workflow.Future) { s.failStep(s.reckoning.End(s.p.ctx)) })
	case s.activity != nil:
		selector.AddFuture(s.activity, s.receiveEnd)
	case s.team != nil:
		selector.AddFuture(s.team, s.receiveAnswer)
		if s.sending != nil {
			selector.AddFuture(s.sending, func(workflow.Future) {
				s.sending = nil
				s.sendVerb()
			})
		}
	case s.question != nil:
		selector.AddFuture(s.question, s.receiveQuestion)
	case s.delay != nil:
		selector.AddFuture(s.delay, s.endDelay)
	}
}

// receiveQuestion begins the session of a step's team, or the wait for a person.
func (s *step) receiveQuestion(f workflow.Future) {
	var asked pipeline.Question
	var q acts.TeamQuestion
	to := any(&q)
	if s.launch.Asks() {
		to = &asked
	}
	if err := f.Get(s.p.ctx, to); err != nil {
		s.failStep(s.failureOf(err))
		return
	}
	if s.launch.Asks() {
		s.endStep(pipeline.Asked{Launch: s.launch.ID, Question: asked})
		return
	}
	s.session, s.resumed = cmp.Or(q.Session, s.activityInput(nil).TeamSession()), q.Resume
	ctx := workflow.WithChildOptions(s.ctx, workflow.ChildWorkflowOptions{
		WorkflowID: s.session, WaitForCancellation: true, StaticSummary: "team of step " + stepName(s.launch),
	})
	s.team = workflow.ExecuteChildWorkflow(ctx, session.Type, session.Input{
		Query: q.Query, Team: q.Team, Config: q.Config, AnswerSchema: q.AnswerSchema, Material: q.Material, Limits: q.Limits, Resume: q.Resume,
	})
	s.question, s.began = nil, workflow.Now(s.p.ctx)
	s.outbox, s.sending = nil, nil
	for _, message := range q.Messages {
		s.outbox = append(s.outbox, teamVerb{workflows.SaySignal, workflows.Request{Text: message}})
	}
	s.outbox = append(s.outbox, s.verbs...)
	s.sendVerb()
}

// maxDelays bounds the waits for a session to end before it is continued. A session that is ended
// with its pipeline may need a moment.
const maxDelays = 5

func (s *step) endDelay(f workflow.Future) {
	s.delay = nil
	if err := f.Get(s.p.ctx, nil); err != nil {
		s.failStep(s.failureOf(err))
		return
	}
	s.askTeam()
}

// receiveAnswer tells ends that are no failure of the team from those that are: an ID that was used
// before a reset is replaced, and a session that has not ended yet is waited for.
func (s *step) receiveAnswer(f workflow.Future) {
	var r session.Result
	err := f.Get(s.p.ctx, &r)
	s.team, s.took = nil, workflow.Now(s.p.ctx).Sub(s.began)
	switch {
	case err != nil && !s.stopped && s.resumed && alreadyRuns(err):
		if s.delays < maxDelays {
			s.delays++ // each wait for the end of the session is a second longer than the one before
			s.delay = workflow.NewTimerWithOptions(s.ctx, time.Duration(s.delays)*time.Second, workflow.TimerOptions{Summary: "until session " + s.session + " has ended"})
			return
		}
		s.breakStep("SessionRunning", "the session "+s.session+" is still running: retry after its end", llm.Usage{}, "")
	case err != nil && !s.stopped && s.resumed && workflows.FailureOf(err, "", false).Cause.Type == activities.Unresumable:
		s.endStep(pipeline.Broke{Launch: s.launch.ID, Anew: true, Cause: pipeline.Failure{
			Type: activities.Unresumable, Message: s.failureOf(err).Cause.Message + "; a retry asks the team anew",
		}})
	case err != nil && !s.stopped && !s.renamed && (alreadyRuns(err) || workflows.FailureOf(err, "", false).Cause.Type == activities.SessionTaken):
		// The workflow run before the reset has used the ID.
		s.renamed = true
		s.askTeam()
	case err != nil && !s.stopped && temporal.IsCanceledError(err):
		// An operator cancelled the session but not the run. Asking again would undo that.
		s.breakStep(activities.Cancelled, "the session "+s.session+" was cancelled", s.failureOf(err).Usage, workflows.Cancelled)
	case err != nil:
		s.failStep(s.failureOf(err))
	case r.Status == string(coordination.Undecided):
		s.breakStep("Undecided", "the session "+s.session+" ended undecided: its best answer has less support than act_when asks for", s.usageSince(r.Cost), r.Status)
	case r.Winner == "" || r.AnswerPath == nil:
		why := "the session " + s.session + " ended " + r.Status + " without an answer"
		if r.Error != nil {
			why += ": " + r.Error.Message
		}
		s.breakStep("NoDecision", why, s.usageSince(r.Cost), r.Status)
	default:
		s.spent = s.usageSince(r.Cost)
		s.beginActivity(&acts.TeamDecision{Session: s.session, Status: r.Status, Path: *r.AnswerPath, Cost: s.spent})
	}
}

// usageSince returns the part of the session's usage that earlier launches did not count.
func (s *step) usageSince(total llm.Usage) llm.Usage { return total.Since(s.launch.Counted) }

// breakStep fails a step whose team made no decision. status is the status of the session, or empty.
func (s *step) breakStep(kind, why string, usage llm.Usage, status string) {
	s.endStep(pipeline.Broke{Launch: s.launch.ID, Usage: usage, Cause: pipeline.Failure{Type: kind, Message: why}, Team: status, Seconds: s.took.Seconds()})
}

// failureOf converts the error of the question or the session, and adds the launch's token.
func (s *step) failureOf(err error) workflows.Failure {
	token := workflow.GetInfo(s.p.ctx).WorkflowExecution.RunID + "-" + s.launch.ID
	f := workflows.FailureOf(err, token, s.stopped)
	f.Usage = s.usageSince(f.Usage)
	return f
}

func alreadyRuns(err error) bool {
	_, running := errors.AsType[*temporal.ChildWorkflowExecutionAlreadyStartedError](err)
	return running
}

// receiveEnd passes the end of the activity to the core, or starts its reckoning if the end was not reported.
func (s *step) receiveEnd(f workflow.Future) {
	var r acts.StepResult
	if failure := workflows.Await(s.p.ctx, f, s.launch.ID, s.stopped, &r, func() string { return r.Token }); failure != nil {
		if failure.Unreported {
			s.startReckoning(*failure)
			return
		}
		s.failStep(*failure)
		return
	}
	r.Launch = s.launch.ID
	if s.launch.Kind == pipeline.Session {
		r.Seconds = s.took.Seconds()
	}
	s.endStep(r.Ended)
}

func (s *step) startReckoning(f workflows.Failure) {
	l := s.launch
	input := acts.ReckonInput{
		Run: s.p.id, Launch: pipeline.Launch{ID: l.ID, Step: l.Step, Kind: l.Kind, Branch: l.Branch, After: l.After, Most: l.Most, Workspace: l.Workspace},
		Ended: f.Ended(s.stopped && f.Suspended && !s.p.core.Done(), l.AwaySince),
	}
	s.reckoning = workflows.Reckon(s.p.ctx, f, l.Step, registered.ReckonPipelineStep, input)
}

// reckonLost starts the reckoning of cancelled steps that have not ended in time, and reports
// whether the run must wait for any. A team counts its usage itself.
func (p *run) reckonLost() (any bool) {
	for _, s := range p.steps {
		if s.reckoning == nil && s.activity != nil {
			s.startReckoning(workflows.Lost(p.ctx, s.launch.ID))
		}
		any = any || s.reckoning != nil
	}
	return any
}

func (s *step) endStep(e pipeline.Event) {
	s.p.steps = slices.DeleteFunc(s.p.steps, func(of *step) bool { return of == s })
	s.p.core.Step(e)
}

func (s *step) failStep(f workflows.Failure) {
	if f.Usage.ModelCalls == 0 && s.spent.ModelCalls > 0 { // the activity did not report its team's usage
		f.Usage = s.spent
	}
	if s.launch.Kind == pipeline.Session {
		f.Seconds = s.took.Seconds()
	}
	if f.Suspended {
		s.endStep(pipeline.Suspended{Launch: s.launch.ID, Number: f.Step, Token: f.Token, Usage: f.Usage, Seconds: f.Seconds, AwaySince: f.AwaySince})
		return
	}
	s.endStep(pipeline.Broke{Launch: s.launch.ID, Number: f.Step, Token: f.Token, Usage: f.Usage, Seconds: f.Seconds, Cause: pipeline.Failure(f.Cause)})
}
