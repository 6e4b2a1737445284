package session

import (
	"context"
	"errors"
	"fmt"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session"
	"conclave/engine/session/quality"
	"conclave/engine/text"
)

// Preparation is the kind of a document that a model makes before the first step.
type Preparation string

// The kinds of preparations.
const (
	Criteria Preparation = "criteria"
	Personas Preparation = "personas"
	Subtasks Preparation = "subtasks"
)

// duePreparations returns the preparations that a team needs; criteria is true if the session already
// has criteria.
func duePreparations(t config.Team, criteria bool) []Preparation {
	var due []Preparation
	c := t.Orchestrator.Coordination
	if c.EvaluationCriteriaGenerator.Enabled && !criteria && len(c.ChecklistCriteriaInline) == 0 {
		due = append(due, Criteria)
	}
	if c.PersonaGenerator.Enabled {
		due = append(due, Personas)
	}
	if t.Decomposes() && len(t.Agents) > 1 {
		due = append(due, Subtasks)
	}
	return due
}

// DraftInput requests a preparation.
type DraftInput struct {
	Session     string      `json:"session"`
	ConfigHash  string      `json:"config_hash"`
	Preparation Preparation `json:"preparation"`
}

// Drafted is a preparation as shown to people.
type Drafted struct {
	Preparation Preparation `json:"preparation"`

	// Items are the criteria, or the agents' personas or subtasks, sorted by agent ID. Each is truncated.
	Items []string `json:"items"`

	Fallback string    `json:"fallback,omitempty"` // why the model did not make them
	Usage    llm.Usage `json:"usage"`
}

// maxItem bounds an item of Drafted, in bytes.
const maxItem = 160

// Draft makes a preparation with one call to the first agent's model and stores it. A retry returns
// the stored one.
func (a *Activities) Draft(ctx context.Context, in DraftInput) (Drafted, error) {
	defer activities.Beat(ctx)()
	layout := artifact.InBucket(in.Session)
	t, err := a.Teams.ByHash(ctx, a.Store, layout, in.ConfigHash)
	if err != nil {
		return Drafted{}, err
	}
	session, err := artifact.ReadJSON[artifact.Session](ctx, a.Store, layout.File("session.json"))
	if err != nil {
		return Drafted{}, err
	}
	d := drafting{Activities: a, layout: layout, team: t, query: session.Query}
	return d.makePreparation(llm.WithDepth(ctx, session.Depth), in.Preparation)
}

func (d drafting) makePreparation(ctx context.Context, p Preparation) (Drafted, error) {
	switch p {
	case Criteria:
		return d.draftCriteria(ctx)
	case Personas:
		return d.draftPersonas(ctx)
	case Subtasks:
		return d.draftSubtasks(ctx)
	}
	return Drafted{}, activities.Invalid(fmt.Errorf("the preparation %q is unknown", p))
}

// drafting makes the preparations of a session.
type drafting struct {
	*Activities
	layout artifact.Layout
	team   config.Team
	query  string
}

func (d drafting) draftCriteria(ctx context.Context) (Drafted, error) {
	fallback := d.team.Criteria()
	if len(fallback) == 0 {
		fallback = quality.Defaults()
	}
	g := d.team.Orchestrator.Coordination.EvaluationCriteriaGenerator
	form := quality.Criteria(d.query, g.MinCriteria, g.MaxCriteria, fallback)
	made, err := readOrMake(ctx, d, "eval_criteria.json", form, session.CriteriaDocument)
	drafted := Drafted{Preparation: Criteria, Fallback: made.Fallback, Usage: made.Usage}
	for _, criterion := range made.Criteria {
		drafted.Items = append(drafted.Items, text.Truncate(criterion.Text, maxItem))
	}
	return drafted, err
}

func (d drafting) draftPersonas(ctx context.Context) (Drafted, error) {
	form := quality.Personas(d.query, len(d.team.Agents), d.team.Orchestrator.Coordination.PersonaGenerator.DiversityMode)
	made, err := readOrMake(ctx, d, session.PersonasFile, form, session.PersonasOf(d.team))
	drafted := Drafted{Preparation: Personas, Fallback: made.Fallback, Usage: made.Usage}
	for _, id := range session.IDs(d.team) {
		drafted.Items = append(drafted.Items, text.Truncate(made.Personas[id], maxItem))
	}
	return drafted, err
}

func (d drafting) draftSubtasks(ctx context.Context) (Drafted, error) {
	made, err := readOrMake(ctx, d, session.SubtasksFile, quality.Subtasks(d.query, len(d.team.Agents)), session.SubtasksOf(d.team))
	drafted := Drafted{Preparation: Subtasks, Fallback: made.Fallback, Usage: made.Usage}
	for _, id := range session.IDs(d.team) {
		drafted.Items = append(drafted.Items, text.Truncate(made.Subtasks[id].Subtask, maxItem))
	}
	return drafted, err
}

// readOrMake returns the document of a preparation. If the file does not exist in the session's
// directory, it makes and stores the document.
func readOrMake[T, D any](ctx context.Context, d drafting, file string, form quality.Form[T], document func(quality.Draft[T]) D) (D, error) {
	var none D
	key := d.layout.File(file)
	existing, err := artifact.ReadJSON[D](ctx, d.Store, key)
	if !errors.Is(err, artifact.ErrNotFound) {
		return existing, err
	}
	var made quality.Draft[T]
	if model, lack := d.Model(d.team.Agents[0]); lack != nil {
		made = form.Fall(lack)
	} else if made, err = quality.MakeDraft(ctx, model, form); err != nil {
		return none, err
	}
	written := document(made)
	err = artifact.CreateJSON(ctx, d.Store, key, written)
	if errors.Is(err, artifact.ErrExists) {
		return artifact.ReadJSON[D](ctx, d.Store, key)
	}
	return written, err
}
