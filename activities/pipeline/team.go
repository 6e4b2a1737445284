package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	pipelineagent "conclave/engine/pipeline/agent"
)

// AskTeam returns the input for the session of a session step. The query consists of the prompt,
// the request and the visible texts of earlier steps. The base is the run's files, the limits are
// the allowances of the launch, and the session ID is unused. If an earlier launch of the step has
// a session, that session is continued instead.
func (a *Activities) AskTeam(ctx context.Context, in StepInput) (TeamQuestion, error) {
	defer activities.Beat(ctx)()
	layout, l := artifact.InPipeline(in.Run), in.Launch
	last, free, err := a.teamSessions(ctx, in.TeamSession())
	if err != nil {
		return TeamQuestion{}, err
	}
	goesOn := l.TeamOf != ""
	if !goesOn && last != "" && in.Before != "" { // the record of the run before may lack its last launch
		session, err := artifact.ReadJSON[artifact.Session](ctx, a.Store, artifact.InBucket(last).File("session.json"))
		if err != nil {
			return TeamQuestion{}, err
		}
		goesOn = session.ParentRun == in.Before
	}
	if goesOn && last != "" {
		q := TeamQuestion{Session: last, Resume: true}
		q.Messages, err = pipelineagent.Step{Layout: layout, Launch: l}.TeamMessages(ctx, a.Store, l.Told, l.Messages)
		return q, err
	}
	p, s, claim, err := a.readDefinition(ctx, a.Store, layout, in)
	if err != nil {
		return TeamQuestion{}, err
	}
	asked := pipelineagent.Step{
		Layout: layout, Launch: l, Token: activity.GetInfo(ctx).WorkflowExecution.RunID + "-" + l.ID, Prompt: s.Prompt, Request: claim.Request, Inputs: claim.Inputs,
	}
	asked.Items, asked.ItemsPath = itemsFor(p, l)
	query, err := asked.Question(ctx, a.Store)
	if err != nil {
		return TeamQuestion{}, err
	}
	q := TeamQuestion{Query: query, Session: free, Limits: artifact.Limits{Seconds: l.Seconds, CostUSD: l.CostUSD}}
	if q.Material, err = a.teamMaterial(ctx, in, claim.Material); err != nil {
		return TeamQuestion{}, err
	}
	if s.Output != nil {
		if q.AnswerSchema, err = s.Output.MarshalJSON(); err != nil {
			return TeamQuestion{}, err
		}
	}
	q.Team, q.Config, err = a.teamInput(s)
	return q, err
}

// teamMaterial returns the run's context, and as the base the run's files at a launch.
func (a *Activities) teamMaterial(ctx context.Context, in StepInput, m artifact.Material) (artifact.Material, error) {
	if in.Launch.Workspace == "" {
		return m, nil
	}
	layout, err := activities.Start(ctx, a.Bases(), artifact.InPipeline(in.Run), m)
	if err != nil {
		return m, err
	}
	files, err := artifact.LoadManifest(ctx, a.Store, layout, in.Launch.Workspace)
	if err != nil {
		return m, fmt.Errorf("read the files of the run: %w", err)
	}
	hash, err := snapshot.Promote(ctx, a.Store, layout, files, a.Now)
	m.Base = snapshot.Reference(hash)
	return m, err
}

// teamInput returns the team of a session step as its session's input: by name if teams can be
// registered, because a registered team may contain more than an inline definition.
func (a *Activities) teamInput(s config.PipelineStep) (name string, definition json.RawMessage, err error) {
	switch {
	case s.Config == nil:
		return s.Team, nil, nil
	case a.Teams.Dir != "":
		name, err = a.Teams.Register(*s.Config)
	default:
		definition, err = s.Config.Canonical()
	}
	return name, definition, err
}

// maxSessions bounds the number of existing sessions that are skipped.
const maxSessions = 99

// teamSessions returns the newest session whose ID is id or id with a number, and the next unused
// ID of that form. last is empty if id is unused.
func (a *Activities) teamSessions(ctx context.Context, id string) (last, free string, err error) {
	free = id
	for n := 2; n <= maxSessions; n++ {
		taken, err := a.Store.Exists(ctx, artifact.InBucket(free).File("session.json"))
		if err != nil || !taken {
			return last, free, err
		}
		last, free = free, fmt.Sprintf("%s-%d", id, n)
	}
	return "", "", activities.Invalid(fmt.Errorf("%d sessions have the ID %s with a number: start the run with another ID", maxSessions-1, id))
}
