package pipeline

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/text"
)

// maxAsked bounds, in bytes, the part of a question that the workflow keeps; its document has the whole.
const maxAsked = 2 << 10

// AskPerson writes the question of an approval step, once, as questions/<id>.json. The ID belongs to the launch in
// this run of the workflow, so that a reset or reopened run does not take a reply to an earlier question for its own.
func (a *Activities) AskPerson(ctx context.Context, in StepInput) (pipeline.Question, error) {
	defer activities.Beat(ctx)()
	layout, l := artifact.InPipeline(in.Run), in.Launch
	p, s, claim, err := a.readDefinition(ctx, a.Store, layout, in)
	if err != nil {
		return pipeline.Question{}, err
	}
	asks := pipelineagent.Step{Layout: layout, Launch: l, Request: claim.Request, Inputs: claim.Inputs}
	asks.Items, asks.ItemsPath = itemsFor(p, l)
	q := pipeline.Question{Step: l.Step, Branch: l.Branch, Options: s.Options, Since: artifact.Timestamp(a.Now())}
	q.ID = fmt.Sprintf("q%s_%s_1", artifact.SessionHash(activity.GetInfo(ctx).WorkflowExecution.RunID), l.ID)
	if q.Text, err = asks.PersonQuestion(ctx, a.Store, s.Question); err != nil {
		return pipeline.Question{}, err
	}
	whole := artifact.Question{ID: q.ID, Kind: string(coordination.AskApproval), Agent: q.Place(), Text: q.Text, Options: q.Options}
	if err := activities.CreateOnce(ctx, a.Store, layout.Question(q.ID), whole); err != nil {
		return pipeline.Question{}, err
	}
	if len(q.Text) > maxAsked {
		q.Text, q.Path = text.Truncate(q.Text, maxAsked), "questions/"+q.ID+".json"
	}
	return q, nil
}
