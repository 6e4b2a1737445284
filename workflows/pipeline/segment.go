package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/activities/attempt"
	acts "conclave/activities/pipeline"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
	"conclave/workflows/session"
)

// segmentTime bounds one attempt of a segment. A pipeline has no clock of its own:
// what bounds a step is its model calls.
const segmentTime = 24 * time.Hour

// segment is a segment under way: an activity, or the session of a team and the
// activity that keeps what it came to.
type segment struct {
	p       *run
	launch  pipeline.Launch
	cancel  workflow.CancelFunc
	stopped bool

	asking   workflow.Future              // the question of a session step; nil if there is none
	team     workflow.ChildWorkflowFuture // its session; nil before it is asked, and after it has answered
	session  string                       // ID of that session
	renamed  bool                         // its first ID was another's
	waiting  []teamSignal                 // what people asked of the run meanwhile, for each session that is tried
	spent    llm.Usage                    // by it, once it has decided
	activity workflow.Future              // nil until the session has answered
	ctx      workflow.Context
}

// launch starts a segment.
func (p *run) launch(l pipeline.Launch) {
	s := &segment{p: p, launch: l}
	s.ctx, s.cancel = workflow.WithCancel(p.ctx)
	p.segment = s
	if l.Kind != pipeline.Session {
		s.begin(nil)
		return
	}
	s.ask()
}

// ask has the question of a session step put together.
func (s *segment) ask() {
	ctx := drive.Preparing(s.ctx, s.launch.Step+" · the team's question")
	s.asking = workflow.ExecuteActivity(ctx, acts.AskTeamName, s.input(nil))
}

func (s *segment) input(d *acts.TeamDecision) acts.SegmentInput {
	return acts.SegmentInput{Run: s.p.id, ConfigHash: s.p.prepared.ConfigHash, Launch: s.launch, Decision: d}
}

// begin starts the activity. Its ID is typable, for `temporal activity …`.
func (s *segment) begin(d *acts.TeamDecision) {
	ctx := drive.Step(s.ctx, fmt.Sprintf("%s-%s", s.launch.Step, s.launch.ID), segmentSummary(s.launch), segmentTime)
	s.activity = workflow.ExecuteActivity(ctx, acts.RunSegmentName, s.input(d))
}

// segmentSummary is the segment in the Web UI's event list.
func segmentSummary(l pipeline.Launch) string {
	text := fmt.Sprintf("%s · %s", l.Step, l.Kind)
	switch {
	case l.ResumeFrom != "":
		text += " · goes on"
	case l.Return != nil:
		text += " · back from " + l.Return.Called.Step
	}
	return text
}

// stop ends the segment. Whether it is to go on later is the core's business.
func (s *segment) stop() {
	s.stopped = true
	s.cancel()
}

// signal passes on to a session step's team what a person asked of the run.
func (s *segment) signal(ctx workflow.Context, name string, input any) {
	if s.team == nil && s.asking == nil {
		return
	}
	s.waiting = append(s.waiting, teamSignal{name, input}) // also for a session that takes its place
	if s.team != nil {
		// A session that has just ended takes no signal, and needs none.
		s.team.SignalChildWorkflow(ctx, name, input)
	}
}

// teamSignal is what a person asked of the run while its team was to be asked, or at
// work.
type teamSignal struct {
	name  string
	input any
}

// hear waits for what the segment waits for.
func (s *segment) hear(selector workflow.Selector) {
	switch {
	case s.activity != nil:
		selector.AddFuture(s.activity, func(f workflow.Future) { s.ended(s.p.ctx, f) })
	case s.team != nil:
		selector.AddFuture(s.team, func(f workflow.Future) { s.answered(f) })
	case s.asking != nil:
		selector.AddFuture(s.asking, func(f workflow.Future) { s.asked(f) })
	}
}

