package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shop is a configuration that contains teams.
type shop struct {
	Shelves map[string]shelf `json:"shelves"`
	Teams   map[string]Team  `json:"teams"`
}

type shelf struct {
	Width  int            `json:"width" default:"80" min:"10" max:"200"`
	Place  string         `json:"place_url,omitempty"`
	KeyEnv string         `json:"api_key_env,omitempty"`
	Params map[string]any `json:"params,omitempty"`
}

func decodeShop(text string) (shop, error) {
	return Decode("shop.yaml", []byte(text), Cluster, func(s shop, c *Decoder) {
		for name, shelf := range s.Shelves {
			key := c.Key("shelves", name)
			c.API(key, shelf.Place, shelf.KeyEnv, shelf.Params)
			if shelf.Width == 13 {
				c.Report(key+".width", "an unlucky width")
			}
			if shelf.Place == "" {
				c.Report(key+".place_url", "missing")
			}
		}
	})
}

func TestDecode_readsTeamsWithinAnotherConfiguration(t *testing.T) {
	t.Parallel()
	s, err := decodeShop(`
shelves:
  a: {place_url: "http://h", params: {n_shelves: 3}}
  b: {place_url: "http://h", width: 100}
teams:
  one:
    agent: {id: agent_a, backend: {provider: p, model: m}}
`)
	require.NoError(t, err)
	require.Equal(t, shelf{Width: 80, Place: "http://h", Params: map[string]any{"n_shelves": int64(3)}}, s.Shelves["a"], "defaults are set in every entry")
	require.Equal(t, 100, s.Shelves["b"].Width)

	alone, err := Parse("team.yaml", []byte(`agent: {id: agent_a, backend: {provider: p, model: m}}`), Cluster)
	require.NoError(t, err)
	require.Equal(t, alone, s.Teams["one"], "a team is read alike within and alone")
}

func TestDecode_reportsEveryProblemAtItsPosition(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"empty":           {"", "shop.yaml:1:1: the configuration is empty"},
		"no mapping":      {"- a", "shop.yaml:1:1: expected a mapping, found a list"},
		"unknown key":     {"shelfs: {}", "shop.yaml:1:1: shelfs: unknown key; did you mean shelves?"},
		"elsewhere":       {"width: 3", "shop.yaml:1:1: width: unknown key; did you mean shelves.NAME.width?"},
		"elsewhere still": {"agents: []", "shop.yaml:1:1: agents: unknown key; did you mean teams.NAME.agents?"},
		"range and check": {
			"shelves:\n  a:\n    width: 5\n  b:\n    width: 13\n    place_url: http://h\n",
			"shop.yaml:3:5: shelves.a.place_url: missing\nshop.yaml:3:12: shelves.a.width: 5 is out of range; valid: 10 to 200\n" +
				"shop.yaml:5:12: shelves.b.width: an unlucky width",
		},
		"no check of an invalid value": {"shelves: {a: wide}", `shop.yaml:1:14: shelves.a: expected a mapping, found the string "wide"`},
		"a literal key": {
			"shelves:\n  a: {place_url: http://h, api_key: verysecret}\n",
			"shop.yaml:2:28: shelves.a.api_key: API keys do not belong in a configuration; put the key into an environment variable and name that in api_key_env, as in api_key_env: OPENAI_API_KEY",
		},
		"inside a team": {
			"teams:\n  one:\n    agents:\n      - id: agent_a\n        backend: {models: m}\n",
			"shop.yaml:5:18: teams.one.agents[0].backend.model: missing; name the model as the server knows it, such as gpt-5.2\n" +
				"shop.yaml:5:19: teams.one.agents[0].backend.models: unknown key; did you mean model?",
		},
		"a key of another place in a team": {
			"teams: {one: {agents: [{id: a, model: m, backend: {type: offline, params: {token: x}}}]}}",
			"shop.yaml:1:32: teams.one.agents[0].model: unknown key; did you mean agents[].backend.model?\n" +
				"shop.yaml:1:83: teams.one.agents[0].backend.params.token: a literal secret does not belong in a configuration; name the variable that holds the key in backend.api_key_env",
		},
		"an empty team": {"teams:\n  one:\n", "shop.yaml:2:7: teams.one: the configuration is empty; `conclave config init` writes a starter file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := decodeShop(tt.text)
			require.EqualError(t, err, tt.want)
			require.Zero(t, s, "nothing is returned with an error")
		})
	}
}

// The list of valid keys is not repeated, because a long one would hide the other problems.
func TestParse_listsTheKeysOfALargeSectionOnce(t *testing.T) {
	t.Parallel()
	_, err := Parse("team.yaml", []byte("agents: [{id: a, backend: {model: m}}]\norchestrator: {vitamins: 1, zebra: 2}\n"), Local)
	first, second, _ := strings.Cut(err.Error(), "\n")
	require.Contains(t, first, "orchestrator.vitamins: unknown key; valid: coordination_mode, pacing, ")
	require.Equal(t, "team.yaml:2:29: orchestrator.zebra: unknown key; the valid ones are listed above", second)
}

// Only keys that do not exist are marked as unknown.
func TestProblems_unknown(t *testing.T) {
	t.Parallel()
	_, err := Parse("team.yaml", []byte("agents: [{id: a, backend: {type: openai, model: m, models: n}}]\norchestrator: {fairness_enabled: 3}"), Local)
	var unknown []bool
	var problems Problems
	require.ErrorAs(t, err, &problems)
	for _, p := range problems {
		unknown = append(unknown, p.Unknown)
	}
	require.Equal(t, []bool{true, false}, unknown, err.Error())
}
