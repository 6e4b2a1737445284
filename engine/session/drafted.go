package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session/quality"
	"conclave/engine/text"
)

// The files of the preparations at the root of a session, beside eval_criteria.json.
const (
	PersonasFile = "personas.json"
	SubtasksFile = "subtasks.json"
)

// origin has the fields that all documents of preparations share.
type origin struct {
	Fallback string    `json:"fallback,omitempty"` // the reason for which no model made them
	Usage    llm.Usage `json:"usage"`
}

// CriteriaMade is eval_criteria.json as a model has made it.
type CriteriaMade struct {
	Criteria config.Criteria `json:"criteria"`
	origin
}

// PersonasMade is personas.json, by agent ID.
type PersonasMade struct {
	Personas map[string]string `json:"personas"`
	origin
}

// SubtasksMade is subtasks.json, by agent ID.
type SubtasksMade struct {
	Subtasks map[string]quality.Subtask `json:"subtasks"`
	origin
}

// CriteriaDocument returns eval_criteria.json.
func CriteriaDocument(m quality.Draft[config.Criteria]) CriteriaMade {
	return CriteriaMade{m.Value, origin{m.Why, m.Usage}}
}

// PersonasOf returns the function that creates the personas.json of a team.
func PersonasOf(t config.Team) func(quality.Draft[[]string]) PersonasMade {
	return func(m quality.Draft[[]string]) PersonasMade {
		return PersonasMade{byID(t, m.Value), origin{m.Why, m.Usage}}
	}
}

// SubtasksOf returns the function that creates the subtasks.json of a team.
func SubtasksOf(t config.Team) func(quality.Draft[[]quality.Subtask]) SubtasksMade {
	return func(m quality.Draft[[]quality.Subtask]) SubtasksMade {
		return SubtasksMade{byID(t, m.Value), origin{m.Why, m.Usage}}
	}
}

// byID maps the IDs of a team's agents to values, which are in the order of the anonymous numbers.
func byID[T any](t config.Team, values []T) map[string]T {
	named := make(map[string]T, len(t.Agents))
	for i, id := range IDs(t) {
		if i < len(values) {
			named[id] = values[i]
		}
	}
	return named
}

// IDs returns the IDs of a team in byte order, which is the order of the anonymous numbers.
func IDs(t config.Team) []string {
	ids := text.Each(t.Agents, func(a config.Agent) string { return a.ID })
	slices.Sort(ids)
	return ids
}

// Drafts are the preparations of a session for one of its steps.
type Drafts struct {
	Criteria config.Criteria // criteria of the agent's part; empty for those of the session
	Persona  string          // persona of the agent; empty for none
}

// ReadDrafts reads the preparations for an agent. It returns the team with the subtasks that a
// model made, or with equal parts.
func ReadDrafts(ctx context.Context, store artifact.Store, layout artifact.Layout, t config.Team, agent string) (config.Team, Drafts, error) {
	var d Drafts
	if t.Orchestrator.Coordination.PersonaGenerator.Enabled {
		made, err := artifact.ReadJSON[PersonasMade](ctx, store, layout.File(PersonasFile))
		if err != nil && !errors.Is(err, artifact.ErrNotFound) {
			return t, d, fmt.Errorf("read the personas: %w", err)
		}
		d.Persona = made.Personas[agent]
	}
	if !t.Decomposes() {
		return t, d, nil
	}
	made, err := artifact.ReadJSON[SubtasksMade](ctx, store, layout.File(SubtasksFile))
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		made = SubtasksOf(t)(quality.Draft[[]quality.Subtask]{Value: quality.EqualParts(len(t.Agents))})
	case err != nil:
		return t, d, fmt.Errorf("read the subtasks: %w", err)
	}
	d.Criteria = made.Subtasks[agent].Criteria
	t.Agents = slices.Clone(t.Agents)
	for i := range t.Agents {
		t.Agents[i].Subtask = made.Subtasks[t.Agents[i].ID].Subtask
	}
	return t, d, nil
}