// asked starts the session of the team.
func (s *segment) asked(f workflow.Future) {
	var q acts.TeamQuestion
	if err := f.Get(s.p.ctx, &q); err != nil {
		s.over(s.unfinished(err))
		return
	}
	s.session = cmp.Or(q.Session, s.input(nil).TeamSession())
	ctx := workflow.WithChildOptions(s.ctx, workflow.ChildWorkflowOptions{
		WorkflowID: s.session, WaitForCancellation: true, StaticSummary: "team of step " + s.launch.Step,
	})
	s.team = workflow.ExecuteChildWorkflow(ctx, session.Type, session.Input{Query: q.Query, Team: q.Team, Config: q.Config})
	s.asking = nil
	for _, sig := range s.waiting {
		s.team.SignalChildWorkflow(s.p.ctx, sig.name, sig.input)
	}
}

// answered has the team's decision kept as the step's.
func (s *segment) answered(f workflow.Future) {
	var r session.Result
	err := f.Get(s.p.ctx, &r)
	s.team = nil
	switch {
	case err != nil && !s.stopped && !s.renamed && taken(err):
		// A reset to where the session began kept its ID, which is that of the one
		// before the reset.
		s.renamed = true
		s.ask()
	case err != nil && !s.stopped && temporal.IsCanceledError(err):
		// Not the run was cancelled, but the session: to ask again would undo that.
		s.over(pipeline.Broke{Launch: s.launch.ID, Usage: s.details(err).Usage, Cause: pipeline.Failure{
			Type: activities.Cancelled, Message: "the session " + s.session + " was cancelled",
		}})
	case err != nil:
		s.over(s.unfinished(err))
	case r.Winner == "" || r.AnswerPath == nil:
		cause := pipeline.Failure{Type: "NoDecision", Message: "the session " + s.session + " ended " + r.Status + " without an answer"}
		if r.Error != nil {
			cause.Message += ": " + r.Error.Message
		}
		s.over(pipeline.Broke{Launch: s.launch.ID, Cause: cause, Usage: r.Cost})
	default:
		s.spent = r.Cost
		s.begin(&acts.TeamDecision{Session: s.session, Status: r.Status, Path: *r.AnswerPath, Cost: r.Cost})
	}
}

// taken reports of a session that it could not begin because there is one with its
// ID: one that has ended, or one that is at work.
func taken(err error) bool {
	var running *temporal.ChildWorkflowExecutionAlreadyStartedError
	return errors.As(err, &running) || drive.Failure(err).Type == activities.SessionTaken
}

// ended feeds the outcome of the activity to the core.
func (s *segment) ended(ctx workflow.Context, f workflow.Future) {
	var r acts.SegmentResult
	if err := f.Get(ctx, &r); err != nil {
		s.over(s.unfinished(err))
		return
	}
	if !drive.IsToken(s.p.ctx, r.Token, string(s.launch.ID)) {
		s.over(pipeline.Broke{
			Launch: s.launch.ID, Token: drive.Token(s.p.ctx, string(s.launch.ID)), Usage: s.spent,
			Cause: pipeline.Failure(drive.ByHand()),
		})
		return
	}
	s.over(pipeline.Ended{
		Launch: s.launch.ID, Number: r.Number, Status: r.Status, Action: r.Action, To: r.To, Messages: r.Messages, Iterations: r.Iterations,
		Text: r.Text, Said: r.Said, Workspace: r.Workspace, Heard: r.Heard, Usage: r.Usage,
	})
}

// over tells the core how the segment ended.
func (s *segment) over(e pipeline.Event) {
	s.p.segment = nil
	s.p.core.Step(e)
}

// unfinished is a final error as an event.
func (s *segment) unfinished(err error) pipeline.Event {
	detail := s.details(err)
	if detail.Usage.ModelCalls == 0 && s.spent.ModelCalls > 0 { // it did not come to saying what its team spent
		detail.Usage = s.spent
	}
	if s.stopped || temporal.IsCanceledError(err) {
		return pipeline.Suspended{Launch: s.launch.ID, Number: detail.Step, Token: detail.Token, Usage: detail.Usage}
	}
	cause := drive.Failure(err)
	return pipeline.Broke{
		Launch: s.launch.ID, Number: detail.Step, Token: detail.Token, Usage: detail.Usage,
		Cause: pipeline.Failure{Type: cause.Type, Message: cause.Message},
	}
}

func (s *segment) details(err error) attempt.Failure {
	return drive.Details(err, drive.Token(s.p.ctx, string(s.launch.ID)))
}
