package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
)

// The team's session has a query with the request, and an ID that no session has used.
func TestAskTeam(t *testing.T) {
	t.Parallel()
	f, p := prepared(t)
	in := StepInput{Run: "p1", ConfigHash: p.ConfigHash, Launch: pipeline.Launch{ID: "l1", Step: "decide", Kind: pipeline.Session}}
	for _, id := range []string{"p1-decide-l1", "p1-decide-l1-2", "p1-decide-l1-3"} {
		q, err := run[TeamQuestion](f, "AskTeam", in)
		require.NoError(t, err)
		require.Equal(t, id, q.Session)
		require.Equal(t, "default", q.Team)
		require.Contains(t, q.Query, "Is it good?")
		require.Contains(t, q.Query, "A haiku")
		require.NoError(t, artifact.PutJSON(t.Context(), f.store, artifact.InBucket(id).File("session.json"), artifact.Session{}))
	}
}

// A run goes on with a session that the run before it had started, although its record may not have the launch. A
// session of a run that was reset is left alone.
func TestAskTeam_ofTheRunBefore(t *testing.T) {
	t.Parallel()
	f, p := prepared(t)
	in := StepInput{Run: "p1", Before: "run2", ConfigHash: p.ConfigHash, Launch: pipeline.Launch{ID: "l1", Step: "decide", Kind: pipeline.Session}}
	session := artifact.InBucket("p1-decide-l1").File("session.json")
	for parent, resumes := range map[string]bool{"run1": false, "run2": true} {
		require.NoError(t, artifact.PutJSON(t.Context(), f.store, session, artifact.Session{ParentRun: parent}))
		q, err := run[TeamQuestion](f, "AskTeam", in)
		require.NoError(t, err)
		require.Equal(t, resumes, q.Resume)
		require.Equal(t, resumes, q.Session == "p1-decide-l1")
	}
}

// The allowances of a launch are the limits of the session, whatever its team is.
func TestAskTeam_limits(t *testing.T) {
	t.Parallel()
	f, p := prepared(t)
	in := StepInput{Run: "p1", ConfigHash: p.ConfigHash, Launch: pipeline.Launch{ID: "l1", Step: "decide", Kind: pipeline.Session, Seconds: 90.5, CostUSD: 0.25}}
	q, err := run[TeamQuestion](f, "AskTeam", in)
	require.NoError(t, err)
	require.Equal(t, "default", q.Team)
	require.Equal(t, artifact.Limits{Seconds: 90.5, CostUSD: 0.25}, q.Limits)
}

// A team in the pipeline is the input's definition, or registered where that is possible; a
// team of the worker keeps its name.
func TestTeam(t *testing.T) {
	t.Parallel()
	own := config.Default()
	own.Agents[0].Backend.BaseURL = "http://127.0.0.1:8000/v1"
	a := &Activities{}
	for _, given := range []string{"", "own"} {
		name, definition, err := a.teamInput(config.PipelineStep{Team: given})
		require.NoError(t, err)
		require.Equal(t, given, name)
		require.Nil(t, definition)
	}
	name, definition, err := a.teamInput(config.PipelineStep{Config: &own})
	require.NoError(t, err)
	require.Empty(t, name)
	require.Contains(t, string(definition), "127.0.0.1:8000")

	a.Teams.Dir = t.TempDir()
	name, definition, err = a.teamInput(config.PipelineStep{Config: &own})
	require.NoError(t, err)
	require.Nil(t, definition)
	registered, err := a.Teams.ByName(name)
	require.NoError(t, err)
	require.Equal(t, own, registered)
}
