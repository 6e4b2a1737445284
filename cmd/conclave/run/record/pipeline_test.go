package record

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
)

func TestReadPipeline(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	r.Visit(2, "main", "An old silent pond", "")
	p, err := ReadPipeline(t.Context(), r.Store, r.Layout)
	require.NoError(t, err)
	require.True(t, p.Running())
	require.Empty(t, p.Final)

	require.Empty(t, p.NoShell)

	r.Visit(5, "decide", "A frog jumps", "consensus")
	require.NoError(t, activities.CreateOnce(t.Context(), r.Store, r.Layout.File(activities.ShellFile), "no sandbox"))
	r.End("# Done")
	p, err = ReadPipeline(t.Context(), r.Store, r.Layout)
	require.NoError(t, err)
	require.False(t, p.Running())
	require.Equal(t, []string{"main", "decide", "export"}, p.Nodes)
	require.Equal(t, "Write a haiku.", p.Request)
	require.Equal(t, "# Done", p.Final)
	require.Equal(t, "no sandbox", p.NoShell)
	require.Equal(t, stage.Began.Add(7*time.Second), p.Ended())
	require.Equal(t, []string{"", "p1-decide-l2"}, []string{p.Visits[0].Session, p.Visits[1].Session})
	require.Equal(t, "A frog jumps", p.Visits[1].Text)
	require.Equal(t, "haiku.txt", p.Visits[1].Files[0].Path)
	require.Equal(t, 5*time.Second, p.Visits[1].Ended.Sub(p.Visits[1].Started))
}

// A team's step has begun with its session; in a copy, which has no session, it has begun when the step before
// ended.
func TestReadPipeline_teamTime(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	r.Visit(2, "main", "An old silent pond", "")
	r.Visit(5, "decide", "A frog jumps", "consensus")
	claim := r.Layout.PipelineStep(2, "decide", "step.json")
	began := func(created time.Time) time.Duration {
		require.NoError(t, artifact.PutJSON(t.Context(), r.Store, claim, artifact.Claim{Token: "r-1-l2", StartedAt: stage.Began.Add(7 * time.Second)}))
		require.NoError(t, artifact.PutJSON(t.Context(), r.Store, artifact.InBucket("p1-decide-l2").File("session.json"), artifact.Session{CreatedAt: created}))
		p, err := ReadPipeline(t.Context(), r.Store, r.Layout)
		require.NoError(t, err)
		return p.Visits[1].Started.Sub(stage.Began)
	}
	require.Equal(t, 3*time.Second, began(stage.Began.Add(3*time.Second)))
	require.Equal(t, 2*time.Second, began(time.Time{}))
}

// A team's session that the store lacks is not named.
func TestReadPipeline_noSession(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	r.Visit(2, "decide", "A frog jumps", "consensus")
	require.NoError(t, r.Store.Delete(t.Context(), artifact.InBucket("p1-decide-l1").File("session.json")))
	p, err := ReadPipeline(t.Context(), r.Store, r.Layout)
	require.NoError(t, err)
	require.Equal(t, "consensus", p.Visits[0].Team)
	require.Empty(t, p.Visits[0].Session)
}

func TestReadPipeline_refuses(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	_, err := ReadPipeline(t.Context(), r.Store, artifact.InPipeline("p2"))
	require.ErrorIs(t, err, ErrNone)
	require.NoError(t, r.Store.Delete(t.Context(), r.Layout.File("status.json")))
	require.NoError(t, r.Store.Create(t.Context(), r.Layout.File("status.json"), []byte("{")))
	_, err = ReadPipeline(t.Context(), r.Store, r.Layout)
	require.ErrorContains(t, err, "read status.json: ")
}

// A store lists the sessions and the runs of pipelines and scenarios, the newest first, damaged
// ones by ID.
func TestList(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	r.End("Done.")
	put := func(key, document string) { require.NoError(t, r.Store.Create(t.Context(), key, []byte(document))) }
	put("sessions/s1/session.json", `{"query":"Why?","created_at":"2026-11-22T10:00:00Z"}`)
	put("sessions/s1/status.json", `{"status":"consensus","cost":{"input_tokens":7,"model_calls":1}}`)
	put("sessions/s1/agents/agent_a/001/step.json", `{}`)
	put("sessions/s2/session.json", `{`)
	put("scenarios/buy/numbers/1", "r1")
	put("scenarios/buy/runs/r1/claims/001.json", `{}`)
	put("scenarios/buy/runs/r1/result.json", `{"scenario":"buy","title":"Buy a lamp","status":"fail","started_at":"2026-11-23T10:00:00Z","duration_ms":1500,"cost":{"model_calls":4}}`)
	put("scenarios/buy/runs/r0/result.json", `{"scenario":"buy","status":"pass"}`)
	list, err := List(t.Context(), r.Store)
	require.NoError(t, err)
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	require.Equal(t, []string{"buy/r1", "s1", "p1", "buy/r0", "s2"}, ids)
	require.Equal(t, Item{
		ID: "buy/r1", Kind: "scenario run", Query: "Buy a lamp", Status: "fail", Href: "/scenarios/buy/r1", Started: list[0].Started, Took: 1500 * time.Millisecond, Usage: list[0].Usage,
	}, list[0])
	require.EqualValues(t, 4, list[0].Usage.ModelCalls)
	require.Equal(t, "buy", list[3].Query, "a record without a title")
	list = slices.DeleteFunc(list, func(i Item) bool { return i.Kind == "scenario run" })
	require.Equal(t, "Why?", list[0].Query)
	require.Equal(t, "consensus", list[0].Status)
	require.EqualValues(t, 7, list[0].Usage.InputTokens)
	require.Equal(t, "pipeline run", list[1].Kind)
	require.Equal(t, "Write a haiku.", list[1].Query)
	require.Equal(t, "completed", list[1].Status)
	require.Zero(t, list[2].Started)
	require.Zero(t, list[2].Took)
}
