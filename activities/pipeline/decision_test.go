package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/pipeline"
	team "conclave/engine/session"
)

// The files of a decision become those of the run, and paths in its text theirs. The files of
// other answers that the text names are copied, too.
func TestRunPipelineStep_pathsOfADecision(t *testing.T) {
	t.Parallel()
	f, p := prepared(t)
	session := artifact.InBucket("p1-decide-l1")
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, session.File("session.json"), artifact.Session{}))
	answered := func(agent string, number int, text string, seen map[string]int, files ...string) artifact.Manifest {
		var m artifact.Manifest
		for _, name := range files {
			sum, err := artifact.PutBlob(t.Context(), f.store, session, []byte(name+" of "+agent))
			require.NoError(t, err)
			m.Files = append(m.Files, artifact.File{Path: name, Mode: 0o644, Size: int64(len(name + " of " + agent)), SHA256: sum})
		}
		data, err := artifact.EncodeJSON(m)
		require.NoError(t, err)
		sum, err := artifact.PutBlob(t.Context(), f.store, session, data)
		require.NoError(t, err)
		payload, err := json.Marshal(team.Answer{Answer: text, Label: "agent1.1"})
		require.NoError(t, err)
		c := artifact.Commit{Kind: "new_answer", Payload: payload, Manifest: sum, SeenSteps: seen}
		require.NoError(t, artifact.PutJSON(t.Context(), f.store, session.Step(agent, number, "action.json"), c))
		claim := artifact.Claim{SeenSteps: seen, Agents: []string{"agent_a", "agent_b", "agent_c"}}
		require.NoError(t, artifact.PutJSON(t.Context(), f.store, session.Step(agent, number, "step.json"), claim))
		return m
	}
	answered("agent_b", 1, "B.", nil, "plan.md")
	answered("agent_c", 1, "C.", nil, "other.md")
	files := answered("agent_a", 2, "See /tmp/w/conclave-step-7/files/report.md, /workspace/report.md and peers/agent2/plan.md.",
		map[string]int{"agent_b": 1, "agent_c": 1}, "report.md")
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, session.Final("agent_a", "workspace.json"), files))
	path := session.Final("agent_a", "answer.json")
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, path, artifact.Answer{AgentID: "agent_a", Answer: "See report.md.", Step: 2}))

	decided, err := run[StepResult](f, StepActivity, StepInput{
		Run: "p1", ConfigHash: p.ConfigHash, Launch: pipeline.Launch{ID: "l1", Step: "decide", Kind: pipeline.Session},
		Decision: &TeamDecision{Session: "p1-decide-l1", Status: "consensus", Path: f.store.URL(path)},
	})
	require.NoError(t, err)
	require.Equal(t, "See report.md, report.md and decide/peers/agent2/plan.md.", decided.Text)
	shared, err := artifact.LoadManifest(t.Context(), f.store, artifact.InPipeline("p1"), decided.Workspace)
	require.NoError(t, err)
	require.Equal(t, []string{"decide/peers/agent2/plan.md", "report.md"}, []string{shared.Files[0].Path, shared.Files[1].Path})
	require.Len(t, shared.Files, 2)
}

// A team starts with the run's files as its base, and its answer's files replace them.
func TestTeam_files(t *testing.T) {
	t.Parallel()
	f, p := prepared(t)
	layout := artifact.InPipeline("p1")
	launch := pipeline.Launch{ID: "l1", Step: "decide", Kind: pipeline.Session, Workspace: stored(t, f.store, layout, "plan.md", "P", "gone.md", "G")}
	in := StepInput{Run: "p1", ConfigHash: p.ConfigHash, Launch: launch}
	q, err := run[TeamQuestion](f, "AskTeam", in)
	require.NoError(t, err)
	hash, err := snapshot.Parse(q.Base)
	require.NoError(t, err)
	b, err := snapshot.Open(t.Context(), f.store, hash)
	require.NoError(t, err)
	require.Equal(t, []string{"gone.md", "plan.md"}, pathsOf(b.Manifest()))

	session := artifact.InBucket("team").On(b)
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, session.File("session.json"), artifact.Session{Material: q.Material}))
	change, err := artifact.LoadChange(t.Context(), f.store, session, stored(t, f.store, session, "plan.md", "P", "new.md", "N"))
	require.NoError(t, err)
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, session.Final("agent_a", "workspace.json"), change))
	path := session.Final("agent_a", "answer.json")
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, path, artifact.Answer{AgentID: "agent_a", Answer: "See new.md."}))
	in.Launch.ID = "l2"
	in.Decision = &TeamDecision{Session: "team", Status: "consensus", Path: f.store.URL(path)}
	decided, err := run[StepResult](f, StepActivity, in)
	require.NoError(t, err)
	files, err := artifact.LoadManifest(t.Context(), f.store, layout, decided.Workspace)
	require.NoError(t, err)
	require.Equal(t, []string{"new.md", "plan.md"}, pathsOf(files))
}

// A run takes no reserved name over, neither from a team's final answer nor from its own files.
func TestTeam_reservedNames(t *testing.T) {
	t.Parallel()
	f, p := prepared(t)
	layout, session := artifact.InPipeline("p1"), artifact.InBucket("team")
	crafted := func(of artifact.Layout) (artifact.Change, string) {
		sum, err := artifact.PutBlob(t.Context(), f.store, of, []byte("id"))
		require.NoError(t, err)
		c := artifact.Change{Files: []artifact.File{{Path: ".git/hooks/pre-commit", Mode: 0o755, Size: 2, SHA256: sum}}}
		data, err := artifact.EncodeJSON(c)
		require.NoError(t, err)
		hash, err := artifact.PutBlob(t.Context(), f.store, of, data)
		require.NoError(t, err)
		return c, hash
	}
	change, _ := crafted(session)
	path := session.Final("agent_a", "answer.json")
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, session.File("session.json"), artifact.Session{}))
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, session.Final("agent_a", "workspace.json"), change))
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, path, artifact.Answer{AgentID: "agent_a", Answer: "See."}))
	in := StepInput{Run: "p1", ConfigHash: p.ConfigHash, Launch: pipeline.Launch{ID: "l1", Step: "decide", Kind: pipeline.Session}}
	in.Decision = &TeamDecision{Session: "team", Status: "consensus", Path: f.store.URL(path)}
	_, err := run[StepResult](f, StepActivity, in)
	require.ErrorContains(t, err, "choose another")

	_, in.Launch.Workspace = crafted(layout)
	_, err = run[TeamQuestion](f, "AskTeam", in)
	require.ErrorContains(t, err, "choose another")
}

// stored stores a tree of alternating names and contents and returns the hash of its change.
func stored(t *testing.T, store artifact.Store, layout artifact.Layout, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o644))
	}
	_, hash, err := artifact.OpenWorkingCopy(store, layout, dir, "").Seal(t.Context())
	require.NoError(t, err)
	return hash
}

func pathsOf(m artifact.Manifest) []string {
	var paths []string
	for _, f := range m.Files {
		paths = append(paths, f.Path)
	}
	return paths
}
