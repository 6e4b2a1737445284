package session

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session"
)

func (f *floor) draft(p Preparation) (Drafted, error) {
	f.t.Helper()
	value, err := f.ExecuteActivity("Draft", DraftInput{Session: "s2", ConfigHash: f.Teams.Named[activities.DefaultTeam].Hash(), Preparation: p})
	var d Drafted
	if err == nil {
		require.NoError(f.t, value.Get(&d))
	}
	return d, err
}

// drafted is a floor with a prepared session whose team has every preparation.
func drafted(t *testing.T, model loop.Model, err error) *floor {
	t.Helper()
	f := newFloor(t)
	c := config.Default()
	c.Orchestrator.CoordinationMode = "decomposition"
	c.Orchestrator.Coordination.PersonaGenerator.Enabled = true
	c.Orchestrator.Coordination.EvaluationCriteriaGenerator.Enabled = true
	f.Teams.Named[activities.DefaultTeam] = c
	f.OnModel = func(config.Agent) (loop.Model, error) { return model, nil }
	p, prepareErr := f.prepare(PrepareInput{})
	require.NoError(t, prepareErr)
	require.Equal(t, []Preparation{Criteria, Personas, Subtasks}, p.Preparations)
	f.OnModel = func(config.Agent) (loop.Model, error) { return model, err }
	return f
}

func replies(text string) *script {
	return &script{replies: []func(context.Context) (llm.Message, error){func(context.Context) (llm.Message, error) { return llm.Message{Content: text}, nil }}}
}

// A preparation is stored, so that a retry of the activity pays nothing.
func TestDraft_isPaidOnce(t *testing.T) {
	t.Parallel()
	model := replies(`{"agent1": "Be quick.", "agent2": "Be slow.", "agent3": "Be kind."}`)
	f := drafted(t, model, nil)
	first, err := f.draft(Personas)
	require.NoError(t, err)
	require.Equal(t, Drafted{
		Preparation: Personas, Items: []string{"Be quick.", "Be slow.", "Be kind."}, Usage: llm.Usage{InputTokens: 100, OutputTokens: 10, ModelCalls: 1},
	}, first)
	again, err := f.draft(Personas)
	require.NoError(t, err)
	require.Equal(t, first, again, "with the usage, which an earlier attempt may not have reported")
	require.Equal(t, 1, model.calls)
}

// If another team asked the team, its calls name their depth.
func TestDraft_depth(t *testing.T) {
	t.Parallel()
	depth := -1
	model := &script{replies: []func(context.Context) (llm.Message, error){func(ctx context.Context) (llm.Message, error) {
		depth = llm.Depth(ctx)
		return llm.Message{Content: `{}`}, nil
	}}}
	f := drafted(t, model, nil)
	layout := artifact.InBucket("s2")
	session, err := artifact.ReadJSON[artifact.Session](t.Context(), f.store, layout.File("session.json"))
	require.NoError(t, err)
	session.Depth = 2
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, layout.File("session.json"), session))
	_, err = f.draft(Personas)
	require.NoError(t, err)
	require.Equal(t, 2, depth)
}

// Without a model the fallback counts, at no cost.
func TestDraft_withoutAModel(t *testing.T) {
	t.Parallel()
	f := drafted(t, nil, errors.New("the key is not set"))
	d, err := f.draft(Subtasks)
	require.NoError(t, err)
	require.Equal(t, "the key is not set", d.Fallback)
	require.Zero(t, d.Usage)
	require.Len(t, d.Items, 3)

	divided, drafts, err := session.ReadDrafts(t.Context(), f.store, artifact.InBucket("s2"), f.Teams.Named[activities.DefaultTeam], "agent_b")
	require.NoError(t, err)
	require.Contains(t, divided.Agents[1].Subtask, "Part 2 of 3")
	require.Empty(t, drafts.Criteria)
	require.Empty(t, f.Teams.Named[activities.DefaultTeam].Agents[1].Subtask, "the team itself is unchanged")
}

// A session that was reopened before its preparations has equal parts and no personas.
func TestReadDrafts_withoutPreparations(t *testing.T) {
	t.Parallel()
	f := drafted(t, nil, nil)
	divided, drafts, err := session.ReadDrafts(t.Context(), f.store, artifact.InBucket("s2"), f.Teams.Named[activities.DefaultTeam], "agent_c")
	require.NoError(t, err)
	require.Contains(t, divided.Agents[2].Subtask, "Part 3 of 3")
	require.Empty(t, drafts.Persona)
}

func TestDraft_unknownPreparation(t *testing.T) {
	t.Parallel()
	_, err := drafted(t, nil, nil).draft("songs")
	require.ErrorContains(t, err, `the preparation "songs" is unknown`)
}

// Criteria of the session, or of the team, need no call.
func TestPreparations(t *testing.T) {
	t.Parallel()
	c := config.Default()
	require.Empty(t, duePreparations(c, false))
	c.Orchestrator.Coordination.EvaluationCriteriaGenerator.Enabled = true
	require.Equal(t, []Preparation{Criteria}, duePreparations(c, false))
	require.Empty(t, duePreparations(c, true))
	c.Orchestrator.Coordination.ChecklistCriteriaInline = config.Criteria{{Text: "It is short."}}
	require.Empty(t, duePreparations(c, false))
	c.Orchestrator.CoordinationMode = "decomposition"
	c.Agents = c.Agents[:1]
	require.Empty(t, duePreparations(c, false), "one agent does it all")
}
