package start

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// recordedSession returns the connection to a store with the sessions s1, which is decided, s2,
// which continues it, open, which still runs, and ended, which has no decision.
func recordedSession(t *testing.T) (*cli.Connection, *bytes.Buffer) {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), store, key, doc)) }
	of := config.Default().Offline()
	canonical, err := of.Canonical()
	require.NoError(t, err)
	for id, continues := range map[string]string{"s1": "", "s2": "s1"} {
		layout := artifact.InBucket(id)
		put(layout.File("session.json"), artifact.Session{Query: "Why?", ConfigHash: of.Hash(), Continues: continues})
		require.NoError(t, store.Create(t.Context(), layout.File("config.json"), canonical))
		put(layout.File("status.json"), acts.State{Status: "consensus", Final: &acts.FinalAnswer{Agent: "agent_a"}})
		put(layout.Final("agent_a", "answer.json"), artifact.Answer{Answer: "So."})
	}
	server := &stage.Server{}
	server.Add(&stage.Execution{ID: "open", Type: sessionflow.Type})
	for _, id := range []string{"open", "ended"} {
		put(artifact.InBucket(id).File("session.json"), artifact.Session{Query: "Why?", ConfigHash: of.Hash()})
	}
	var out bytes.Buffer
	return &cli.Connection{
		Client: server, Store: store, Target: cli.Target{DataDir: t.TempDir()}, CLI: &cli.CLI{Stdout: &out, Stderr: &out, Queue: workflows.TaskQueue},
	}, &out
}

// Without a team of its own a session uses that of the session that it continues.
func TestProceed(t *testing.T) {
	t.Parallel()
	conn, _ := recordedSession(t)
	w, err := teams.OpenWorker(conn.CLI, conn.Target)
	require.NoError(t, err)
	o := sessionOrder{input: sessionflow.Input{Query: "And then?", Continues: "s1"}}
	require.NoError(t, o.continueSession(t.Context(), conn, w, true))
	require.Equal(t, config.Default().Offline().Hash(), o.team.Hash())
	require.Equal(t, "session s1", o.source)
	require.True(t, o.offline, "and says that no model is asked")

	own := sessionOrder{input: o.input, team: config.Default()}
	require.NoError(t, own.continueSession(t.Context(), conn, w, true))
	require.Equal(t, config.Default().Hash(), own.team.Hash())

	for id, says := range map[string]string{
		"open":  "session open cannot be continued: it is still open; `conclave watch open",
		"ended": "session ended cannot be continued: it has no decision; `conclave list",
		"none":  "session none cannot be continued: the store has no such session",
	} {
		refused := sessionOrder{input: sessionflow.Input{Continues: id}}
		err := refused.continueSession(t.Context(), conn, w, true)
		require.ErrorContains(t, err, says)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
}

// The keys of a team with an offline agent are checked before the session starts.
func TestProceed_missingKey(t *testing.T) {
	t.Parallel()
	conn, _ := recordedSession(t)
	of, err := config.Parse("mixed.yaml", []byte(`agents:
  - {id: a, backend: {type: offline}}
  - {id: b, backend: {model: m, base_url: "http://127.0.0.1:1/v1", api_key_env: NOWHERE_SET_API_KEY}}
`), config.Local)
	require.NoError(t, err)
	_, err = teams.Registry(conn.Target).Register(of)
	require.NoError(t, err)
	layout := artifact.InBucket("mixed")
	require.NoError(t, artifact.PutJSON(t.Context(), conn.Store, layout.File("session.json"), artifact.Session{Query: "Why?", ConfigHash: of.Hash()}))
	require.NoError(t, artifact.PutJSON(t.Context(), conn.Store, layout.File("status.json"), acts.State{Status: "consensus", Final: &acts.FinalAnswer{Agent: "a"}}))
	require.NoError(t, artifact.PutJSON(t.Context(), conn.Store, layout.Final("a", "answer.json"), artifact.Answer{Answer: "So."}))
	w, err := teams.OpenWorker(conn.CLI, conn.Target)
	require.NoError(t, err)
	o := sessionOrder{input: sessionflow.Input{Query: "And then?", Continues: "mixed"}}
	require.ErrorContains(t, o.continueSession(t.Context(), conn, w, true), "NOWHERE_SET_API_KEY is not set")
}

// On a cluster the workers choose the team, except for an offline session.
func TestProceed_onACluster(t *testing.T) {
	t.Parallel()
	conn, _ := recordedSession(t)
	conn.Cluster = true
	o := sessionOrder{input: sessionflow.Input{Continues: "s1"}}
	require.NoError(t, o.continueSession(t.Context(), conn, &teams.Worker{}, false))
	require.Empty(t, o.input.Config)
	o.offline = true
	require.NoError(t, o.continueSession(t.Context(), conn, &teams.Worker{}, false))
	require.Contains(t, string(o.input.Config), "offline")

	conn.Store = nil
	o = sessionOrder{input: sessionflow.Input{Continues: "s1"}}
	require.NoError(t, o.continueSession(t.Context(), conn, &teams.Worker{}, false), "the workers check it")
	o.offline = true
	require.ErrorContains(t, o.continueSession(t.Context(), conn, &teams.Worker{}, false), "needs --bucket")
}

func TestChain(t *testing.T) {
	t.Parallel()
	conn, _ := recordedSession(t)
	require.Equal(t, []string{"s2", "s1"}, continuedIDs(t.Context(), conn, "s2"))
	require.Equal(t, []string{"gone"}, continuedIDs(t.Context(), conn, "gone"))
}
