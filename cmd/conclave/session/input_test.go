package session

import (
	"encoding/json"
	"strings"
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

	got, err := newOrder(&hall.CLI{}, cluster, &team.Worker{}, flags{}, "Why?")
	require.NoError(t, err, "keys are the workers' business")
	parsed, err := config.Parse("inline", got.input.Config, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, config.Default(), parsed)
	require.Empty(t, got.input.Team)

	got, err = newOrder(&hall.CLI{}, cluster, &team.Worker{}, flags{offline: true}, "Why?")
	require.NoError(t, err)
	parsed, err = config.Parse("inline", got.input.Config, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, config.Offline, parsed.Agents[0].Backend.Type)

	got, err = newOrder(&hall.CLI{}, cluster, &team.Worker{}, flags{team: "reviewers"}, "Why?")
	require.NoError(t, err)
	require.Equal(t, "reviewers", got.input.Team)
	require.Empty(t, got.input.Config)

	s.File("local.yaml", mixedTeam)
	_, err = newOrder(&hall.CLI{Config: "local.yaml"}, cluster, &team.Worker{}, flags{}, "Why?")
	require.ErrorContains(t, err, "local.yaml:6", "a cluster accepts no base_url of ours")
}

func TestNewOrder_criteria(t *testing.T) {
	s := newShell(t)
	s.File("criteria.json", `[{"text":"It is short."}]`)
	s.File("bad.json", `[{"txt":"?"}]`)
	got, err := newOrder(&hall.CLI{}, hall.Target{Cluster: true}, &team.Worker{}, flags{criteria: "criteria.json"}, "Why?")
	require.NoError(t, err)
	require.JSONEq(t, `[{"text":"It is short."}]`, string(got.input.EvalCriteria))
	_, err = newOrder(&hall.CLI{}, hall.Target{Cluster: true}, &team.Worker{}, flags{criteria: "bad.json"}, "Why?")
	require.ErrorContains(t, err, "bad.json")

	s.File("odd.json", `[{"text":"It is short.","verify_by":["Count."]}]`)
	var stderr strings.Builder
	_, err = newOrder(&hall.CLI{Stderr: &stderr}, hall.Target{Cluster: true}, &team.Worker{}, flags{criteria: "odd.json"}, "Why?")
	require.NoError(t, err)
	require.Equal(t, "conclave: odd.json:1:37: [0].verify_by: ignored: expected a string, found a list\n", stderr.String())
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
	got, err := newOrder(&hall.CLI{}, here, &team.Worker{}, flags{team: activities.DefaultTeam}, "Why?")
	require.NoError(t, err)
	require.Equal(t, config.Default().Offline().Hash(), got.team.Hash())
}

// The team comes from --config, else from --team and the file of --worker-config, else it
// is that file's default.
func TestNewOrder_teamsOfAWorkerConfiguration(t *testing.T) {
	s := newShell(t)
	s.File("worker.yaml", `
providers:
  house: {base_url: "http://127.0.0.1:1/v1", api_key_env: HOUSE_KEY}
teams:
  default: {agents: [{id: solo, backend: {type: offline}}]}
  paid: {agents: [{id: guest, backend: {provider: house, model: m}}]}
`)
	s.File("own.yaml", "agents: [{id: mine, backend: {type: offline}}]\n")
	here := hall.Target{DataDir: t.TempDir()}
	order := func(c *hall.CLI, f flags) (order, error) {
		c.WorkerConfig = "worker.yaml"
		w, err := team.OpenWorker(c, here)
		require.NoError(t, err)
		return newOrder(c, here, w, f, "Why?")
	}
	got, err := order(&hall.CLI{}, flags{})
	require.NoError(t, err)
	require.Equal(t, "solo", got.team.Agents[0].ID)
	require.Equal(t, "default of worker.yaml", got.source)
	got, err = order(&hall.CLI{Config: "own.yaml"}, flags{})
	require.NoError(t, err)
	require.Equal(t, "mine", got.team.Agents[0].ID)

	_, err = order(&hall.CLI{}, flags{team: "paid"})
	require.ErrorContains(t, err, "the environment variable HOUSE_KEY is not set")
	t.Setenv("HOUSE_KEY", "k")
	got, err = order(&hall.CLI{}, flags{team: "paid"})
	require.NoError(t, err)
	require.Equal(t, "house", got.team.Agents[0].Backend.Provider)
	_, err = order(&hall.CLI{}, flags{team: "nobody"})
	require.ErrorContains(t, err, `there is no team "nobody" here, only "default", "paid"; "default" is that of`)
}
