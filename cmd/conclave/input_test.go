package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
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

func TestALocalTeamSaysWhereItsModelsAre(t *testing.T) {
	type where struct{ url, key string }
	for name, tt := range map[string]struct {
		env  map[string]string
		want []where
	}{
		"key": {
			map[string]string{"OPENAI_API_KEY": "sk-secret", "VLLM_API_KEY": "k"},
			[]where{{"https://api.openai.com/v1", "OPENAI_API_KEY"}, {"http://127.0.0.1:1/v1", ""}, {"http://127.0.0.1:1/v1", "VLLM_API_KEY"}},
		},
		"local server": {
			map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "VLLM_API_KEY": "k"},
			[]where{{"http://127.0.0.1:11434/v1", ""}, {"http://127.0.0.1:1/v1", ""}, {"http://127.0.0.1:1/v1", "VLLM_API_KEY"}},
		},
		"server with key": {
			map[string]string{"OPENAI_BASE_URL": "https://llm.example.com/v1", "OPENAI_API_KEY": "sk-secret", "VLLM_API_KEY": "k"},
			[]where{{"https://llm.example.com/v1", "OPENAI_API_KEY"}, {"http://127.0.0.1:1/v1", ""}, {"http://127.0.0.1:1/v1", "VLLM_API_KEY"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t)
			s.file(projectFile, mixedTeam) // found without --config
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			team, source, err := (&cli{}).localTeam(false)
			require.NoError(t, err)
			require.Equal(t, projectFile, source)
			var got []where
			for _, a := range team.Agents {
				got = append(got, where{a.Backend.BaseURL, a.Backend.APIKeyEnv})
			}
			require.Equal(t, tt.want, got)

			dir := t.TempDir()
			teams, err := (target{dataDir: dir}).teams(team)
			require.NoError(t, err)
			entries, err := os.ReadDir(teams.Dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "the team is registered")
			data, err := os.ReadFile(teams.Dir + "/" + entries[0].Name())
			require.NoError(t, err)
			require.NotContains(t, string(data), "sk-secret", "a key is never written")
			_, err = config.Parse("registered", data, config.Local)
			require.NoError(t, err)
		})
	}
}

func TestOfflineNeedsNoKey(t *testing.T) {
	s := newShell(t)
	s.file(projectFile, mixedTeam)
	team, _, err := (&cli{}).localTeam(true)
	require.NoError(t, err)
	for _, a := range team.Agents {
		require.Equal(t, config.Backend{Type: config.Offline}, a.Backend)
	}
}

func TestAClusterGetsTheTeamInline(t *testing.T) {
	s := newShell(t)
	cluster := target{cluster: true}

	got, err := (&cli{}).session(cluster, sessionFlags{}, "Why?")
	require.NoError(t, err, "keys are the workers' business")
	team, err := config.Parse("inline", got.input.Config, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, config.Default(), team)
	require.Empty(t, got.input.Team)

	got, err = (&cli{}).session(cluster, sessionFlags{offline: true}, "Why?")
	require.NoError(t, err)
	team, err = config.Parse("inline", got.input.Config, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, config.Offline, team.Agents[0].Backend.Type)

	got, err = (&cli{}).session(cluster, sessionFlags{team: "reviewers"}, "Why?")
	require.NoError(t, err)
	require.Equal(t, "reviewers", got.input.Team)
	require.Empty(t, got.input.Config)

	s.file("local.yaml", mixedTeam)
	_, err = (&cli{config: "local.yaml"}).session(cluster, sessionFlags{}, "Why?")
	require.ErrorContains(t, err, "local.yaml:6", "a cluster accepts no base_url of ours")
}

func TestEvaluationCriteria(t *testing.T) {
	s := newShell(t)
	s.file("criteria.json", `[{"text":"It is short."}]`)
	s.file("bad.json", `[{"txt":"?"}]`)
	got, err := (&cli{}).session(target{cluster: true}, sessionFlags{criteria: "criteria.json"}, "Why?")
	require.NoError(t, err)
	require.JSONEq(t, `[{"text":"It is short."}]`, string(got.input.EvalCriteria))
	_, err = (&cli{}).session(target{cluster: true}, sessionFlags{criteria: "bad.json"}, "Why?")
	require.ErrorContains(t, err, "bad.json")
}

func TestNewSessionIDs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 16, 30, 12, 0, time.FixedZone("", 3600))
	id := newSessionID(at)
	require.Regexp(t, `^20261121-153012-[a-z2-7]{4}$`, id)
	require.NoError(t, artifact.CheckSessionID(id))
	require.Less(t, id, newSessionID(at.Add(time.Second)), "IDs sort by time")
}

func TestFirstRunes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "äö", firstRunes("äöü", 2))
	require.Equal(t, "äöü", firstRunes("äöü", 3))
	require.Equal(t, strings.Repeat("x", 200), firstRunes(strings.Repeat("x", 300), 200))
}

// memoOf is a memo as the server returns it.
func memoOf(t *testing.T, values map[string]any) *commonpb.Memo {
	t.Helper()
	m := &commonpb.Memo{Fields: map[string]*commonpb.Payload{}}
	for k, v := range values {
		p, err := converter.GetDefaultDataConverter().ToPayload(v)
		require.NoError(t, err)
		m.Fields[k] = p
	}
	return m
}

func TestStatusOfASession(t *testing.T) {
	t.Parallel()
	with := func(values map[string]any) *commonpb.Memo { return memoOf(t, values) }
	stale := with(map[string]any{drive.MemoStatus: drive.Running, memoOffline: true})
	require.Equal(t, "running", statusOf(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil))
	require.Equal(t, "cancelled", statusOf(enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, stale), "Temporal's word counts")
	require.Equal(t, "failed", statusOf(enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, stale))
	require.Equal(t, "plurality", statusOf(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, with(map[string]any{drive.MemoStatus: "plurality"})))
	require.True(t, memo(stale, memoOffline, false))
	require.False(t, memo(with(map[string]any{memoOffline: "yes"}), memoOffline, false), "another type is as good as nothing")
}

func TestNewsAreShownOnce(t *testing.T) {
	t.Parallel()
	entries := func(from, to int) (list []coordination.Entry) {
		for seq := from; seq <= to; seq++ {
			list = append(list, coordination.Entry{Seq: seq})
		}
		return list
	}
	f := follower{}
	news, missed := f.news(entries(1, 3))
	require.Len(t, news, 3)
	require.Zero(t, missed)
	news, missed = f.news(entries(1, 5))
	require.Equal(t, entries(4, 5), news)
	require.Zero(t, missed)
	news, missed = f.news(entries(11, 60))
	require.Len(t, news, 50)
	require.Equal(t, 5, missed, "6 to 10 are no longer kept")
	news, _ = f.news(entries(11, 60))
	require.Empty(t, news)
}

// keys of a listed session are a contract.
func TestListedKeys(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(listed{SessionID: "s", Status: "running", Query: "q", CreatedAt: time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	require.JSONEq(t, `{"session_id":"s","status":"running","query":"q","created_at":"2026-11-21T15:00:00Z"}`, string(data))
}
