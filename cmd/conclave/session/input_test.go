package session

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
)

const mixedTeam = `
agents:
  - id: agent_a
    backend: {type: openai, model: m}
  - id: agent_b
    backend: {type: openai, model: m, base_url: "http://127.0.0.1:1/v1"}
  - id: agent_c
    backend: {type: openai, model: m, base_url: "http://127.0.0.1:1/v1", api_key_env: VLLM_API_KEY}
`

func TestNewOrder_clusterTeamInline(t *testing.T) {
	s := newShell(t)
	cluster := hall.Target{Cluster: true}

	got, err := newOrder(&hall.CLI{}, cluster, flags{}, "Why?")
	require.NoError(t, err, "keys are the workers' business")
	team, err := config.Parse("inline", got.input.Config, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, config.Default(), team)
	require.Empty(t, got.input.Team)

	got, err = newOrder(&hall.CLI{}, cluster, flags{offline: true}, "Why?")
	require.NoError(t, err)
	team, err = config.Parse("inline", got.input.Config, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, config.Offline, team.Agents[0].Backend.Type)

	got, err = newOrder(&hall.CLI{}, cluster, flags{team: "reviewers"}, "Why?")
	require.NoError(t, err)
	require.Equal(t, "reviewers", got.input.Team)
	require.Empty(t, got.input.Config)

	s.File("local.yaml", mixedTeam)
	_, err = newOrder(&hall.CLI{Config: "local.yaml"}, cluster, flags{}, "Why?")
	require.ErrorContains(t, err, "local.yaml:6", "a cluster accepts no base_url of ours")
}

func TestNewOrder_criteria(t *testing.T) {
	s := newShell(t)
	s.File("criteria.json", `[{"text":"It is short."}]`)
	s.File("bad.json", `[{"txt":"?"}]`)
	got, err := newOrder(&hall.CLI{}, hall.Target{Cluster: true}, flags{criteria: "criteria.json"}, "Why?")
	require.NoError(t, err)
	require.JSONEq(t, `[{"text":"It is short."}]`, string(got.input.EvalCriteria))
	_, err = newOrder(&hall.CLI{}, hall.Target{Cluster: true}, flags{criteria: "bad.json"}, "Why?")
	require.ErrorContains(t, err, "bad.json")
}

// The keys of a listed session are part of the contract.
func TestListed_keys(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(listed{
		SessionID: "s", Kind: "session", Status: "running", Query: "q", CreatedAt: time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC), Seconds: 1.5,
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"session_id":"s","kind":"session","status":"running","query":"q",
		"created_at":"2026-11-21T15:00:00Z","duration_seconds":1.5,"cost":null}`, string(data))
}

func TestNewOrder_defaultTeamByName(t *testing.T) {
	newShell(t)
	here := hall.Target{DataDir: t.TempDir()}
	_, err := team.DefaultWorker(&hall.Connection{CLI: &hall.CLI{}, Target: here}, config.Default().Offline())
	require.NoError(t, err)
	got, err := newOrder(&hall.CLI{}, here, flags{team: activities.DefaultTeam}, "Why?")
	require.NoError(t, err)
	require.Equal(t, config.Default().Offline().Hash(), got.team.Hash())
}
